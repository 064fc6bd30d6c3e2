package guard

import (
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// Rows is a store in memory, which gives each transaction a version. Keys of entries begin with a zero.
type rows struct {
	mu      sync.Mutex
	rows    map[string]row
	durable map[string]row // as rows were at the last Write
	last    uint64         // version
	closed  bool           // no method may be called any more
	read    func()         // if not nil, is called when a snapshot is read
	write   func(Changes)  // if not nil, is called before Write
}

type row struct {
	version uint64
	value   string
}

func newRows() *rows { return &rows{rows: map[string]row{}} }

func (r *rows) use() (release func()) {
	r.mu.Lock()
	if r.closed {
		panic("the store is closed")
	}
	return r.mu.Unlock
}

func (r *rows) Entries() (entries []Entry, err error) {
	defer r.use()()
	for _, key := range slices.Sorted(maps.Keys(r.rows)) {
		if entry, ok := strings.CutPrefix(key, "\x00"); ok {
			entries = append(entries, Entry{[]byte(entry), []byte(r.rows[key].value)})
		}
	}
	return entries, nil
}

func (r *rows) Write(c Changes) error {
	if r.write != nil {
		r.write(c)
	}
	r.commit(c, "", false)
	defer r.use()()
	r.durable = maps.Clone(r.rows)
	return nil
}

// commit does a transaction with changes to entries, and with a put or delete of a key unless it is
// empty.
func (r *rows) commit(c Changes, key string, put bool) {
	defer r.use()()
	r.last++
	if delete(r.rows, key); put {
		r.rows[key] = row{r.last, ""}
	}
	for _, x := range c.Remove {
		if string(x.To) == string(x.From)+"\x00" {
			delete(r.rows, "\x00"+string(x.From))
			continue
		}
		maps.DeleteFunc(r.rows, func(key string, _ row) bool {
			return key[0] == 0 && key[1:] >= string(x.From) && key[1:] < string(x.To)
		})
	}
	for _, e := range c.Set {
		r.rows["\x00"+string(e.Key)] = row{r.last, string(e.Value)}
	}
}

func (r *rows) Snapshot() (Snapshot, error) {
	defer r.use()()
	return Snapshot{Keys: r.keysOf(maps.Clone(r.rows), 0), Close: func() error { defer r.use()(); return nil }}, nil
}

// keysOf yields the keys with versions later than at.
func (r *rows) keysOf(rows map[string]row, at uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if r.read != nil {
			r.read()
		}
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			if key[0] != 0 && rows[key].version > at && !yield([]byte(key), nil) {
				return
			}
		}
	}
}

func (r *rows) Has(key []byte) (bool, error) {
	defer r.use()()
	_, there := r.rows[string(key)]
	return there, nil
}

// ordered are rows that tell the guard of their versions.
type ordered struct {
	*rows
	position func() // if not nil, is called before Position
	gone     bool   // Since yields ErrGone
}

func (r ordered) Position() (uint64, error) {
	if r.position != nil {
		r.position()
	}
	defer r.use()()
	return r.last, nil
}

func (r ordered) Since(at uint64) iter.Seq2[[]byte, error] {
	if r.gone {
		return func(yield func([]byte, error) bool) { yield(nil, ErrGone) }
	}
	return r.keysOf(maps.Clone(r.rows.rows), at)
}

// hidden returns the keys that the guard hides, from single lookups or from a lookup of all keys.
func (r *rows) hidden(g *Guard) (hidden []string) {
	defer r.use()()
	var keys [][]byte
	for key := range r.rows {
		if key[0] != 0 {
			keys = append(keys, []byte(key))
		}
	}
	absent := make([]bool, len(keys))
	g.AbsentBatch(keys, absent)
	for i, key := range keys {
		if absent[i] || g.Absent(key) {
			hidden = append(hidden, string(key))
		}
	}
	return hidden
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// both runs a test with both ways to delete.
func both(t *testing.T, test func(t *testing.T, deletes DeleteMode)) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) { test(t, deletes) })
	}
}

// quiet returns the options of a guard that does nothing by itself except a rebuild that is due. Its
// rate is so low that no key is taken for another one, so no test fails by chance.
func quiet(t *testing.T, deletes DeleteMode) *Options {
	o := &Options{Capacity: 1000, FalsePositiveRate: 1e-8, Deletes: deletes, CommitInterval: time.Hour}
	return o.WithDefaults(filepath.Join(t.TempDir(), "f"), deletes)
}

