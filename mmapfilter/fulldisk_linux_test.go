package mmapfilter

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A smallDisk is a directory whose disk can be filled.
type smallDisk struct {
	*testing.T
	dir  string
	full error // the error of a call that needs room
	// fill leaves so many bytes of the disk free, or lets no file grow beyond so many bytes, or 8,192 if
	// leave is less.
	fill func(leave int64)
	free func()
}

// diskScenarios are scenarios for a filter on a full disk. If there is no room, calls must return an
// error without a fault, and nothing may be lost. Each scenario runs in its own process, because a fault
// would end the process.
var diskScenarios = map[string]func(d *smallDisk){
	"build":                  (*smallDisk).build,
	"create":                 (*smallDisk).create,
	"first insert":           (*smallDisk).firstInsert,
	"log growth":             func(d *smallDisk) { d.logGrowth(true) },
	"log growth, background": func(d *smallDisk) { d.logGrowth(false) },
	"seal":                   (*smallDisk).seal,
	"sparse copy":            (*smallDisk).sparseCopy,
	"recover":                func(d *smallDisk) { d.recover(false, false) },
	"recover a sparse copy":  func(d *smallDisk) { d.recover(true, true) },
	"recover a sparse log":   func(d *smallDisk) { d.recover(false, true) },
	"auto grow":              (*smallDisk).autoGrow,
	"require hashes":         (*smallDisk).requireHashes,
	"lose hashes":            (*smallDisk).loseHashes,
	"rebuild":                (*smallDisk).rebuild,
	"snapshot":               (*smallDisk).snapshot,
}

const (
	variableDisk     = "MMAPFILTER_TEST_DISK"
	variableScenario = "MMAPFILTER_TEST_SCENARIO"
	exitRefused      = 77
)

// inChildren runs each scenario of a test in a child process, and returns "". In a child process it
// returns the directory for the scenario.
func inChildren(t *testing.T, command ...string) (dir string) {
	t.Helper()
	if dir = os.Getenv(variableDisk); dir != "" {
		return dir
	}
	command = append(command, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	for scenario := range diskScenarios {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), variableDisk+"="+t.TempDir(), variableScenario+"="+scenario)
			out, err := cmd.CombinedOutput()
			exit := new(exec.ExitError)
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == exitRefused) {
				t.Skipf("NOT TESTED: a full disk: a small file system cannot be mounted here: %v\n%s", err, out)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out[:min(len(out), 3000)])
			}
		})
	}
	return ""
}

// TestWriteOnAFullDisk runs the scenarios on a file system of 8 MiB. It needs permission to mount one,
// perhaps in its own user namespace.
func TestWriteOnAFullDisk(t *testing.T) {
	dir := inChildren(t, "unshare", "--mount", "--map-root-user")
	if dir == "" {
		return
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Log(err)
		os.Exit(exitRefused)
	}
	ballast := filepath.Join(dir, "ballast")
	diskScenarios[os.Getenv(variableScenario)](&smallDisk{
		T: t, dir: dir, full: unix.ENOSPC,
		fill: func(leave int64) {
			unmapDeleted(t, dir)
			f, err := os.OpenFile(ballast, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			must(t, err)
			for _, block := range []int{4096, 1} {
				for err = nil; err == nil; {
					_, err = f.Write(make([]byte, block))
				}
				if !errors.Is(err, unix.ENOSPC) {
					t.Fatal(err)
				}
			}
			info, err := f.Stat()
			must(t, err)
			must(t, errors.Join(f.Truncate(info.Size()-leave), f.Close()))
		},
		free: func() { must(t, os.Remove(ballast)) },
	})
}

// unmapDeleted collects garbage until no deleted file in dir is mapped. A mapping lasts until it is
// collected. Without this call, the space of such files would become free after the disk was filled.
func unmapDeleted(t *testing.T, dir string) {
	t.Helper()
	deleted := regexp.MustCompile(regexp.QuoteMeta(dir) + `/.* \(deleted\)\n`)
	var maps []byte
	for range 10_000 {
		runtime.GC()
		if maps = readFile(t, "/proc/self/maps"); !deleted.Match(maps) {
			return
		}
	}
	t.Fatalf("deleted files are still mapped: %s", deleted.FindAll(maps, -1))
}

// TestWriteBeyondTheFileSizeLimit runs the scenarios with a limit on the size of files.
func TestWriteBeyondTheFileSizeLimit(t *testing.T) {
	dir := inChildren(t)
	if dir == "" {
		return
	}
	limit := func(bytes uint64) {
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}))
	}
	limit(4 << 20)
	diskScenarios[os.Getenv(variableScenario)](&smallDisk{
		T: t, dir: dir, full: unix.EFBIG,
		fill: func(leave int64) { limit(max(8192, uint64(leave))) },
		free: func() { limit(4 << 20) },
	})
}

