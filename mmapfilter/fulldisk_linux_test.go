package mmapfilter

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBuildOnAFullDisk builds on a file system of 4 MiB: a filter that is too large for it, and
// one that fits but whose hashes do not. It needs permission to mount one, if need be in its own
// user namespace.
func TestBuildOnAFullDisk(t *testing.T) {
	const variable, refused = "MMAPFILTER_TEST_MOUNT", 77
	dir := os.Getenv(variable)
	if dir == "" {
		cmd := exec.Command("unshare", "--mount", "--map-root-user", os.Args[0], "-test.run=^TestBuildOnAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitCode() == refused) {
			t.Skipf("NOT TESTED: a full disk: cannot mount a file system here: %v\n%s", err, out)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Log(err)
		os.Exit(refused)
	}
	path := filepath.Join(dir, "f")
	old, err := Build(context.Background(), path, nil, numbers(0, 100))
	must(t, err)
	old.Close()
	for name, c := range map[string]struct {
		opts Options
		keys uint64
	}{
		"a large capacity": {Options{Capacity: 10_000_000}, 1},
		"many keys":        {Options{}, 10_000_000},
		"many hashes":      {Options{Capacity: 1_000_000, MemoryBudget: 1 << 20}, 1_000_000},
	} {
		if _, err := Build(context.Background(), path, &c.opts, numbers(0, c.keys)); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: left %v, %v", name, entries, err)
		}
		f, err := OpenReadOnly(path, nil)
		if err != nil || f.Len() != 100 {
			t.Fatalf("%s: the older file: %v", name, err)
		}
		f.Close()
	}
}
