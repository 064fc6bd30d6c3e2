package guard

import (
	"bytes"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// rows is a store in memory. Keys of entries begin with a zero.
type rows struct {
	mu     sync.Mutex
	rows   map[string]string
	closed bool            // then no method may be called
	read   func()          // if not nil, is called when a snapshot is read
	write  func(c Changes) // if not nil, is called before Write
}

func newRows() *rows { return &rows{rows: map[string]string{}} }

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
			entries = append(entries, Entry{[]byte(entry), []byte(r.rows[key])})
		}
	}
	return entries, nil
}

func (r *rows) Write(c Changes) error {
	if r.write != nil {
		r.write(c)
	}
	defer r.use()()
	r.change(c)
	return nil
}

func (r *rows) change(c Changes) {
	for _, x := range c.Remove {
		if string(x.To) == string(x.From)+"\x00" {
			delete(r.rows, "\x00"+string(x.From))
			continue
		}
		maps.DeleteFunc(r.rows, func(key, _ string) bool {
			return key[0] == 0 && key[1:] >= string(x.From) && key[1:] < string(x.To)
		})
	}
	for _, e := range c.Set {
		r.rows["\x00"+string(e.Key)] = string(e.Value)
	}
}

// commit does a transaction.
func (r *rows) commit(c Changes, key string, put bool) {
	defer r.use()()
	if delete(r.rows, key); put {
		r.rows[key] = ""
	}
	r.change(c)
}

func (r *rows) Snapshot() (Snapshot, error) {
	defer r.use()()
	keys := slices.Collect(maps.Keys(r.rows))
	return Snapshot{
		Keys: func(yield func([]byte, error) bool) {
			if r.read != nil {
				r.read()
			}
			for _, key := range keys {
				if key[0] != 0 && !yield([]byte(key), nil) {
					return
				}
			}
		},
		Close: func() error { defer r.use()(); return nil },
	}, nil
}

func (r *rows) Has(key []byte) (bool, error) {
	defer r.use()()
	_, there := r.rows[string(key)]
	return there, nil
}

func (r *rows) mustShow(t *testing.T, g *Guard) {
	t.Helper()
	defer r.use()()
	for key := range r.rows {
		if key[0] != 0 && g.Absent([]byte(key)) {
			t.Errorf("%q is hidden; %+v", key, g.Stats())
		}
	}
}

// put puts a key, through the guard.
func (r *rows) put(g *Guard, key string) {
	tx := g.Begin()
	tx.Put([]byte(key))
	r.commit(tx.Prepare(), key, true)
	tx.Done(Committed)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testOptions(t *testing.T, deletes DeleteMode) *Options {
	o := &Options{Capacity: 1000, Deletes: deletes, CommitInterval: time.Hour}
	return o.WithDefaults(filepath.Join(t.TempDir(), "f"), deletes)
}

// hooked has g's filters be what wrap makes of them.
func hooked(o *Options, wrap func(f guarded.Filter) guarded.Filter) {
	random := newGuard(nil, o).hooks().Random
	open := func(path string) (guarded.Filter, error) {
		f, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: o.CommitInterval, Checked: true})
		if err != nil {
			return nil, err
		}
		return wrap(guarded.Of(f)), nil
	}
	o.Hooks = &guarded.Hooks{
		Open:   open,
		Random: random,
		Create: func(path string, c *mmapfilter.Options) (guarded.Filter, error) {
			f, err := mmapfilter.Create(path, c)
			if err != nil {
				return nil, err
			}
			return wrap(guarded.Of(f)), nil
		},
	}
}

// stuck is a filter whose inserts fail after a while.
type stuck struct {
	guarded.Filter
	begun, end chan struct{}
}

var errStuck = errors.New("stuck")

func (f *stuck) InsertUniqueHashes([]uint64) (n, added int, err error) {
	close(f.begun)
	<-f.end
	return 0, 0, errStuck
}

