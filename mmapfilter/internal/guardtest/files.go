package guardtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A scene is a store in several states, each in a directory of its own, with its filter. In the last
// states, the filter has done the deletes of the store.
type scene struct {
	Engine
	guard *guard.Options
	base  string
}

func (s *scene) dir(name string) string    { return filepath.Join(s.base, name) }
func (s *scene) filter(name string) string { return filepath.Join(s.dir(name), s.Filter) }

// newScene creates a store and copies of it from several instants.
func (e Engine) newScene(t *testing.T, deletes guard.DeleteMode) *scene {
	s := &scene{e, Quiet(deletes), t.TempDir()}
	for _, name := range []string{"now", "other"} {
		Must(t, os.Mkdir(s.dir(name), 0o700))
	}
	d := e.MustOpen(t, s.dir("other"), s.guard)
	Set(t, d, 5000, 7000)
	Must(t, d.Close())
	d = e.MustOpen(t, s.dir("now"), s.guard)
	Set(t, d, 0, 1000)
	Must(t, d.Close())
	Must(t, CopyDir(s.dir("closed"), s.dir("now")))
	d = e.MustOpen(t, s.dir("now"), s.guard)
	Set(t, d, 1000, 1900)
	Must(t, d.Guard().Work())
	Must(t, d.Copy(s.dir("before")))
	Set(t, d, 1900, 2000)
	Must(t, d.Copy(s.dir("live")))
	Remove(t, d, 0, 500)
	takeAllIn(t, d)
	Must(t, d.Copy(s.dir("live, with deletes")))
	written := make(chan error)
	go func() {
		err := change(d, 2000, 2500, func(tx Tx, key string) error { return tx.Set(key, "v") })
		written <- errors.Join(err, d.Guard().Sync())
	}()
	Must(t, os.Mkdir(s.dir("torn"), 0o700))
	Must(t, s.copyFilter("torn", "now")) // while the filter is being written to
	Must(t, <-written)
	Set(t, d, 0, 250)
	Remove(t, d, 1500, 1600)
	takeAllIn(t, d)
	Must(t, d.Close())
	return s
}

// takeAllIn makes the filter do all deletes, and take in the keys of an outbox.
func takeAllIn(t *testing.T, d DB) {
	t.Helper()
	Rebuild(t, d)
	Eventually(t, d, "the outbox is empty", func(s guard.Stats) bool {
		Must(t, d.Guard().Work())
		return d.GuardStats().Outbox == 0
	})
}

// filterFiles returns the names of a filter and of the files beside it.
func (s *scene) filterFiles(name string) (names []string, err error) {
	list, err := os.ReadDir(s.dir(name))
	for _, e := range list {
		if strings.HasPrefix(e.Name(), s.Filter) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// copyFilter replaces a filter, and the files beside it.
func (s *scene) copyFilter(to, from string) error {
	old, err := s.filterFiles(to)
	for _, name := range old {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir(to), name)))
	}
	names, e := s.filterFiles(from)
	err = errors.Join(err, e)
	for _, name := range names {
		data, e := os.ReadFile(filepath.Join(s.dir(from), name))
		if e == nil {
			e = os.WriteFile(filepath.Join(s.dir(to), name), data, 0o600)
		} else if errors.Is(e, fs.ErrNotExist) { // the file was there only for a moment
			e = nil
		}
		err = errors.Join(err, e)
	}
	return err
}

// An expectation says whether a filter is rebuilt.
type expectation int

const (
	never   expectation = iota
	replays             // no rebuild: the store has the keys that the filter lacks
	always
	maybe         // depends on which bytes are damaged
	unlessOrdered // a rebuild, unless the store is Ordered and yields the keys that the filter lacks
	ifExact       // a rebuild with Exact: an outbox may have the keys that the filter lacks, but not the deletes
)

// of returns the expectation for the mode and the engine of the scene: never, always or maybe.
func (s *scene) of(e expectation) expectation {
	outbox := s.Outbox || s.guard.Deletes == guard.Exact
	switch {
	case e == unlessOrdered && outbox, e == ifExact && s.guard.Deletes == guard.Exact:
		return always
	case e == unlessOrdered, e == ifExact:
		return maybe
	}
	return e
}

// fileCases combine a store and a filter, each from some state of the scene, and damage the filter.
var fileCases = []struct {
	name, store, filter string
	rebuilt             expectation
	change              func(path string) error
}{
	{"whole", "now", "now", never, nil},
	{"missing", "now", "now", always, os.Remove},
	{"empty", "now", "now", always, func(path string) error { return os.Truncate(path, 0) }},
	{"cut to a page", "now", "now", always, func(path string) error { return os.Truncate(path, 4096) }},
	{"cut in half", "now", "now", always, cutInHalf},
	{"text", "now", "now", always, func(path string) error { return os.WriteFile(path, []byte("no filter"), 0o600) }},
	{"zeroed", "now", "now", always, zero},
	{"its log discarded", "now", "live", always, discard},
	{"copied while it is written", "now", "torn", maybe, nil},
	{"of another store", "now", "other", always, nil},
	{"older, closed", "now", "closed", always, nil},
	{"older, live", "now", "live", unlessOrdered, nil},
	{"older, with deletes", "now", "live, with deletes", ifExact, nil},
	{"older store, closed", "closed", "now", always, nil},
	{"older store, live", "live", "now", always, nil},
	{"older store, with deletes", "live, with deletes", "now", unlessOrdered, nil},
	{"older, both live", "live, with deletes", "live", maybe, nil},
	{"of the last close", "live", "closed", unlessOrdered, nil},
	{"both older, closed", "closed", "closed", never, nil},
	{"both older, live", "live", "live", never, nil},
	{"behind", "live", "before", replays, nil},
}

