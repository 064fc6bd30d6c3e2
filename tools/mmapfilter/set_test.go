package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noError ends the test if err is not nil.
func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// must runs the program, which must succeed, and returns its output.
func must(t *testing.T, input string, args ...string) string {
	t.Helper()
	exit, stdout, stderr := runHere(strings.NewReader(input), args...)
	if exit != exitYes {
		t.Fatalf("%v: exit %d, %s", args, exit, stderr)
	}
	return stdout
}

// oneFile returns the file that matches a pattern.
func oneFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

func TestParseShards(t *testing.T) {
	for text, want := range map[string][]int{
		"0": {0}, "7": {7}, "0-3": {0, 1, 2, 3}, "5,1-2": {5, 1, 2}, "1/4": {1, 5, 9}, "9/10": {9}, "10/11": nil, "0/1": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		if got, err := parseShards(text, 10); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "3-10", "3-2", "-1", "1,1", "0-2,2", "1,", "a", "4/4", "1/0", "1/2/3", "18446744073709551615", "0-18446744073709551615", "+1"} {
		if got, err := parseShards(text, 10); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
