package guard

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// stuck is a filter whose inserts fail after a while.
type stuck struct {
	guarded.Filter
	begun, end chan struct{}
}

func (f *stuck) InsertHashes([]uint64, bool) (n, added int, err error) {
	close(f.begun)
	<-f.end
	return 0, 0, errStuck
}

// TestFailWhileTrimming makes an insert into the filter wait while the outbox is trimmed, and then
// fail.
func TestFailWhileTrimming(t *testing.T) {
	filter := &stuck{begun: make(chan struct{}), end: make(chan struct{})}
	f := begin(t, hooked(quiet(t, Rebuild), func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter }))
	done := make(chan error, 2)
	go func() {
		tx := f.g.Begin()
		tx.Put([]byte("k"))
		c := tx.Prepare()
		if !slices.ContainsFunc(c.Set, func(e Entry) bool { return bytes.Equal(e.Key, entryKey(keyFailed)) }) {
			t.Error("the store does not learn that the filter has failed")
		}
		f.commit(c, "k", true)
		tx.Done(Committed)
		done <- nil
	}()
	<-filter.begun
	go func() { done <- f.g.Work() }()
	time.Sleep(50 * time.Millisecond)
	close(filter.end)
	must(t, errors.Join(<-done, <-done)) // no deadlock
	f.mustShow()
	f.close()
}

// TestUnknownOutcome: nobody knows whether some transactions were committed. Then come a
// rebuild and a crash, after which the store has all of them.
func TestUnknownOutcome(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, quiet(t, deletes))
		change := func(key string, put bool) (c Changes) {
			tx := f.g.Begin()
			tx.change([]byte(key), put)
			for _, e := range tx.Prepare().Set {
				c.Set = append(c.Set, Entry{bytes.Clone(e.Key), bytes.Clone(e.Value)})
			}
			tx.Done(Unknown)
			return c
		}
		f.commit(change("a", true), "a", true) // a is visible at once
		f.commit(change("a", false), "a", false)
		f.commit(change("a", true), "a", true)
		late := change("b", true) // b is visible only after the crash
		for range 2 {
			f.rebuild()
			f.mustShow()
		}
		must(t, f.g.filter.Sync())
		f.commit(late, "b", true)
		f.kill()
		f.open()
		f.mustShow()
		f.close()
	})
}

// TestAbsentIn covers G1: once a deleted key has left the filter, the guard hides it from later
// readers, but not from a reader that began before the delete.
func TestAbsentIn(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, quiet(t, deletes))
		f.put("a")
		before := f.g.View()
		f.remove("a")
		f.work()
		f.rebuild()
		if f.g.AbsentIn(before, []byte("a")) || !f.g.AbsentIn(f.g.View(), []byte("a")) {
			t.Errorf("%+v", f.g.Stats())
		}
		f.close()
		f.mustBe("closed")
	})
}

// A droppingFilter drops a key during a lookup of the key, as housekeeping in the background may.
type droppingFilter struct {
	guarded.Filter
	g *Guard
}

func (f *droppingFilter) ContainsHash(hash uint64) bool {
	f.g.views.Add(1)
	return false
}

// TestAbsentInMeanwhile covers G1: the filter drops a key after a reader has begun to look it up.
func TestAbsentInMeanwhile(t *testing.T) {
	f := begin(t, quiet(t, Exact))
	before, real := f.g.View(), f.g.filter
	f.g.filter = &droppingFilter{real, f.g}
	if f.g.AbsentIn(before, []byte("a")) {
		t.Error("the key is hidden from a reader that may see it")
	}
	f.g.filter = real
	f.close()
}

// TestCloseBesides closes a guard and then its store while a program calls Rebuild and Work.
func TestCloseBesides(t *testing.T) {
	for range 20 {
		f := begin(t, quiet(t, Exact))
		f.put("a", "b", "c")
		g, ended := f.g, make(chan error, 2)
		for _, do := range []func() error{g.Work, func() error { return g.Rebuild(t.Context()) }} {
			go func() {
				err := do()
				for err == nil {
					err = do()
				}
				ended <- err
			}()
		}
		time.Sleep(time.Millisecond)
		f.close()
		release := f.use()
		f.closed = true
		release()
		for _, err := range []error{<-ended, <-ended, g.Doubt()} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		f.closed = false
		f.open()
		f.mustBe("serving")
		f.close()
	}
}

