package bboltguard

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A scene is a directory with a store of keys 0 to 2000, then deletes and further keys, and copies of
// it from several instants.
type scene struct {
	dir         string
	early       string // closed, with keys 0 to 1000
	live        string // under way, with keys 0 to 2000
	liveDeletes string // under way, keys 0 to 500 are deleted since
	other       string // of another store with as many keys
}

func newScene(t *testing.T, g *guard.Options) *scene {
	s := &scene{dir: t.TempDir()}
	path := filepath.Join(s.dir, "db")
	d := mustOpen(t, path, fast(), g)
	putAll(t, d, 0, 1000)
	must(t, d.Close())
	s.early = copyDir(t, s.dir)
	d = mustOpen(t, path, fast(), g)
	putAll(t, d, 1000, 1900)
	must(t, d.Guard().Rebuild(context.Background())) // so that none is due while the files are copied
	putAll(t, d, 1900, 2000)
	s.live = copyDir(t, s.dir)
	deleteAll(t, d, 0, 500)
	takeAllIn(t, d)
	s.liveDeletes = copyDir(t, s.dir)
	putAll(t, d, 0, 250)
	putAll(t, d, 2000, 2500)
	deleteAll(t, d, 1500, 1600)
	takeAllIn(t, d)
	must(t, d.Close())
	dir := t.TempDir()
	d = mustOpen(t, filepath.Join(dir, "db"), fast(), g)
	putAll(t, d, 5000, 7000)
	must(t, d.Close())
	s.other = dir
	return s
}

// takeAllIn waits until the outbox is empty. While a filter grows it is not.
func takeAllIn(t *testing.T, d *DB) {
	t.Helper()
	eventually(t, d, "the outbox is empty", func(s guard.Stats) bool {
		must(t, d.Guard().Work())
		return s.Outbox == 0
	})
}

// mix returns a directory with the store of one and the filter of another, all of its files.
func mix(t *testing.T, store, filter string) string {
	dir := copyDir(t, filter)
	copyFile(t, filepath.Join(store, "db"), filepath.Join(dir, "db"))
	return dir
}

// An expectation says whether the filter is rebuilt.
type expectation int

const (
	never expectation = iota
	always
	maybe // the outbox may have what is needed
)

// mustRecover opens what is in a directory: no key is hidden.
func mustRecover(t *testing.T, dir string, g *guard.Options, expect expectation) {
	t.Helper()
	path := filepath.Join(dir, "db")
	d := mustOpen(t, path, fast(), g)
	s := d.GuardStats()
	rebuilt := s.Err != "" || s.Rebuilds > 0
	if expect == always && !rebuilt || expect == never && s.Err != "" || !rebuilt && s.State != "serving" {
		t.Errorf("rebuilt: %t: %+v", rebuilt, s)
	}
	mustHaveAll(t, d)
	putAll(t, d, 9000, 9100)
	deleteAll(t, d, 1000, 1100)
	mustHaveAll(t, d)
	eventually(t, d, "rebuilt", func(s guard.Stats) bool { return serving(s) && (!rebuilt || s.Rebuilds > 0) })
	mustHaveAll(t, d)
	must(t, d.Guard().Work())
	mustHaveAll(t, d)
	must(t, d.Close())
	d = mustOpen(t, path, fast(), g)
	if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
		t.Errorf("opened again: %+v", s)
	}
	mustHaveAll(t, d)
	must(t, d.Guard().Rebuild(context.Background()))
	mustHaveAll(t, d)
	must(t, d.Close())
}

func TestFiles(t *testing.T) { each(t, testFiles) }

func testFiles(t *testing.T, g *guard.Options) {
	s := newScene(t, g)
	filter := func(dir string) string { return filepath.Join(dir, "db"+FilterSuffix) }
	change := func(do func(path string)) string {
		dir := copyDir(t, s.dir)
		do(filter(dir))
		return dir
	}
	size := func() int64 {
		info, err := os.Stat(filter(s.dir))
		must(t, err)
		return info.Size()
	}()
	withDeletes := always // the filter has let go of keys since
	if g.Deletes == guard.Rebuild {
		withDeletes = maybe
	}
	for _, c := range []struct {
		name    string
		dir     string
		rebuilt expectation
	}{
		{"whole", copyDir(t, s.dir), never},
		{"missing", change(func(path string) { must(t, os.Remove(path)) }), always},
		{"empty", change(func(path string) { must(t, os.Truncate(path, 0)) }), always},
		{"cut to a page", change(func(path string) { must(t, os.Truncate(path, 4096)) }), always},
		{"cut in half", change(func(path string) { must(t, os.Truncate(path, size/2)) }), always},
		{"text", change(func(path string) { must(t, os.WriteFile(path, []byte("no filter"), 0o600)) }), always},
		{"a directory", change(func(path string) { must(t, os.Remove(path)); must(t, os.Mkdir(path, 0o700)) }), always},
		{"of another store", mix(t, s.dir, s.other), always},
		{"older, closed", mix(t, s.dir, s.early), always},
		{"older, live", mix(t, s.dir, s.live), always},
		{"older, with deletes", mix(t, s.dir, s.liveDeletes), withDeletes},
		{"older store, closed", mix(t, s.early, s.dir), always},
		{"older store, live", mix(t, s.live, s.dir), always},
		{"older store, with deletes", mix(t, s.liveDeletes, s.dir), always},
		{"older, both live", mix(t, s.liveDeletes, s.live), maybe},
		{"both older, closed", copyDir(t, s.early), never},
		{"both older, live", copyDir(t, s.live), never},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "a directory" {
				testUnusable(t, c.dir, g)
				return
			}
			mustRecover(t, c.dir, g, c.rebuilt)
		})
	}
	t.Run("other mode", func(t *testing.T) {
		other := *g
		other.Deletes = guard.Exact + guard.Rebuild - g.Deletes
		mustRecover(t, copyDir(t, s.dir), &other, always)
	})
	t.Run("outbox", func(t *testing.T) { testOutbox(t, g) })
	t.Run("damaged", func(t *testing.T) { testDamaged(t, s.dir, g, size) })
}

