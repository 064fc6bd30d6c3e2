package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"golang.org/x/sys/unix"
)

// A smallDisk is a directory whose disk can be filled.
type smallDisk struct {
	*testing.T
	dir  string
	full error // the error of a call that needs room
	// fill leaves some bytes of the disk, at least 0, or lets no file grow beyond that many, at least
	// 8,192.
	fill func(leave int64)
	free func()
}

// diskScenarios are the lives of a filter on a full disk: if there is no room, calls return an
// error and never fault, and nothing is lost. Each runs in its own process, which a fault would
// end.
var diskScenarios = map[string]func(d *smallDisk){
	"create":                 (*smallDisk).create,
	"first insert":           (*smallDisk).firstInsert,
	"log growth":             (*smallDisk).logGrowth,
	"log growth, background": (*smallDisk).logGrowthBehind,
	"seal":                   (*smallDisk).seal,
	"sparse copy":            (*smallDisk).sparseCopy,
	"recover":                (*smallDisk).recover,
	"recover a sparse copy":  func(d *smallDisk) { d.recoverSparse(true, true) },
	"recover a sparse log":   func(d *smallDisk) { d.recoverSparse(false, true) },
	"auto grow":              (*smallDisk).autoGrow,
	"require hashes":         (*smallDisk).requireHashes,
	"lose hashes":            (*smallDisk).loseHashes,
}

const (
	variableDisk     = "MMAPFILTER_TEST_DISK"
	variableScenario = "MMAPFILTER_TEST_SCENARIO"
	exitRefused      = 77
)

// inChild runs a scenario of the named test in its own process.
func inChild(t *testing.T, scenario string, command ...string) {
	t.Helper()
	command = append(command, os.Args[0], "-test.run=^"+rootName(t)+"$", "-test.v")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variableDisk+"="+t.TempDir(), variableScenario+"="+scenario)
	out, err := cmd.CombinedOutput()
	exit := new(exec.ExitError)
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == exitRefused) {
		t.Skipf("NOT TESTED: a full disk: cannot make one here: %v\n%s", err, out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out[:min(len(out), 3000)])
	}
}

func rootName(t *testing.T) string {
	name := t.Name()
	for i := range name {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return name
}

// TestWriteOnAFullDisk writes on a file system of 8 MiB. It needs permission to mount one, if
// need be in its own user namespace.
func TestWriteOnAFullDisk(t *testing.T) {
	dir := os.Getenv(variableDisk)
	if dir == "" {
		for name := range diskScenarios {
			t.Run(name, func(t *testing.T) { inChild(t, name, "unshare", "--mount", "--map-root-user") })
		}
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
			if err == nil {
				err = f.Truncate(info.Size() - leave)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		},
		free: func() {
			must(t, os.Remove(ballast))
		},
	})
}

// unmapDeleted collects garbage until no deleted file in dir is mapped. A mapping lasts until it
// is collected; otherwise its disk space would become free after the disk was filled.
func unmapDeleted(t *testing.T, dir string) {
	t.Helper()
	deleted := regexp.MustCompile(regexp.QuoteMeta(dir) + `/.* \(deleted\)\n`)
	var maps []byte
	for range 10_000 {
		runtime.GC()
		var err error
		if maps, err = os.ReadFile("/proc/self/maps"); err != nil {
			t.Fatal(err)
		}
		if !deleted.Match(maps) {
			return
		}
	}
	t.Fatalf("mapped for good: %s", deleted.FindAll(maps, -1))
}

// TestWriteBeyondTheFileSizeLimit does the same where no file may grow.
func TestWriteBeyondTheFileSizeLimit(t *testing.T) {
	dir := os.Getenv(variableDisk)
	if dir == "" {
		for name := range diskScenarios {
			t.Run(name, func(t *testing.T) { inChild(t, name) })
		}
		return
	}
	limit := func(bytes uint64) {
		l := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
		must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &l))
	}
	limit(4 << 20)
	diskScenarios[os.Getenv(variableScenario)](&smallDisk{
		T: t, dir: dir, full: unix.EFBIG,
		fill: func(leave int64) { limit(max(8192, uint64(leave))) },
		free: func() { limit(4 << 20) },
	})
}