// still returns the options of a guard that does nothing in the background.
func still(t *testing.T, deletes DeleteMode) *Options {
	o := quiet(t, deletes)
	o.Hooks = newGuard(nil, o).hooks()
	o.Hooks.Manual = true
	return o
}

// hooked makes a guard pass each filter that it opens or creates through wrap.
func hooked(o *Options, wrap func(f guarded.Filter) guarded.Filter) *Options {
	o.Hooks = &guarded.Hooks{Random: newGuard(nil, o).hooks().Random}
	o.Hooks.Open = func(path string) (guarded.Filter, error) {
		f, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: o.CommitInterval, Checked: true})
		if err != nil {
			return nil, err
		}
		return wrap(guarded.Of(f)), nil
	}
	o.Hooks.Create = func(path string, c *mmapfilter.Options) (guarded.Filter, error) {
		f, err := mmapfilter.Create(path, c)
		if err != nil {
			return nil, err
		}
		return wrap(guarded.Of(f)), nil
	}
	return o
}

// A fixture is a guard with its store and its options.
type fixture struct {
	*rows
	t     *testing.T
	store Store // rows, or a store that wraps them
	o     *Options
	g     *Guard
}

// begin opens a guard of new rows.
func begin(t *testing.T, o *Options) *fixture {
	t.Helper()
	r := newRows()
	return beginWith(t, r, r, o)
}

func beginWith(t *testing.T, r *rows, store Store, o *Options) *fixture {
	t.Helper()
	f := &fixture{rows: r, t: t, store: store, o: o}
	f.open()
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	var err error
	f.g, err = Open(f.store, f.o)
	must(f.t, err)
}

func (f *fixture) close() {
	f.t.Helper()
	must(f.t, f.g.Close())
}

// kill ends a guard as a kill of its process does: the guard makes nothing durable any more.
func (f *fixture) kill() {
	f.t.Helper()
	f.g.end()
	f.g.background.Wait()
	must(f.t, f.g.filter.Close()) // nothing else
}

// end closes or kills the guard.
func (f *fixture) end(killed bool) {
	f.t.Helper()
	if killed {
		f.kill()
	} else {
		f.close()
	}
}

// put puts keys, through the guard.
func (f *fixture) put(keys ...string) {
	for _, key := range keys {
		tx := f.g.Begin()
		tx.Put([]byte(key))
		f.commit(tx.Prepare(), key, true)
		tx.Done(Committed)
	}
}

// remove deletes keys, through the guard.
func (f *fixture) remove(keys ...string) {
	for _, key := range keys {
		tx := f.g.Begin()
		tx.Delete([]byte(key))
		f.commit(tx.Prepare(), key, false)
		tx.Done(Committed)
	}
}

func (f *fixture) work() {
	f.t.Helper()
	must(f.t, f.g.Work())
}

func (f *fixture) rebuild() {
	f.t.Helper()
	must(f.t, f.g.Rebuild(f.t.Context()))
}

func (f *fixture) mustShow() {
	f.t.Helper()
	if keys := f.hidden(f.g); len(keys) > 0 {
		f.t.Errorf("%q is hidden; %+v", keys[0], f.g.Stats())
	}
}

// mustBe checks the state of a guard, and that it hides no key.
func (f *fixture) mustBe(state string) {
	f.t.Helper()
	if st := f.g.Stats(); st.State != state {
		f.t.Errorf("the guard should be %s; %+v", state, st)
	}
	f.mustShow()
}

// eventually waits until ok returns true for the statistics.
func (f *fixture) eventually(what string, ok func(s Stats) bool) {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(f.g.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%s: not in time; %+v", what, f.g.Stats())
		}
	}
}

func serving(s Stats) bool { return s.State == "serving" }
func rebuilt(s Stats) bool { return s.Rebuilds > 0 }

// backup copies the filter as it is now, and returns options for the copy.
func (f *fixture) backup() (copied *Options) {
	f.t.Helper()
	dir, o := f.t.TempDir(), *f.o
	must(f.t, os.CopyFS(dir, os.DirFS(filepath.Dir(o.Path))))
	o.Path = filepath.Join(dir, filepath.Base(o.Path))
	return &o
}

var errStuck = errors.New("stuck")