// snapshot makes snapshots with no room, and then with room for a part of one. The filter and an older
// copy must stay as they are.
func (d *smallDisk) snapshot() {
	f := d.filter(3000)
	copied := d.path() + "-copy"
	_, err := f.Snapshot(d.Context(), copied)
	must(d, err)
	before := readFile(d.T, copied)
	for _, leave := range []int64{0, 16 << 10} {
		d.fill(leave)
		_, err := f.Snapshot(d.Context(), copied)
		d.mustEnd("snapshot", err)
		if !bytes.Equal(readFile(d.T, copied), before) {
			d.Error("an older copy has changed")
		}
		mustLeave(d, copied, 1)
		if leave == 0 {
			d.free()
		}
	}
	must(d, os.Remove(copied))
	must(d, f.Close())
	d.goOn(3000)
}

// mustEnd checks that a call failed for lack of room.
func (d *smallDisk) mustEnd(what string, err error) {
	d.Helper()
	if !errors.Is(err, d.full) {
		d.Errorf("%s on a full disk: %v", what, err)
	}
}

func (d *smallDisk) path() string { return filepath.Join(d.dir, "f") }

// filter creates and opens a filter of some 36 KiB with n keys. Its log begins at 128 KiB and may grow.
func (d *smallDisk) filter(n uint64) *Filter {
	d.Helper()
	f, err := Create(d.path(), &Options{Capacity: 4000, CommitInterval: -1})
	must(d, err)
	d.small(f)
	mustInsert(d, f, 0, n)
	must(d, f.Sync())
	return f
}

// small makes the log of a filter begin at 128 KiB, and stops work in the background.
func (d *smallDisk) small(f *Filter) {
	w := f.open.Load().work.Writer
	w.LimitLog(wal.MinBytes)
	w.Work = nil
}

// reopen opens the filter again and checks that it has n keys.
func (d *smallDisk) reopen(n uint64) *Filter {
	d.Helper()
	f := mustOpen(d, d.path(), &OpenOptions{CommitInterval: -1})
	d.small(f)
	if f.Len() != n {
		d.Errorf("%d keys, not %d", f.Len(), n)
	}
	mustHave(d, f, 0, n)
	return f
}

// goOn frees the disk, and checks that the filter has n keys and can be written to again.
func (d *smallDisk) goOn(n uint64) {
	d.Helper()
	d.free()
	f := d.reopen(n)
	mustInsert(d, f, n, n+10)
	must(d, errors.Join(f.Sync(), f.Close()))
	must(d, d.reopen(n+10).Close())
	mustVerify(d, d.path(), n+10)
	mustLeave(d, d.path(), 1)
}

// build makes filters that are too large for the disk, and one that fits but whose hashes do not.
func (d *smallDisk) build() {
	old, err := Build(d.Context(), d.path(), nil, numbers(0, 100))
	must(d, err)
	must(d, old.Close())
	for name, c := range map[string]struct {
		opts Options
		keys uint64
	}{
		"a large capacity": {Options{Capacity: 10_000_000}, 1},
		"many keys":        {Options{}, 10_000_000},
		"many hashes":      {Options{Capacity: 1_000_000, MemoryBudget: 1 << 20}, 1_100_000},
	} {
		_, err := Build(d.Context(), d.path(), &c.opts, numbers(0, c.keys))
		d.mustEnd(name, err)
		mustLeave(d, d.dir+"/", 1)
		must(d, d.reopen(100).Close())
	}
}

func (d *smallDisk) create() {
	_, err := Create(d.path(), &Options{Capacity: 10_000_000})
	d.mustEnd("Create of a file that is too large", err)
	d.fill(0)
	_, err = Create(d.path(), &Options{Capacity: 4000})
	d.mustEnd("Create", err)
	mustLeave(d, d.path(), 0)
	d.free()
	d.filter(0).Close()
	d.fill(0)
	d.goOn(0)
}

func (d *smallDisk) firstInsert() {
	f := d.filter(0)
	d.fill(0)
	for range 2 {
		d.mustEnd("Insert", f.Insert([]byte("key")))
		if err := f.Sync(); !errors.Is(err, ErrFailed) {
			d.Errorf("Sync after it: %v", err)
		}
		f.Close()
		mustLeave(d, d.path(), 1)
		if f = d.reopen(0); f.ContainsString("key") {
			d.Error("the key of a failed insert is found")
		}
	}
	f.Close()
	d.goOn(0)
}