// mustEnd checks that err is one for lack of room.
func (d *smallDisk) mustEnd(what string, err error) {
	d.Helper()
	if !errors.Is(err, d.full) {
		d.Errorf("%s on a full disk: %v", what, err)
	}
}

func (d *smallDisk) path() string { return filepath.Join(d.dir, "f") }

// filter creates and opens a filter of some 36 KiB with n keys. Its log starts at 64 KiB and may
// grow.
func (d *smallDisk) filter(n int) *Filter {
	d.Helper()
	f, err := Create(d.path(), &Options{Capacity: 4000, CommitInterval: -1})
	must(d, err)
	d.small(f)
	d.insert(f, 0, n)
	return f
}

// small makes the log of a filter start at 64 KiB, and stops work in the background.
func (d *smallDisk) small(f *Filter) {
	w := f.open.Load().work.Writer
	w.LimitLog(64 << 10)
	w.Behind = nil
}

func key(i int) string { return fmt.Sprint("key ", i) }

func (d *smallDisk) insert(f *Filter, from, to int) {
	d.Helper()
	for i := from; i < to; i++ {
		must(d, f.Insert([]byte(key(i))))
	}
	must(d, f.Sync())
}

// reopen opens the filter again and checks that it has n keys.
func (d *smallDisk) reopen(n int) *Filter {
	d.Helper()
	f, err := Open(d.path(), &OpenOptions{CommitInterval: -1})
	must(d, err)
	d.small(f)
	if f.Len() != uint64(n) {
		d.Errorf("%d keys, not %d", f.Len(), n)
	}
	for i := range n {
		if !f.ContainsString(key(i)) {
			d.Fatalf("key %d of %d is missing", i, n)
		}
	}
	return f
}

// goOn checks that the filter, which has n keys, can be written to again.
func (d *smallDisk) goOn(f *Filter, n int) {
	d.Helper()
	d.insert(f, n, n+10)
	must(d, f.Close())
	must(d, d.reopen(n+10).Close())
	mustVerify(d, d.path(), uint64(n+10))
	mustLeave(d, d.path(), 1)
}

func (d *smallDisk) create() {
	if _, err := Create(d.path(), &Options{Capacity: 10_000_000}); !errors.Is(err, d.full) {
		d.Errorf("a file that is too large: %v", err)
	}
	d.fill(0)
	_, err := Create(d.path(), &Options{Capacity: 4000})
	d.mustEnd("Create", err)
	d.free()
	mustLeave(d, d.path(), 0)
	d.goOn(d.filter(0), 0)
}

func (d *smallDisk) firstInsert() {
	f := d.filter(0)
	d.fill(0)
	d.mustEnd("Insert", f.Insert([]byte("key")))
	if err := f.Sync(); !errors.Is(err, ErrFailed) {
		d.Errorf("Sync after it: %v", err)
	}
	f.Close()
	mustLeave(d, d.path(), 1)
	f = d.reopen(0)
	if f.ContainsString("key") {
		d.Error("the key is there")
	}
	d.mustEnd("Insert", f.Insert([]byte("key")))
	f.Close()
	d.free()
	d.goOn(d.reopen(0), 0)
}

func (d *smallDisk) logGrowth()       { d.growth(true) }
func (d *smallDisk) logGrowthBehind() { d.growth(false) }

