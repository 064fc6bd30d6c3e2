package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestArchivesAreReproducible makes archives twice, in two folders and from two clones, and compares bytes.
func TestArchivesAreReproducible(t *testing.T) {
	here, systems := must(filepath.Abs("../..")), []string{runtime.GOOS + "/" + runtime.GOARCH, "windows/amd64"}
	var made [2]string
	for i := range made {
		made[i] = t.TempDir()
		dir := filepath.Join(t.TempDir(), strings.Repeat("clone", i+1))
		git(here, "clone", "-q", here, dir)
		readTree(dir).writeArchives(made[i], systems)
	}
	files := must(os.ReadDir(made[0]))
	if want := len(systems) + 1 + strings.Count(strings.Join(systems, " "), "linux"); len(files) != want {
		t.Errorf("there are %d files, not %d", len(files), want)
	}
	for _, f := range files {
		a, b := must(os.ReadFile(filepath.Join(made[0], f.Name()))), must(os.ReadFile(filepath.Join(made[1], f.Name())))
		if !bytes.Equal(a, b) {
			t.Errorf("%s has other bytes the second time", f.Name())
		}
	}
}