// TestLargeOutbox opens a store whose outbox has more keys than the filter and the overflow have
// room for.
func TestLargeOutbox(t *testing.T) {
	defer func(n int) { mostOverflow = n }(mostOverflow)
	mostOverflow = 100
	for _, open := range []func(Store, *Options) (*Guard, error){OpenReadOnly, Open} {
		f := begin(t, quiet(t, Rebuild))
		hashes := make([]uint64, 10_000)
		for i := range hashes {
			hashes[i] = f.g.hooks().Random()
		}
		last := f.g.filter.Hash([]byte("last"))
		f.close()
		f.commit(Changes{Set: []Entry{{entryKey(keyInserts, 1<<32), appendHashes(nil, append(hashes, last))}}}, "last", true)
		var err error
		f.g, err = open(f.rows, f.o)
		must(t, err)
		f.mustShow()
		f.close()
	}
}

// TestDoubt puts a key without the guard, in an operation that takes longer than a rebuild. The key is
// never hidden, whether Rebuild is called or a kill comes first.
func TestDoubt(t *testing.T) {
	for _, killed := range []bool{false, true} {
		o := quiet(t, Exact)
		o.CommitInterval = time.Millisecond
		f := begin(t, o)
		f.put("a")
		must(t, f.g.Doubt())
		time.Sleep(100 * time.Millisecond) // enough for a rebuild in the background
		f.commit(Changes{}, "past", true)
		f.mustShow()
		if killed {
			f.kill()
			f.open()
		} else {
			f.rebuild()
		}
		f.eventually("a rebuild", serving)
		f.mustShow()
		f.close()
	}
}

// TestBypass covers C9: an operation that bypasses the guard overlaps with another one. The guard serves
// only after the last of them, even if one panics.
func TestBypass(t *testing.T) {
	f := begin(t, still(t, Exact))
	nothing := func() error { return nil }
	must(t, f.g.Doubt())
	must(t, f.g.Bypass(nothing))
	f.commit(Changes{}, "after Bypass", true)
	f.mustBe("building")
	f.rebuild()
	f.mustBe("serving")
	if err := f.g.Bypass(func() error {
		must(t, f.g.Bypass(nothing))
		f.rebuild()
		f.commit(Changes{}, "during Bypass", true)
		f.mustBe("building")
		return errStuck
	}); err != errStuck {
		t.Error(err)
	}
	f.mustBe("serving")
	func() {
		defer func() { recover() }()
		f.g.Bypass(func() error { panic("do") })
	}()
	f.mustBe("building")
	f.rebuild()
	f.mustBe("serving")
	f.close()
	if err := f.g.Bypass(func() error { panic("the guard is closed") }); err != ErrClosed {
		t.Error(err)
	}
}

// TestDoubtDuringMark covers C9: Doubt is called during the mark at the end of a rebuild. The guard
// serves only after a later rebuild.
func TestDoubtDuringMark(t *testing.T) {
	s := newRows()
	s.commit(Changes{}, "a", true) // so no filter can serve at once
	f := beginWith(t, s, s, still(t, Exact))
	doubt := make(chan error, 1)
	s.write = func(c Changes) {
		if slices.ContainsFunc(c.Set, func(e Entry) bool { return bytes.Equal(e.Key, entryKey(keyStamp)) }) {
			go func() { doubt <- f.g.Doubt() }()
			for !f.g.doubted(0) {
				runtime.Gosched()
			}
		}
	}
	f.rebuild()
	must(t, <-doubt)
	s.write = nil
	s.commit(Changes{}, "past", true)
	f.mustBe("building")
	f.rebuild()
	f.mustBe("serving")
	f.close()
}
