package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzDump prints parts of a file and a log with arbitrary contents. It must neither panic nor
// run forever.
func FuzzDump(f *testing.F) {
	dir := f.TempDir()
	live, dead := filepath.Join(dir, "f.mmf"), filepath.Join(dir, "dead.mmf")
	if exit, _, stderr := runHere(nil, "create", "-n", "50", "-p", "1e-6", "--seed", "1", live); exit != 0 {
		f.Fatal(stderr)
	}
	noError(f, leaveDead(live, dead, strings.Repeat("apple\npear\n", 20)))
	file, err := os.ReadFile(dead)
	noError(f, err)
	log, err := os.ReadFile(dead + ".stash")
	noError(f, err)
	file, log = file[:33<<10], log[:12<<10] // the rest is zero
	f.Add(file, log, -1, uint64(0))
	f.Add(file, log, 8200, ^uint64(0))
	f.Add(file, log[:8400], 100, uint64(1))
	f.Add(file[:20000], []byte{}, 0, uint64(0))
	f.Add([]byte{}, log, 0, uint64(0))
	f.Fuzz(func(t *testing.T, file, log []byte, word int, value uint64) {
		words := make([]uint64, len(log)/8)
		for i := range words {
			for j := range 8 {
				words[i] |= uint64(log[8*i+j]) << (8 * j)
			}
		}
		if word >= 0 && word < len(words) {
			words[word] = value
		}
		d := &dump{records: true, lines: true, to: 100, w: io.Discard}
		noError(t, d.file(bytes.NewReader(file), int64(len(file))))
		d.log(words, nil)
	})
}

// TestDumpDamaged checks that dump prints something about each part, however the files are truncated.
func TestDumpDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "50", "f.mmf")
	noError(t, leaveDead("f.mmf", "dead.mmf", "apple\npear\n"))
	for _, name := range []string{"dead.mmf", "dead.mmf.stash"} {
		whole, err := os.ReadFile(name)
		noError(t, err)
		for n := 1023; n <= len(whole); n += 1023 {
			noError(t, os.WriteFile(name, whole[:n], 0o666))
			exit, stdout, stderr := runHere(nil, "dump", "--log", "--lines", "0-1", "dead.mmf")
			if exit != 0 || !strings.Contains(stdout, "newest: ") || !strings.Contains(stdout, "stash: ") || stderr != "" {
				t.Fatalf("%s of %d bytes: exit %d, %s%s", name, n, exit, stdout, stderr)
			}
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, whole[:n]) {
				t.Fatal(name, "has changed", err)
			}
		}
		noError(t, os.WriteFile(name, whole, 0o666))
	}
	_, stdout, _ := runHere(nil, "dump", "dead.mmf")
	if !strings.Contains(stdout, "after LSN 2 and 2 records") {
		t.Error(stdout)
	}
}
