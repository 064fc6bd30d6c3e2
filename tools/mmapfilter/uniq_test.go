package main

import (
	"fmt"
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

// manyLines returns n lines with the numbers from first on.
func manyLines(first, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, first+i)
	}
	return b.String()
}
