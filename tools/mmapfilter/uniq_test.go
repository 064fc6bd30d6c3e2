package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestUniqManyLines checks that uniq prints the same lines as a set would, in the same order,
// even across two runs.
func TestUniqManyLines(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "100k", "-p", "1e-8", "--seed", "1", "f.mmf")
	const n = 200_000
	random := rand.New(rand.NewPCG(1, 2))
	seen := make(map[int]bool)
	for range 2 {
		var in, want strings.Builder
		for range n / 2 {
			line := random.IntN(n / 3)
			fmt.Fprintln(&in, line)
			if !seen[line] {
				seen[line] = true
				fmt.Fprintln(&want, line)
			}
		}
		exit, stdout, stderr := runHere(strings.NewReader(in.String()), "uniq", "--filter", "f.mmf")
		if exit != 0 || stdout != want.String() {
			t.Fatalf("exit %d, %d bytes, want %d, %s", exit, len(stdout), want.Len(), stderr)
		}
	}
}

// TestUniqPassesAtOnce checks that a typed line passes before more are typed.
func TestUniqPassesAtOnce(t *testing.T) {
	stdin, typed := io.Pipe()
	passed, stdout := io.Pipe()
	exit := make(chan int)
	go func() { exit <- run(context.Background(), []string{"uniq", "-n", "1k"}, stdin, stdout, io.Discard) }()
	for _, line := range []string{"b\n", "a\n"} {
		io.WriteString(typed, "b\n")
		io.WriteString(typed, line)
		got := make([]byte, 2)
		if _, err := io.ReadFull(passed, got); err != nil || string(got) != line {
			t.Fatalf("%q, %v", got, err)
		}
	}
	typed.Close()
	if e := <-exit; e != exitYes {
		t.Error(e)
	}
}

// manyLines returns n lines with the numbers from first on.
func manyLines(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, first+i)
	}
	return b.String()
}
