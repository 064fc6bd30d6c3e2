package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// runTasks runs this program with the arguments of each task, two processes at a time. It returns the
// highest peak memory that one of them prints.
func runTasks(ctx context.Context, tasks int, arguments func(i int) []string) (peak string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const atOnce = 2
	var group sync.WaitGroup
	var mu sync.Mutex
	next, most := 0, 0.0
	var failed error
	for range atOnce {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= tasks {
					return
				}
				command := exec.CommandContext(ctx, self, arguments(i)...)
				if tasks > 1 { // a core for each
					command.Env = append(os.Environ(), "GOMAXPROCS=1")
				}
				command.Stderr = os.Stderr
				out, err := command.Output()
				mu.Lock()
				text := strings.TrimSpace(string(out))
				if number, _, _ := strings.Cut(text, " "); err == nil {
					if v, _ := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64); v >= most {
						most, peak = v, text
					}
				} else if failed == nil {
					failed = fmt.Errorf("%v: %w", command.Args, err)
					cancel()
				}
				mu.Unlock()
			}
		}()
	}
	group.Wait()
	return peak, failed
}