// growth goes on until the log must grow but cannot: the log keeps its size, a warning says so,
// and operations continue. When there is room again, the log grows.
func (d *smallDisk) growth(quiet bool) {
	f := d.filter(100)
	l := f.open.Load().work
	l.Writer.LimitLog(1 << 20)
	if !quiet {
		l.Writer.Behind = l.Behind
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
	operateUntil("the log has to grow three times", func(s Stats) bool { return s.Warning != "" && s.Checkpoints >= 3 })
	if s := f.Stats(); s.LogBytes != 64<<10 || !strings.Contains(s.Warning, "the log keeps its size") || !strings.Contains(s.Warning, d.full.Error()) || f.Err() != nil {
		d.Errorf("%+v, %v", s, f.Err())
	}
	l.Writer.Protocol().HoldGrowth(true) // the background tries again
	if list, _ := filepath.Glob(d.path() + ".stash*"); len(list) != 1 {
		d.Errorf("left %v", list)
	}
	l.Writer.Protocol().HoldGrowth(false)
	d.free()
	operateUntil("the log has grown", func(s Stats) bool { return s.LogBytes > 64<<10 })
	if s := f.Stats(); s.Warning != "" {
		d.Errorf("it still warns: %s", s.Warning)
	}
	must(d, f.Close())
	d.goOn(d.reopen(100), 100)
}

// seal needs no room: the file has had room for its checksums from the start.
func (d *smallDisk) seal() {
	f := d.filter(500)
	d.fill(0)
	if err := f.Seal(context.Background()); err != nil {
		d.Error(err)
	}
	d.fill(0) // take the room of the log, which is gone
	d.mustEnd("Insert", f.Insert([]byte("key")))
	f.Close()
	if r, err := Verify(context.Background(), d.path()); err != nil || r.Items != 500 || !r.Sealed {
		d.Errorf("%+v, %v", r, err)
	}
	d.free()
	d.goOn(d.reopen(500), 500)
}

// sparse copies a file, with holes in place of zero bytes.
func (d *smallDisk) sparse(to, from string) {
	d.Helper()
	data, err := os.ReadFile(from)
	must(d, err)
	f, err := os.Create(to)
	must(d, err)
	defer f.Close()
	for off := 0; off < len(data); off += layout.PageBytes {
		page := data[off:min(off+layout.PageBytes, len(data))]
		for _, b := range page {
			if b == 0 {
				continue
			}
			if _, err := f.WriteAt(page, int64(off)); err != nil {
				d.Fatal(err)
			}
			break
		}
	}
	must(d, f.Truncate(int64(len(data))))
}

func (d *smallDisk) sparseCopy() {
	f := d.filter(0)
	must(d, f.Close())
	d.sparse(d.path()+"-sparse", d.path())
	must(d, os.Rename(d.path()+"-sparse", d.path()))
	d.fill(0)
	f, err := Open(d.path(), nil)
	if err == nil && d.full == unix.EFBIG { // the limit is on the end of a file, not its holes
		f.Close()
	} else {
		d.mustEnd("Open of a sparse copy", err)
	}
	// On some file systems even reading a hole takes room.
	r, err := OpenReadOnly(d.path(), &OpenOptions{Checked: true})
	must(d, err)
	if found := r.ContainsString("key"); found && !errors.Is(r.Err(), ErrCorrupt) {
		d.Errorf("a key that is not there is found: %v", r.Err())
	}
	r.Close()
	d.free()
	d.goOn(d.reopen(0), 0)
}

// dead leaves the files of a writer that died: copies of its filter file and its log.
func (d *smallDisk) dead(n int, copyFilter, copyLog func(to, from string)) {
	d.Helper()
	f := d.filter(n)
	copyFilter(d.path()+"-dead", d.path())
	copyLog(d.path()+"-dead.stash", d.path()+".stash")
	must(d, f.Close())
	for _, suffix := range []string{"", ".stash"} {
		must(d, os.Rename(d.path()+"-dead"+suffix, d.path()+suffix))
	}
}

func (d *smallDisk) whole(to, from string) {
	d.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	must(d, err)
}

// recover needs no room.
func (d *smallDisk) recover() {
	d.dead(500, d.whole, d.whole)
	d.fill(0)
	f := d.reopen(500)
	if !f.Stats().Recovery.Recovered {
		d.Error("nothing was recovered")
	}
	if _, err := os.Stat(d.path() + ".stash"); !errors.Is(err, fs.ErrNotExist) {
		d.Errorf("the log is still there: %v", err)
	}
	must(d, f.Close())
	d.free()
	d.goOn(d.reopen(500), 500)
}

// recoverSparse recovers copies that have holes. It may fail for lack of room, but does not
// fault.
func (d *smallDisk) recoverSparse(filter, log bool) {
	how := map[bool]func(to, from string){false: d.whole, true: d.sparse}
	d.dead(500, how[filter], how[log])
	d.fill(0)
	// The filter file gets its blocks first; recovery may meet a hole in the log later.
	f, err := Open(d.path(), nil)
	if err == nil {
		f.Close()
	} else if filter {
		d.mustEnd("Open", err)
	}
	d.free()
	d.goOn(d.reopen(500), 500)
}
