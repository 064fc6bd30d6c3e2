//go:build unix

package guardtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Mode opens stores that some users may not read. These users may not read the filter and its log
// either, even if the filter was there before with other permissions.
func Mode(t *testing.T, e Engine) {
	defer syscall.Umask(syscall.Umask(0o022))
	dir := t.TempDir()
	filter := filepath.Join(dir, e.Filter)
	mustHave := func(want fs.FileMode, paths ...string) {
		t.Helper()
		for _, path := range paths {
			info, err := os.Stat(path)
			Must(t, err)
			if got := info.Mode(); got != want {
				t.Errorf("the store has %#o, %s has %#o", want, filepath.Base(path), got)
			}
		}
	}
	for i, c := range []struct{ asked, want fs.FileMode }{{0, 0o600}, {0o666, 0o644}, {0, 0o640}, {0o640, 0o600}} {
		o := &guard.Options{Mode: c.asked, Deletes: guard.Exact}
		Must(t, e.MustOpen(t, dir, o).Close())
		Must(t, chmodStore(dir, e.Filter, c.want))
		Must(t, os.Chmod(filter, 0o644))
		d := e.MustOpen(t, dir, o)
		Set(t, d, i, i+1)
		Must(t, d.Guard().Sync())
		mustHave(c.want, filter, filter+".stash")
		Must(t, d.Close())
	}
	Must(t, os.Remove(filter))
	d := e.MustOpen(t, dir, nil)
	mustHave(0o600, filter)
	Must(t, d.Close())
	refused := new(mmapfilter.OptionError)
	if _, err := e.Open(dir, &guard.Options{Mode: fs.ModeSetuid | 0o600}, false); !errors.As(err, &refused) || refused.Field != "Mode" {
		t.Errorf("with other bits: %v", err)
	}
}

// chmodStore changes the permissions of the files of a store, without its filter.
func chmodStore(dir, filter string, mode fs.FileMode) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.HasPrefix(e.Name(), filter) {
			err = os.Chmod(path, mode)
		}
		return err
	})
}
