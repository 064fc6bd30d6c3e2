package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

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

// TestSetOfDeadWriter recovers a shard whose writer has died, and a set that has such a shard.
func TestSetOfDeadWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	die := func() {
		t.Helper()
		must(t, manyLines(0, 1000), "build", "-q", "-n", "2k", "-p", "1e-8", "--shards", "3", "-o", "f.set")
		shard := oneFile(t, "shard-00001-*.mmf")
		of, err := mmapfilter.OpenReadOnly(shard, nil)
		if err != nil {
			t.Fatal(err)
		}
		key := "0"
		for n := 0; sets.ShardOf(of.Hash([]byte(key)), 3) != 1; n++ {
			key = strconv.Itoa(n)
		}
		of.Close()
		if err := leaveDead(shard, "dead.mmf", key); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{".stash", ""} {
			if err := os.Rename("dead.mmf"+suffix, shard+suffix); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"verify", "f.set"}, {"info", "f.set"}, {"check", "-c", "f.set", "keys"}, {"add", "f.set", "keys"}} {
		die()
		if err := os.WriteFile("keys", []byte(manyLines(0, 1000)), 0o666); err != nil {
			t.Fatal(err)
		}
		if args[0] != "add" {
			exit, _, stderr := runHere(nil, args...)
			if exit != exitError || !strings.Contains(stderr, "its writer has died") {
				t.Errorf("%v: exit %d, %s", args, exit, stderr)
			}
			args = append(args, "--recover")
		}
		must(t, "", args...)
		must(t, "", "verify", "f.set")
		files, _ := filepath.Glob("*.stash")
		shards, _ := filepath.Glob("shard-*")
		if len(files) > 0 || len(shards) != 3 {
			t.Errorf("%v: %v, %v", args, files, shards)
		}
		for _, shard := range shards {
			os.Remove(shard)
		}
	}
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
