package pebbleguard

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// atRest turns off what a store does in the background.
func atRest(o *pebble.Options) *pebble.Options {
	o.DisableAutomaticCompactions = true
	return o
}

func copyFilter(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.MkdirAll(to, 0o700))
	for _, name := range []string{FilterName, FilterName + ".stash"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, name), data, 0o600))
	}
}

// logCases write to a store whose filter becomes durable only when it must. There is also an older
// filter, from before the writes.
var logCases = []struct {
	name     string
	noWAL    bool
	replayed uint64 // keys that the older filter lacks, if it is not stale
	stale    bool   // the older filter must be rebuilt
	do       func(t *testing.T, d *testStore)
}{
	{"sets", false, 100, false, func(t *testing.T, d *testStore) { guardtest.Set(t, d, 0, 100) }},
	{"sets, then a flush", false, 0, true, func(t *testing.T, d *testStore) {
		guardtest.Set(t, d, 0, 100)
		must(t, d.Flush())
	}},
	{"sets between flushes", false, 0, true, func(t *testing.T, d *testStore) {
		for i := range 6 { // enough that only some files of the log are kept
			guardtest.Set(t, d, 100*i, 100*i+100)
			must(t, d.Flush())
		}
		guardtest.Set(t, d, 600, 700)
	}},
	{"an ingest", false, 0, true, func(t *testing.T, d *testStore) {
		guardtest.Set(t, d, 0, 1)
		must(t, d.Ingest(t.Context(), []string{table(t, "1", setAll("a", "b"))}))
		guardtest.Set(t, d, 1, 2)
	}},
	{"no log", true, 0, true, func(t *testing.T, d *testStore) {
		guardtest.Set(t, d, 0, 100)
		must(t, d.Flush())
		guardtest.Set(t, d, 100, 200)
	}},
}

// TestLogged opens stores that were killed, each with its own filter and with an older one. Its own
// filter is always good, since it was durable before the log lost keys.
func TestLogged(t *testing.T) {
	for _, c := range logCases {
		t.Run(c.name, func(t *testing.T) {
			base := t.TempDir()
			dir, now, before := filepath.Join(base, "dir"), filepath.Join(base, "now"), filepath.Join(base, "before")
			o := atRest(newest())
			o.DisableWAL = c.noWAL
			g := guardtest.Quiet(guard.Rebuild)
			d := open(t, dir, o, g)
			guardtest.Set(t, d, 5000, 5001) // the first operation creates the log of the filter
			must(t, d.Guard().Work())
			copyFilter(t, dir, filepath.Join(base, "older"))
			c.do(t, d)
			must(t, d.Copy(now))
			must(t, d.Copy(before))
			copyFilter(t, filepath.Join(base, "older"), before)
			must(t, d.Close())
			for _, with := range []struct {
				dir      string
				stale    bool
				replayed uint64
			}{{now, false, 0}, {before, c.stale, c.replayed}} {
				d := open(t, with.dir, o, g)
				s := d.GuardStats()
				if stale := s.Err != ""; stale != with.stale {
					t.Errorf("%s: %+v", filepath.Base(with.dir), s)
				}
				if !with.stale && s.Replayed < with.replayed {
					t.Errorf("%s: %d keys were replayed, of %d", filepath.Base(with.dir), s.Replayed, with.replayed)
				}
				guardtest.Eventually(t, d, "the filter serves", guardtest.Serving)
				if guardtest.MustHideNone(t, d) == 0 {
					t.Errorf("%s: no keys", filepath.Base(with.dir))
				}
			}
		})
	}
}

// dirCases keep the WAL in various directories, before and after a kill.
var dirCases = []struct {
	name          string
	before, after func(base string, o *pebble.Options)
}{
	{"another directory", moved, moved},
	{"a directory in the store", movedInside, movedInside},
	{"failover", failover, failover},
	{"failover is turned on", inPlace, failover},
	{"failover is turned off", failover, recovered("second")},
	{"the WAL moves", inPlace, func(base string, o *pebble.Options) {
		moved(base, o)
		recovered("copy")(base, o)
	}},
}

func inPlace(string, *pebble.Options) {}

func moved(base string, o *pebble.Options) { o.WALDir = filepath.Join(base, "wal") }

func movedInside(_ string, o *pebble.Options) { o.WALDir = "{store_path}/wal" }

func failover(base string, o *pebble.Options) {
	o.WALFailover = &pebble.WALFailoverOptions{Secondary: wal.Dir{FS: vfs.Default, Dirname: filepath.Join(base, "second")}}
}