// logGrowth operates until the log should grow but cannot. Then the log must keep its size, a warning
// must say so, and operations must continue. When there is room again, the log grows.
func (d *smallDisk) logGrowth(quiet bool) {
	f := d.filter(100)
	l := f.open.Load().work
	l.Writer.LimitLog(1 << 20)
	if !quiet {
		l.Writer.Work = l
	}
	operateUntil := func(what string, reached func(s Stats) bool) {
		d.Helper()
		for n := 0; !reached(f.Stats()); n++ {
			if n == 2_000 {
				d.Fatalf("still not: %s: %+v", what, f.Stats())
			}
			for range 50 {
				must(d, f.Insert([]byte("more")))
				if ok, err := f.Delete([]byte("more")); !ok || err != nil {
					d.Fatal(ok, err)
				}
			}
			must(d, f.Sync())
		}
	}
	d.fill(0)
	operateUntil("the log should have grown three times", func(s Stats) bool { return s.Warning != "" && s.Checkpoints >= 3 })
	if s := f.Stats(); s.LogBytes != wal.MinBytes || !strings.Contains(s.Warning, "the log keeps its size") || !strings.Contains(s.Warning, d.full.Error()) || f.Err() != nil {
		d.Errorf("%+v, %v", s, f.Err())
	}
	l.Writer.Protocol().HoldGrowth(true) // keeps the background from trying again
	mustLeave(d, d.path()+".stash", 1)
	l.Writer.Protocol().HoldGrowth(false)
	d.free()
	operateUntil("the log has grown", func(s Stats) bool { return s.LogBytes > wal.MinBytes })
	if s := f.Stats(); s.Warning != "" {
		d.Errorf("there is still a warning: %s", s.Warning)
	}
	must(d, f.Close())
	d.fill(0)
	d.goOn(100)
}

// seal checks that Seal needs no room, because the file has room for its checksums from the beginning.
func (d *smallDisk) seal() {
	f := d.filter(500)
	d.fill(0)
	must(d, f.Seal(d.Context()))
	d.fill(0) // take the room that the removed log has left
	d.mustEnd("Insert", f.Insert([]byte("key")))
	f.Close()
	if r := mustVerify(d, d.path(), 500); !r.Sealed {
		d.Errorf("%+v", r)
	}
	d.goOn(500)
}

// sparse copies a file, with holes in place of pages of zero bytes.
func (d *smallDisk) sparse(to, from string) {
	d.Helper()
	data := readFile(d.T, from)
	f, err := os.Create(to)
	must(d, err)
	defer f.Close()
	must(d, f.Truncate(int64(len(data))))
	const page = 4096
	for off := 0; off < len(data); off += page {
		if p := data[off:min(off+page, len(data))]; strings.Trim(string(p), "\x00") != "" {
			_, err := f.WriteAt(p, int64(off))
			must(d, err)
		}
	}
}

func (d *smallDisk) sparseCopy() {
	must(d, d.filter(0).Close())
	d.sparse(d.path()+"-sparse", d.path())
	must(d, os.Rename(d.path()+"-sparse", d.path()))
	d.fill(0)
	f, err := Open(d.path(), nil)
	if err == nil && d.full == unix.EFBIG { // filling a hole does not make a file longer
		f.Close()
	} else {
		d.mustEnd("Open of a sparse copy", err)
	}
	// On some file systems, even reading a hole takes room.
	r := mustOpenReadOnly(d, d.path(), &OpenOptions{Checked: true})
	if found := r.ContainsString("key"); found && !errors.Is(r.Err(), ErrCorrupt) {
		d.Errorf("an absent key is found: %v", r.Err())
	}
	r.Close()
	d.goOn(0)
}

// recover recovers the files of a writer that died, which needs no room. If the files are copies with
// holes, the recovery may fail for lack of room, but must not fault.
func (d *smallDisk) recover(sparseFilter, sparseLog bool) {
	f := d.filter(500)
	for suffix, sparse := range map[string]bool{"": sparseFilter, ".stash": sparseLog} {
		if sparse {
			d.sparse(d.path()+"-dead"+suffix, d.path()+suffix)
		} else {
			must(d, copyOver(d.path()+"-dead"+suffix, d.path()+suffix))
		}
	}
	must(d, f.Close())
	for _, suffix := range []string{"", ".stash"} {
		must(d, os.Rename(d.path()+"-dead"+suffix, d.path()+suffix))
	}
	d.fill(0)
	// Open first fills the holes of the filter file. The recovery may find a hole in the log later.
	f, err := Open(d.path(), nil)
	switch {
	case sparseFilter && err != nil:
		d.mustEnd("Open", err)
	case err == nil:
		if !f.Stats().Recovery.Recovered {
			d.Error("nothing was recovered")
		}
		if err := f.Close(); !sparseLog {
			must(d, err)
		}
	case !sparseLog:
		d.Error(err)
	}
	d.goOn(500)
}
