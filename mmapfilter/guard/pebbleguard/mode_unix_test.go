//go:build unix

package pebbleguard

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestMode opens stores whose files some may not read: they may not read the filter and its log either,
// also if it was there before with other permissions.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	dir := t.TempDir()
	filters := []string{filepath.Join(dir, FilterName), filepath.Join(dir, FilterName+".stash")}
	for _, want := range []fs.FileMode{0o644, 0o640, 0o600} {
		if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && path != filters[0] {
				err = os.Chmod(path, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		g := &guard.Options{Deletes: guard.Exact}
		d := mustOpen(t, dir, newest(), g)
		must(t, d.Set(number(int(want)), nil, nil))
		must(t, d.Guard().Sync())
		infos := map[string]fs.FileMode{}
		for _, path := range filters {
			info, err := os.Stat(path)
			must(t, err)
			infos[path] = info.Mode()
		}
		for path, got := range infos {
			if got&^want != 0 || got&0o600 != 0o600 {
				t.Errorf("the store has %#o, %s has %#o", want, path, got)
			}
		}
		must(t, d.Close())
	}
}
