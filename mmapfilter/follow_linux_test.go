package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFollowWithoutPermission: a follower refuses a file that it may not read. It also refuses a file
// whose writer died if it may not write to the file (R3).
func TestFollowWithoutPermission(t *testing.T) {
	good := image(t, &Options{Seed: 5}, numbers(0, 3000))
	w, live := mustCreate(t, &Options{Capacity: 10_000})
	for key := range numbers(0, 2000) {
		must(t, w.Insert(key))
	}
	dead := abandon(t, w, live)
	_, path := mustBuild(t, nil, numbers(0, 1000))
	f := mustFollow(t, path, byHand)
	dir := filepath.Dir(path)
	publish(t, path, good)
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), os.Chmod(path, 0)))
	// Each part runs in its own goroutine. If the process is root, the part makes its thread act as
	// another user on files. The thread ends with the goroutine.
	without := func(name string, do func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			if os.Getuid() == 0 {
				runtime.LockOSThread()
				must(t, unix.Setfsuid(65534))
			}
			do(t)
		})
	}
	without("unreadable", func(t *testing.T) { mustRefuse(t, f, fs.ErrPermission, numbers(0, 1000)) })
	must(t, errors.Join(os.Rename(dead+".stash", path+".stash"), os.Chmod(dead, 0o444), os.Rename(dead, path)))
	without("needs recovery", func(t *testing.T) { mustRefuse(t, f, ErrNeedsRecovery, numbers(0, 1000)) })
	must(t, os.Chmod(path, 0o644))
	mustSwap(t, f, true)
	mustServe(t, f, numbers(0, 2000))
	publish(t, path, good)
	without("readable", func(t *testing.T) { mustSwap(t, f, true) })
	mustServe(t, f, numbers(0, 3000))
}

// TestReadLockOfABystander: a process holds a read lock on a file whose writer died, which prevents the
// recovery. The error says so at once, and names the process.
func TestReadLockOfABystander(t *testing.T) {
	path := deadWriter(t, 500, 300)
	bystander, err := os.Open(path)
	must(t, err)
	must(t, unix.FcntlFlock(bystander.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK}))
	for name, open := range map[string]func() error{
		"Open":         func() error { _, err := Open(path, nil); return err },
		"OpenReadOnly": func() error { _, err := OpenReadOnly(path, nil); return err },
		"Recover":      func() error { _, err := Recover(path); return err },
		"Build":        func() error { _, err := Build(context.Background(), path, nil, numbers(0, 10)); return err },
	} {
		err := open()
		held := new(LockedError)
		if !errors.As(err, &held) || !held.ReadLock || held.PID != os.Getpid() || !strings.Contains(err.Error(), "holds a read lock") {
			t.Errorf("%s: %v", name, err)
		}
		if errors.Is(err, ErrNeedsRecovery) != (name == "OpenReadOnly") {
			t.Errorf("%s: %v", name, err)
		}
	}
	bystander.Close()
	f := mustOpenReadOnly(t, path, nil)
	if f.Len() != 500 {
		t.Errorf("%d keys", f.Len())
	}
}
