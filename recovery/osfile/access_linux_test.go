package osfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// asUser runs f in a thread that has the given effective user and group and, as its only supplementary
// groups, groups.
func asUser(t *testing.T, uid, gid int, f func(), groups ...int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                         // never unlocked: the thread ends with the goroutine
		if err := unix.Setgroups(groups); err != nil { // affects only this thread, like the calls below
			t.Error(err)
			return
		}
		for _, call := range [][4]uintptr{
			{unix.SYS_SETRESGID, ^uintptr(0), uintptr(gid), ^uintptr(0)},
			{unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)},
		} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				t.Error(errno)
				return
			}
		}
		f()
	}()
	<-done
}

// TestDraftKeepsOwnerAndGroup checks that a new file gets the owner, group and permissions of the file
// that it replaces if the process may set them. If it may not, Lost must say what is missing.
func TestDraftKeepsOwnerAndGroup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: owners of files: only root can change them")
	}
	dir := t.TempDir()
	for d := dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		must(t, os.Chmod(d, 0o777))
	}
	path := filepath.Join(dir, "a")
	old := func(uid, gid int, mode os.FileMode) {
		t.Helper()
		os.Remove(path)
		must(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, uid, gid), os.Chmod(path, mode)))
	}
	replace := func() (lost string) {
		d, err := NewDraft(path, DraftOptions{})
		if err != nil {
			t.Error(err)
			return ""
		}
		if err := d.Allocate(context.Background(), 100); err != nil {
			t.Error(err)
		}
		lost = d.Lost()
		if err := d.Publish(); err != nil {
			t.Error(err)
		}
		return lost
	}
	check := func(uid, gid uint32, mode os.FileMode) {
		t.Helper()
		info, err := os.Stat(path)
		must(t, err)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != gid || info.Mode().Perm() != mode || info.Size() != 100 {
			t.Errorf("owner %d, group %d, mode %o, %d bytes; want %d, %d, %o", st.Uid, st.Gid, info.Mode().Perm(), info.Size(), uid, gid, mode)
		}
	}
	old(1234, 2345, 0o640)
	if lost := replace(); lost != "" {
		t.Errorf("for root, Lost says %q", lost)
	}
	check(1234, 2345, 0o640)

	const owner = "the new file has owner 4321: this process may not give it the owner of the old one, 1234"
	const group = "the new file has group 5432: this process may not give it the group of the old one, 2345\n"
	for who, c := range map[string]struct {
		uid, gid int
		groups   []int
		lost     string
		want     [2]uint32 // owner and group
	}{
		"the owner":                 {1234, 2345, nil, "", [2]uint32{1234, 2345}},
		"a member of the group":     {4321, 2345, nil, owner, [2]uint32{4321, 2345}},
		"a member by another group": {4321, 5432, []int{9999, 2345}, owner, [2]uint32{4321, 2345}},
		"a stranger":                {4321, 5432, nil, group + owner, [2]uint32{4321, 5432}},
	} {
		old(1234, 2345, 0o666)
		asUser(t, c.uid, c.gid, func() {
			if lost := replace(); lost != c.lost {
				t.Errorf("for %s, Lost says %q", who, lost)
			}
		}, c.groups...)
		check(c.want[0], c.want[1], 0o666)
	}

	// The new file has a different group, which gets no more rights than other users have.
	for mode, want := range map[os.FileMode]os.FileMode{0o660: 0o600, 0o664: 0o644, 0o646: 0o646, 0o677: 0o677, 0o651: 0o611} {
		old(4321, 2345, mode)
		asUser(t, 4321, 5432, func() {
			if lost := replace(); !strings.Contains(lost, "group 5432") || strings.Contains(lost, "owner") {
				t.Errorf("for the owner, who is not in the group, Lost says %q", lost)
			}
		})
		check(4321, 5432, want)
	}
}

// TestReadLockIsNamed checks that a writer gets an error that names the cause if a read lock keeps it
// out, and that readers do not take the lock for a writer. Any process that may read a file can take
// such a lock.
func TestReadLockIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	put(t, path, make([]byte, 100))
	for _, command := range []int{unix.F_OFD_SETLK, unix.F_SETLK} {
		bystander, err := os.Open(path)
		must(t, err)
		must(t, unix.FcntlFlock(bystander.Fd(), command, &unix.Flock_t{Type: unix.F_RDLCK}))
		_, err = OpenLocked(path)
		read := new(LockedError)
		if !errors.Is(err, recovery.ErrLocked) || !errors.As(err, &read) || !read.ReadLock {
			t.Errorf("beside a read lock: %v", err)
		}
		// For one kind of lock, the system call names the process; for the other, /proc does.
		if pid := max(read.PID, ReadLockHolder(path)); pid != os.Getpid() {
			t.Errorf("process %d is reported to hold the read lock", pid)
		}
		for name, ask := range map[string]func(*os.File) (bool, error){"Locked": Locked, "Served": Served} {
			f, err := os.Open(path) // bystander's own lock does not conflict with a query through bystander
			must(t, err)
			if yes, err := ask(f); yes || err != nil {
				t.Errorf("%s: the read lock counts as a writer: %t, %v", name, yes, err)
			}
			f.Close()
		}
		bystander.Close()
	}
	f, err := OpenLocked(path)
	must(t, err)
	defer f.Close()
	if _, err := OpenLocked(path); !errors.Is(err, recovery.ErrLocked) || errors.As(err, new(*LockedError)) {
		t.Errorf("beside a writer: %v", err)
	}
	if pid := LockHolder(path); pid != os.Getpid() {
		t.Errorf("process %d is reported to hold the lock", pid)
	}
}

// TestPublishUnlocks: a published file can be locked at once, even if a child process still has it open.
// A child inherits all open files, and keeps them until it runs its program.
func TestPublishUnlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	d := mustDraft(t, path, 100)
	child, err := unix.Dup(int(d.file.Fd()))
	must(t, err)
	defer unix.Close(child)
	must(t, d.Publish())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if err := lock(f); err != nil {
		t.Error(err)
	}
}
