//go:build unix

package bboltguard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestMode opens stores that some may not read: they may not read the filter and its log either, also if
// it was there before with other permissions.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	path := filepath.Join(t.TempDir(), "db")
	for _, c := range []struct{ asked, want fs.FileMode }{{0, 0o600}, {0o666, 0o644}, {0, 0o640}, {0o640, 0o600}} {
		d, err := Open(path, 0o600, nil, &guard.Options{Mode: c.asked})
		must(t, err)
		must(t, d.Close())
		must(t, os.Chmod(path, c.want))
		must(t, os.Chmod(path+FilterSuffix, 0o644))
		d, err = Open(path, 0o600, nil, &guard.Options{Mode: c.asked})
		must(t, err)
		update(t, d, func(b *Bucket) error { return b.Put([]byte("k"), nil) })
		must(t, d.Guard().Sync())
		for _, suffix := range []string{FilterSuffix, FilterSuffix + ".stash"} {
			info, err := os.Stat(path + suffix)
			must(t, err)
			if got := info.Mode(); got != c.want {
				t.Errorf("the store has %#o, %s has %#o", c.want, suffix, got)
			}
		}
		must(t, d.Close())
	}
	must(t, os.Remove(path))
	must(t, os.Remove(path+FilterSuffix))
	d, err := Open(path, 0o600, nil, nil)
	must(t, err)
	info, err := os.Stat(path + FilterSuffix)
	must(t, err)
	if got := info.Mode(); got != 0o600 {
		t.Errorf("a new filter has %#o", got)
	}
	must(t, d.Close())
	refused := new(mmapfilter.OptionError)
	if _, err := Open(path, 0o600, nil, &guard.Options{Mode: fs.ModeSetuid | 0o600}); !errors.As(err, &refused) || refused.Field != "Mode" {
		t.Errorf("with other bits: %v", err)
	}
}