// TestFailWhileTrimming has an insert wait for its disk while the outbox is trimmed, and then fail.
func TestFailWhileTrimming(t *testing.T) {
	s, o := newRows(), testOptions(t, Rebuild)
	f := &stuck{begun: make(chan struct{}), end: make(chan struct{})}
	hooked(o, func(real guarded.Filter) guarded.Filter { f.Filter = real; return f })
	g, err := Open(s, o)
	must(t, err)
	var group sync.WaitGroup
	group.Add(2)
	go func() {
		defer group.Done()
		tx := g.Begin()
		tx.Put([]byte("k"))
		c := tx.Prepare()
		if !slices.ContainsFunc(c.Set, func(e Entry) bool { return bytes.Equal(e.Key, entryKey(keyFailed)) }) {
			t.Error("the store does not learn that the filter has failed")
		}
		s.commit(c, "k", true)
		tx.Done(Committed)
	}()
	<-f.begun
	go func() {
		defer group.Done()
		if err := g.Work(); err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(50 * time.Millisecond)
	close(f.end)
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a deadlock")
	}
	s.mustShow(t, g)
	must(t, g.Close())
}

// TestUnknownOutcome has transactions whose commit nobody knows anything of, a rebuild, and a crash
// after which they have happened.
func TestUnknownOutcome(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			s, o := newRows(), testOptions(t, deletes)
			g, err := Open(s, o)
			must(t, err)
			change := func(key string, put bool) Changes {
				tx := g.Begin()
				if put {
					tx.Put([]byte(key))
				} else {
					tx.Delete([]byte(key))
				}
				c := tx.Prepare()
				for i, e := range c.Set {
					c.Set[i].Value = bytes.Clone(e.Value)
					c.Set[i].Key = bytes.Clone(e.Key)
				}
				c.Set = slices.Clone(c.Set)
				tx.Done(Unknown)
				return c
			}
			s.commit(change("a", true), "a", true) // it is visible at once
			s.commit(change("a", false), "a", false)
			s.commit(change("a", true), "a", true)
			late := change("b", true) // this one only after the crash
			for range 2 {
				must(t, g.Rebuild(t.Context()))
				s.mustShow(t, g)
			}
			must(t, g.filter.Sync())
			s.commit(late, "b", true)
			must(t, g.filter.Close()) // no more than that
			g.end()
			g, err = Open(s, o)
			must(t, err)
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}

// TestCloseBesides closes a guard and then its store while a program has the filter rebuilt, and works.
func TestCloseBesides(t *testing.T) {
	for range 20 {
		s, o := newRows(), testOptions(t, Exact)
		g, err := Open(s, o)
		must(t, err)
		for _, key := range []string{"a", "b", "c"} {
			tx := g.Begin()
			tx.Put([]byte(key))
			s.commit(tx.Prepare(), key, true)
			tx.Done(Committed)
		}
		var group sync.WaitGroup
		for _, do := range []func() error{g.Work, func() error { return g.Rebuild(t.Context()) }} {
			group.Add(1)
			go func() {
				defer group.Done()
				for err := error(nil); err == nil; {
					if err = do(); err != nil && !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
				}
			}()
		}
		time.Sleep(time.Millisecond)
		must(t, g.Close())
		release := s.use()
		s.closed = true
		release()
		group.Wait()
		if err := g.Doubt(); err != ErrClosed {
			t.Error(err)
		}
		s.closed = false
		g, err = Open(s, o)
		must(t, err)
		if st := g.Stats(); st.State != "serving" || st.Err != "" {
			t.Errorf("%+v", st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}

// TestLargeOutbox opens a store whose outbox has more keys than the filter and the overflow have
// room for.
func TestLargeOutbox(t *testing.T) {
	defer func(n int) { mostOverflow = n }(mostOverflow)
	mostOverflow = 100
	for _, open := range []func(Store, *Options) (*Guard, error){OpenReadOnly, Open} {
		s, o := newRows(), testOptions(t, Rebuild)
		g, err := Open(s, o)
		must(t, err)
		hashes := make([]uint64, 10_000)
		for i := range hashes {
			hashes[i] = g.hooks().Random()
		}
		last := g.filter.Hash([]byte("last"))
		must(t, g.Close())
		s.commit(Changes{Set: []Entry{{entryKey(keyInserts, 1<<32), appendHashes(nil, append(hashes, last))}}}, "last", true)
		g, err = open(s, o)
		must(t, err)
		s.mustShow(t, g)
		must(t, g.Close())
	}
}