func recovered(from string) func(base string, o *pebble.Options) {
	return func(base string, o *pebble.Options) {
		o.WALRecoveryDirs = []wal.Dir{{FS: vfs.Default, Dirname: filepath.Join(base, from)}}
	}
}

// TestLogDirectories checks that the log is read wherever it is, even if it will be elsewhere from now
// on.
func TestLogDirectories(t *testing.T) {
	for _, c := range dirCases {
		t.Run(c.name, func(t *testing.T) {
			base := t.TempDir()
			dir, killed := filepath.Join(base, "dir"), filepath.Join(base, "copy")
			o, g := newest(), guardtest.Quiet(guard.Rebuild)
			c.before(base, o)
			d := open(t, dir, o, g)
			guardtest.Set(t, d, 0, 10)
			must(t, d.Guard().Work())
			guardtest.Set(t, d, 10, 110)
			must(t, d.Copy(killed))
			must(t, d.Close())
			o = newest()
			c.after(base, o)
			d = open(t, killed, o, g)
			if s := d.GuardStats(); s.State != "serving" || s.Replayed < 100 {
				t.Errorf("%+v", s)
			}
			if n := guardtest.MustHideNone(t, d); n < 110 {
				t.Errorf("the store has %d keys", n)
			}
		})
	}
}

// A logsFS counts how often a file of the WAL is opened for reading.
type logsFS struct {
	vfs.FS
	opened int
}

func (l *logsFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if _, _, ok := wal.ParseLogFilename(l.PathBase(name)); ok {
		l.opened++
	}
	return l.FS.Open(name, opts...)
}

// TestLogIsLocked covers G2: while another process has the store open, Open must not read the log,
// which would lack keys that this process has yet to write. So Open takes the lock first, and releases
// it if it fails. Close releases it, too.
func TestLogIsLocked(t *testing.T) {
	logs, o := &logsFS{FS: vfs.NewMem()}, newest()
	o.FS = logs
	g := &guard.Options{Path: filepath.Join(t.TempDir(), "f")}
	d := open(t, "db", o, g)
	guardtest.Set(t, d, 0, 10)
	must(t, d.Close())
	d = open(t, "db", o, g) // with a log
	guardtest.Set(t, d, 10, 20)
	for _, readOnly := range []bool{false, true} {
		logs.opened = 0
		other := newest()
		other.FS, other.ReadOnly = logs, readOnly
		if _, err := Open("db", other, g); err == nil || logs.opened > 0 {
			t.Errorf("read-only %t: %v, after it has opened %d files of the log", readOnly, err, logs.opened)
		}
	}
	must(t, d.Close())
	fails := newest()
	fails.FS, fails.ErrorIfExists = logs, true
	if _, err := Open("db", fails, g); !errors.Is(err, pebble.ErrDBAlreadyExists) {
		t.Errorf("Open with ErrorIfExists: %v", err)
	}
	lock, err := pebble.LockDirectory("db", logs)
	must(t, err)
	o.Lock = lock
	d = open(t, "db", o, g)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		t.Errorf("%+v", s)
	}
	guardtest.MustHave(t, d, 0, 20, 30)
	must(t, d.Close())
	must(t, lock.Close()) // the program still has the lock
	o.Lock = nil
	must(t, open(t, "db", o, g).Close())
}

// TestOtherEndOfAnEpoch covers G1: a kill comes during Open of a copy of the store. Then a copy with
// more transactions of the same epoch is put back.
func TestOtherEndOfAnEpoch(t *testing.T) {
	base := t.TempDir()
	dir, s1, s2 := filepath.Join(base, "dir"), filepath.Join(base, "s1"), filepath.Join(base, "s2")
	g := guardtest.Quiet(guard.Rebuild)
	d := open(t, dir, atRest(newest()), g)
	guardtest.Set(t, d, 0, 10)
	must(t, d.Guard().Work())
	guardtest.Set(t, d, 10, 20)
	must(t, d.Copy(s1))
	guardtest.Set(t, d, 20, 30)
	must(t, d.Copy(s2))
	must(t, d.Close())
	o := atRest(newest())
	done := false
	o.EventListener = &pebble.EventListener{TableCreated: func(pebble.TableCreateInfo) {
		if !done {
			done = true
			copyFilter(t, s1, s2) // a kill at this instant; then the newer store is put back
		}
	}}
	d = open(t, s1, o, g)
	must(t, d.Close())
	d = open(t, s2, newest(), g)
	if n := guardtest.MustHideNone(t, d); n != 30 || !done {
		t.Errorf("%d keys, killed %t", n, done)
	}
}
