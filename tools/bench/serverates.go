package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// serveCalls are the commands that redis-benchmark sends: ours, and the command of Redis that each
// is compared with. A command has this number of items.
var serveCalls = []struct {
	ours, theirs string
	items        int
}{
	{"CF.ADD", "SADD", 1},
	{"CF.EXISTS", "SISMEMBER", 1},
	{"CF.MEXISTS", "SMISMEMBER", 100},
}

// keysOfServe is how many keys redis-benchmark draws from.
const keysOfServe = 1_000_000

// A benchmarked is what redis-benchmark reports for a turn: commands a second, and percentiles of
// the milliseconds until a reply. The server took cpu microseconds a command.
type benchmarked struct{ rate, cpu, p50, p99, p999 float64 }

// rates prints what redis-benchmark reports for both servers: with the server on one core and
// redis-benchmark on the other, and with both on both cores.
func (v *serveRun) rates() (err error) {
	t := NewTable("cores", "-P", "command", "a second", "µs of processor", "ms, 50 %", "99 %", "99.9 %", "of Redis", "a second", "µs of processor", "ms, 50 %", "99 %", "99.9 %", "ratio of rates")
	for i, cores := range []string{"0", "0-1"} {
		var pair [2]*server
		for k, name := range []string{"filters", "redis"} {
			if pair[k], err = v.start(name+cores, cores); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, pair[k].end(syscall.SIGTERM)) }()
		}
		if _, err := pair[0].do("CF.RESERVE", "set", strconv.Itoa(keysOfServe)); err != nil {
			return err
		}
		for _, depth := range []int{1, 16, 64} {
			for _, c := range serveCalls {
				var ours, theirs []benchmarked
				for range v.rounds {
					v.note("%d cores, -P %d, %s", i+1, depth, c.ours)
					a, err := v.benchmark(pair[0], 1-i, depth, c.ours, c.items)
					if err != nil {
						return err
					}
					b, err := v.benchmark(pair[1], 1-i, depth, c.theirs, c.items)
					if err != nil {
						return err
					}
					ours, theirs = append(ours, a), append(theirs, b)
				}
				t.Row(slices.Concat([]string{strconv.Itoa(i + 1), strconv.Itoa(depth), named(c.ours, c.items)},
					cellsOf(ours), []string{named(c.theirs, c.items)}, cellsOf(theirs),
					[]string{fmt.Sprintf("%.2f", MedianRatio(column(ours, 0), column(theirs, 0)))})...)
			}
		}
	}
	v.print(t)
	return nil
}

func named(command string, items int) string {
	if items == 1 {
		return command
	}
	return fmt.Sprintf("%s of %d", command, items)
}

func column(all []benchmarked, i int) (values []float64) {
	for _, b := range all {
		values = append(values, [...]float64{b.rate, b.cpu, b.p50, b.p99, b.p999}[i])
	}
	return values
}

func cellsOf(all []benchmarked) []string {
	cells := []string{Grouped(int64(Median(column(all, 0))))}
	for i := 1; i < 5; i++ {
		cells = append(cells, fmt.Sprintf("%.2f", Median(column(all, i))))
	}
	return cells
}

var (
	throughput = regexp.MustCompile(`throughput summary: ([\d.]+) requests per second`)
	percentile = regexp.MustCompile(`(?m)^([\d.]+)% <= ([\d.]+) milliseconds \(cum`)
)

// benchmark runs a turn of redis-benchmark, with 50 connections. If alone is 1, redis-benchmark
// keeps off the core of the server.
func (v *serveRun) benchmark(s *server, alone, depth int, command string, items int) (b benchmarked, err error) {
	least := 1000 + 150*depth // in less than a millisecond, redis-benchmark says "inf"
	n := max(least, v.requests*map[int]int{1: 2, 16: 4, 64: 8}[depth]/4/min(items, 20))
	cores := []string{"0-1", "1"}[alone]
	args := append([]string{"-c", cores, "redis-benchmark", "-s", s.socket, "-P", strconv.Itoa(depth), "-n", strconv.Itoa(n),
		"-r", strconv.Itoa(keysOfServe), command, "set"}, slices.Repeat([]string{"__rand_int__"}, items)...)
	before, err := processorTime(s.cmd.Process.Pid)
	if err != nil {
		return b, err
	}
	cmd := exec.CommandContext(v.ctx, "taskset", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("redis-benchmark: %w: %s", err, out.String())
	}
	text := strings.ReplaceAll(out.String(), "\r", "\n")
	rate := throughput.FindStringSubmatch(text)
	if rate == nil || strings.Contains(text, "Error") {
		return b, fmt.Errorf("redis-benchmark says %q", text)
	}
	b.rate, _ = strconv.ParseFloat(rate[1], 64)
	after, err := processorTime(s.cmd.Process.Pid)
	b.cpu = (after - before).Seconds() * 1e6 / float64(n)
	for _, p := range percentile.FindAllStringSubmatch(text, -1) {
		share, _ := strconv.ParseFloat(p[1], 64)
		ms, _ := strconv.ParseFloat(p[2], 64)
		for _, to := range []struct {
			at    float64
			value *float64
		}{{50, &b.p50}, {99, &b.p99}, {99.9, &b.p999}} {
			if share >= to.at && *to.value == 0 {
				*to.value = ms
			}
		}
	}
	return b, err
}
