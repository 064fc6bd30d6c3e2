//go:build unix

package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// modes returns the permissions of a filter and of the files beside it, by suffix.
func modes(t *testing.T, path string) map[string]fs.FileMode {
	t.Helper()
	all := map[string]fs.FileMode{}
	paths, err := filepath.Glob(path + "*")
	must(t, err)
	for _, p := range paths {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a growth or a checkpoint has just ended
		}
		must(t, err)
		all[p[len(path):]] = info.Mode().Perm()
	}
	return all
}

// TestMode makes filters with Options.Mode. The file, its log and its hashes have these permissions,
// less the umask, also after a rebuild, a growth, a merge in place and a repair, whatever the options of
// these calls say.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for asked, want := range map[fs.FileMode]fs.FileMode{0: 0o644, 0o600: 0o600, 0o640: 0o640, 0o666: 0o644, 0o660: 0o640} {
		path := filepath.Join(t.TempDir(), "a")
		check := func(when string, suffixes ...string) {
			t.Helper()
			all := modes(t, path)
			for _, suffix := range suffixes {
				if _, ok := all[suffix]; !ok {
					t.Errorf("%s: there is no %q", when, suffix)
				}
			}
			for suffix, got := range all {
				// Until a new file is complete, only its owner may open it.
				if got != want && (got != 0o600 || suffix != ".tmp-rebuild" && suffix != ".stash.new") {
					t.Errorf("%#o, %s: %q has %#o", asked, when, suffix, got)
				}
			}
		}
		f, err := OpenOrCreate(path, &Options{Capacity: 1000, AutoGrow: true, Mode: asked}, nil)
		must(t, err)
		for i := range 3000 { // it grows
			must(t, f.Insert(fmt.Append(nil, i)))
		}
		check("filled", "", ".stash", ".hashes")
		must(t, f.Rebuild(context.Background(), nil))
		check("rebuilt", "", ".hashes")
		must(t, f.Close())
		must(t, Merge(context.Background(), path, &Options{Mode: 0o666}, path))
		check("merged in place", "", ".hashes")
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		if _, err := file.WriteAt([]byte("damage"), 100_000-100_000%4096-4096*4); err != nil {
			t.Fatal(err)
		}
		file.Close()
		repaired, err := Repair(context.Background(), path, nil)
		if err != nil || !repaired {
			t.Errorf("repair: %t, %v", repaired, err)
		}
		check("repaired", "", ".hashes")
		other := path + "-merged"
		must(t, Merge(context.Background(), other, &Options{Mode: asked, KeepHashes: true}, path))
		check("merged elsewhere", "-merged", "-merged.hashes")
	}
}

// TestModeOfReplaced builds a filter in the place of another. It gets the permissions that both the
// options and the other filter have.
func TestModeOfReplaced(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	path := filepath.Join(t.TempDir(), "a")
	for _, c := range []struct{ mode, want fs.FileMode }{{0o640, 0o640}, {0o666, 0o640}, {0, 0o640}, {0o606, 0o600}, {0o644, 0o600}} {
		f, err := Build(context.Background(), path, &Options{Mode: c.mode, KeepHashes: true}, func(func([]byte, error) bool) {})
		must(t, err)
		must(t, f.Close())
		for suffix, got := range modes(t, path) {
			if got != c.want {
				t.Errorf("with %#o, %q has %#o, not %#o", c.mode, suffix, got, c.want)
			}
		}
	}
}

// TestModeRefused tries permissions that no filter may have.
func TestModeRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, mode := range []fs.FileMode{0o1600, fs.ModeSetuid | 0o600, 0o10600, 0o066, 0o200, 0o400, 0o444} {
		o := &Options{Capacity: 10, Mode: mode}
		refused := new(OptionError)
		if _, err := Create(path, o); !errors.As(err, &refused) || refused.Field != "Mode" {
			t.Errorf("Create with %v: %v", mode, err)
		}
		if err := o.validate(); err == nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if all := modes(t, path); len(all) > 0 {
		t.Errorf("%v", all)
	}
}