// testUnusable has no filter at all, since none can be made there.
func testUnusable(t *testing.T, dir string, g *guard.Options) {
	d := mustOpen(t, filepath.Join(dir, "db"), fast(), g)
	if s := d.GuardStats(); s.State != "off" || s.Err == "" {
		t.Errorf("%+v", s)
	}
	n := mustHaveAll(t, d)
	putAll(t, d, 9000, 9100)
	deleteAll(t, d, 9000, 9050)
	if got := mustHaveAll(t, d); got != n+50 {
		t.Errorf("%d keys", got)
	}
	must(t, d.Close())
}

// testOutbox has a filter that lacks what the outbox of the store has.
func testOutbox(t *testing.T, g *guard.Options) {
	slow := *g
	slow.CommitInterval = 1 << 40
	dir := t.TempDir()
	path := filepath.Join(dir, "db")
	d := mustOpen(t, path, fast(), &slow)
	putAll(t, d, 0, 100)
	must(t, d.Guard().Work())
	before := copyDir(t, dir)
	putAll(t, d, 100, 300)
	deleteAll(t, d, 0, 50)
	putAll(t, d, 25, 50)
	behind := mix(t, dir, before)
	must(t, d.Close())
	d = mustOpen(t, filepath.Join(behind, "db"), fast(), &slow)
	if s := d.GuardStats(); s.Err != "" || s.State != "serving" || s.Replayed < 200 {
		t.Errorf("%+v", s)
	}
	if n := mustHaveAll(t, d); n != 275 {
		t.Errorf("%d keys", n)
	}
	must(t, d.Close())
	mustRecover(t, behind, &slow, never)
}

// testDamaged changes random bytes of a filter that was closed: some of its head, or any.
func testDamaged(t *testing.T, dir string, g *guard.Options, size int64) {
	r := random(t)
	for i := range 40 {
		damaged := copyDir(t, dir)
		path := filepath.Join(damaged, "db")
		if i%2 == 0 {
			damage(t, path+FilterSuffix, r, 4096)
		} else {
			damage(t, path+FilterSuffix, r, size)
		}
		d := mustOpen(t, path, fast(), g)
		mustHaveAll(t, d)
		putAll(t, d, 9000, 9050)
		deleteAll(t, d, 1000, 1050)
		mustHaveAll(t, d)
		must(t, d.Guard().Rebuild(context.Background()))
		mustHaveAll(t, d)
		must(t, d.Close())
		d = mustOpen(t, path, fast(), g)
		if s := d.GuardStats(); s.State != "serving" {
			t.Errorf("%+v", s)
		}
		mustHaveAll(t, d)
		must(t, d.Close())
	}
}

// damage changes some of the first bytes of a file.
func damage(t *testing.T, path string, r *rand.Rand, size int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	for range 1 + r.IntN(50) {
		_, err := f.WriteAt([]byte{byte(r.Uint32())}, r.Int64N(size))
		must(t, err)
	}
	must(t, f.Close())
}

func TestReadOnly(t *testing.T) { each(t, testReadOnly) }

func testReadOnly(t *testing.T, g *guard.Options) {
	s := newScene(t, g)
	o := &bbolt.Options{ReadOnly: true}
	for _, c := range []struct{ name, dir, state string }{
		{"whole", copyDir(t, s.dir), "serving"},
		{"live", copyDir(t, s.live), "serving"},
		{"of another time", mix(t, s.dir, s.early), "off"},
		{"of another store", mix(t, s.dir, s.other), "off"},
		{"missing", t.TempDir(), "off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "missing" {
				copyFile(t, filepath.Join(s.dir, "db"), filepath.Join(c.dir, "db"))
			}
			path := filepath.Join(c.dir, "db")
			d := mustOpen(t, path, o, g)
			second := mustOpen(t, path, o, g)
			for _, d := range []*DB{d, second} {
				if s := d.GuardStats(); s.State != c.state || (s.Err == "") != (c.state == "serving") {
					t.Errorf("%+v", s)
				}
				mustHaveAll(t, d)
				_, err := d.Begin(true)
				mustBe(t, err, berrors.ErrDatabaseReadOnly)
				mustBe(t, d.Update(func(*Tx) error { return nil }), berrors.ErrDatabaseReadOnly)
				must(t, d.View(func(tx *Tx) error {
					for i := range 1000 {
						if tx.Bucket([]byte("b")).Get(number(100_000+i)) != nil {
							t.Error("there")
						}
					}
					return nil
				}))
				if s := d.GuardStats(); c.state == "serving" && s.Skipped < 900 {
					t.Errorf("%+v", s)
				}
				must(t, d.Close())
			}
			w := mustOpen(t, path, fast(), g)
			mustHaveAll(t, w)
			must(t, w.Close())
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), 0o600, o, g); !os.IsNotExist(err) {
		t.Errorf("no store: %v", err)
	}
}
