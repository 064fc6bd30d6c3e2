package readers

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLocks checks what locks of a live file mean: with a lock on byte 1, the file may be read; with
// locks on other bytes only, a process is recovering the file or about to.
func TestLocks(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		path := filepath.Join(t.TempDir(), "x.mmf")
		copyFile(t, "../../testdata/live/halves.mmf", path)
		w, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		defer w.Close()
		lock := func(part int64) {
			t.Helper()
			must(t, unix.FcntlFlock(w.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: part, Len: 1}))
		}
		s := openSession(t, v, path)
		s.want("no lock", "s", unrecovered)
		lock(0)
		s.want("byte 0", "s", recovering)
		lock(2)
		s.want("byte 0 and 2", "s", recovering)
		s.want("byte 0 and 2", "kabsent", maybe)
		openSession(t, v, path).want("byte 0 and 2", "s", recovering)
		lock(1)
		s.want("byte 1", "s", served)
		s.want("byte 1", "kabsent", certainlyNot)
		openSession(t, v, path).want("byte 1", "s", served)
	})
}