func cutInHalf(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()/2)
}

func zero(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, make([]byte, info.Size()), 0o600)
}

// discard removes the log of a filter, which may have been copied while it was written.
func discard(path string) error {
	_, _ = mmapfilter.DiscardLog(path) // if the filter is damaged, it stays as it is
	return os.RemoveAll(path + ".stash")
}

// Files covers C9. It opens stores with filters that are from another store, from another time, or
// damaged, first for reading and then for writing.
func Files(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		s := e.newScene(t, deletes)
		for _, c := range fileCases {
			t.Run(c.name, func(t *testing.T) {
				Must(t, CopyDir(s.dir(c.name), s.dir(c.store)))
				Must(t, s.copyFilter(c.name, c.filter))
				if c.change != nil {
					Must(t, c.change(s.filter(c.name)))
				}
				s.mustRecover(t, c.name, s.of(c.rebuilt))
			})
		}
		t.Run("other mode", func(t *testing.T) {
			other := *s.guard
			other.Deletes = guard.Exact + guard.Rebuild - deletes
			Must(t, CopyDir(s.dir("other mode"), s.dir("now")))
			(&scene{e, &other, s.base}).mustRecover(t, "other mode", always)
		})
		t.Run("a directory", s.testDirectory)
	})
}

// mustRecover opens a store. No key may be hidden: not while the filter is rebuilt, not after that,
// and not when the store is opened again.
func (s *scene) mustRecover(t *testing.T, name string, expect expectation) {
	t.Helper()
	s.mustRead(t, name, expect)
	d := s.MustOpen(t, s.dir(name), s.guard)
	stats := d.GuardStats()
	rebuilt := stats.Err != "" || stats.Rebuilds > 0
	if expect == always && !rebuilt || expect <= replays && rebuilt || !rebuilt && !Serving(stats) || expect == replays && stats.Replayed < 90 {
		t.Errorf("rebuilt: %t: %+v", rebuilt, stats)
	}
	MustHideNone(t, d)
	Set(t, d, 9000, 9100)
	Remove(t, d, 1000, 1100)
	MustHideNone(t, d)
	Eventually(t, d, "rebuilt", func(s guard.Stats) bool { return Serving(s) && (!rebuilt || s.Rebuilds > 0) })
	MustHideNone(t, d)
	Must(t, d.Guard().Work())
	MustHideNone(t, d)
	Must(t, d.Close())
	d = s.MustServe(t, s.dir(name), s.guard)
	Rebuild(t, d)
	MustHideNone(t, d)
	Must(t, d.Close())
}

// mustRead opens a copy of a store for reading. This must write nothing to the store. It may write
// to the filter only if the filter has a log, because its writer has died.
func (s *scene) mustRead(t *testing.T, name string, expect expectation) {
	t.Helper()
	read := s.dir(name + " for reading")
	Must(t, CopyDir(read, s.dir(name)))
	filter := filepath.Join(read, s.Filter)
	before, beforeErr := os.ReadFile(filter)
	_, logErr := os.Stat(filter + ".stash")
	d, err := s.Open(read, s.guard, true)
	if err != nil {
		t.Logf("for reading: %v", err) // after a kill, some engines do not open a store for reading
		return
	}
	MustHideNone(t, d)
	for i := range 1000 {
		if value, err := d.Get(Number(100_000 + i)); value != nil || err != nil {
			t.Fatalf("%q, %v", value, err)
		}
	}
	st := d.GuardStats()
	if expect == always && (st.State != "off" || st.Err == "" || st.Skipped > 0) || expect <= replays && (!Serving(st) || st.Err != "" || st.Skipped < 900) {
		t.Errorf("for reading: %+v", st)
	}
	if d.Do(random(t), func(tx Tx) error { return tx.Set(Number(0), "v") }) == nil {
		t.Error("a store that is open for reading is written to")
	}
	Must(t, d.Close())
	after, err := os.ReadFile(filter)
	if logErr != nil && (!bytes.Equal(before, after) || (err == nil) != (beforeErr == nil)) {
		t.Error("the filter of a reader has changed")
	}
}

// testDirectory opens a store whose filter cannot be created, since a directory has its name.
func (s *scene) testDirectory(t *testing.T) {
	Must(t, CopyDir(s.dir("directory"), s.dir("now")))
	Must(t, os.Remove(s.filter("directory")))
	Must(t, os.Mkdir(s.filter("directory"), 0o700))
	d := s.MustOpen(t, s.dir("directory"), s.guard)
	if s := d.GuardStats(); s.State != "off" || s.Err == "" {
		t.Errorf("%+v", s)
	}
	n := MustHideNone(t, d)
	Set(t, d, 9000, 9100)
	Remove(t, d, 9000, 9050)
	if got := MustHideNone(t, d); got != n+50 {
		t.Errorf("%d keys", got)
	}
	Must(t, d.Close())
}
