package bboltguard

import (
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// A stop is a bbolt.Logger that calls a function at the beginning of a commit.
type stop struct {
	bbolt.DefaultLogger
	do atomic.Pointer[func()]
}

func (s *stop) Debugf(format string, _ ...any) {
	if strings.HasPrefix(format, "Committing transaction %d") && !strings.Contains(format, "success") {
		if do := s.do.Swap(nil); do != nil {
			(*do)()
		}
	}
}
func (s *stop) Debug(...any)            {}
func (s *stop) Error(...any)            {}
func (s *stop) Errorf(string, ...any)   {}
func (s *stop) Info(...any)             {}
func (s *stop) Infof(string, ...any)    {}
func (s *stop) Warning(...any)          {}
func (s *stop) Warningf(string, ...any) {}

// until waits for a condition of the gate.
func (s *store) until(t *testing.T, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.gate.Lock()
		ok := holds()
		s.gate.Unlock()
		if ok {
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the condition does not hold in time")
		}
	}
}

// TestSnapshotInCommit: a rebuild begins during a commit that deletes keys. A transaction that began
// before the commit still sees the keys.
func TestSnapshotInCommit(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		s := new(stop)
		o := &bbolt.Options{InitialMmapSize: 1 << 26, Logger: s}
		d := open(t, o, guardtest.Quiet(deletes))
		guardtest.Set(t, d, 0, 400)
		var reader *Tx
		rebuilt := make(chan error, 1)
		do := func() {
			go func() { rebuilt <- d.guard.Rebuild(t.Context()) }()
			d.store.until(t, func() bool { return len(d.store.gate.waiting) == 1 })
			var err error
			reader, err = d.Begin(false)
			must(t, err)
		}
		s.do.Store(&do)
		guardtest.Remove(t, d, 0, 400)
		must(t, <-rebuilt)
		if n, err := guardtest.Hidden(d, testTx{reader}); n != 400 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		must(t, reader.Rollback())
		guardtest.Set(t, d, 400, 500)
		if n := guardtest.MustHideNone(t, d); n != 100 {
			t.Errorf("%d keys", n)
		}
	})
}

// TestCommitWaitsForReader: a commit that needs a larger map waits for a read transaction, and a
// rebuild waits for the commit. The read transaction goes on meanwhile.
func TestCommitWaitsForReader(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := open(t, fast(), guardtest.Often(deletes))
		guardtest.Set(t, d, 0, 100)
		for i := range 5 {
			must(t, d.guard.Rebuild(t.Context())) // then none begins by itself
			reader, err := d.Begin(false)
			must(t, err)
			done, alone := make(chan error, 2), make(chan struct{})
			go func() {
				done <- d.Update(func(tx *Tx) error {
					d.store.one.Lock() // waits for the end of a commit of the background
					defer d.store.one.Unlock()
					close(alone)
					return tx.Bucket([]byte("k")).Put([]byte("large"), make([]byte, 1<<18<<i))
				})
			}()
			<-alone
			d.store.until(t, func() bool { return d.store.gate.busy })
			go func() { done <- d.guard.Rebuild(t.Context()) }()
			d.store.until(t, func() bool { return len(d.store.gate.waiting) == 1 })
			_ = d.GuardStats()
			for key := range 5000 { // reports false positives to the guard
				if reader.Bucket([]byte("k")).Get(fmt.Append(nil, 10_000+key)) != nil {
					t.Error("an absent key is found")
				}
			}
			if _, err := guardtest.Hidden(d, testTx{reader}); err != nil {
				t.Error(err)
			}
			must(t, reader.Rollback())
			must(t, <-done)
			must(t, <-done)
			guardtest.MustHideNone(t, d)
		}
	})
}

// TestIdle checks that a commit of the guard itself that might need a larger map is put off while there
// is a reader or a snapshot, for which it would wait, as the next read transaction would wait for the
// commit. Other commits go on beside readers, of which there may always be some.
func TestIdle(t *testing.T) {
	d := open(t, fast(), guardtest.Quiet(guard.Exact))
	larger := func() error { // needs a larger map
		return d.store.WriteIdle(guard.Changes{Set: []guard.Entry{{Key: []byte("x"), Value: make([]byte, 1<<20)}}})
	}
	outer, err := d.Begin(false)
	must(t, err)
	if err := larger(); !errors.Is(err, guard.ErrBusy) {
		t.Errorf("beside a reader: %v", err)
	}
	inner, err := d.Begin(false)
	must(t, err)
	must(t, errors.Join(inner.Rollback(), outer.Rollback()))
	if outer.Rollback() == nil {
		t.Error("a transaction ends twice")
	}
	snapshot, err := d.store.Snapshot()
	must(t, err)
	if err := larger(); !errors.Is(err, guard.ErrBusy) {
		t.Errorf("beside a snapshot: %v", err)
	}
	must(t, snapshot.Close())
	must(t, larger())
	must(t, d.store.WriteIdle(guard.Changes{Remove: []guard.Range{{From: []byte("x"), To: []byte("y")}}}))
	must(t, d.Update(func(tx *Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte("k"))
		if err != nil {
			return err
		}
		return b.Put([]byte("large"), make([]byte, 5<<19)) // the map has 4 MiB now, so a small commit fits
	}))
	must(t, d.View(func(*Tx) error {
		return d.store.WriteIdle(guard.Changes{Set: []guard.Entry{{Key: []byte("x"), Value: []byte("y")}}})
	}))
}

// TestIdleTrims checks that the guard removes many entries beside a reader, even if the store has little
// else and there is no room for all of them in the map. It writes to a small store if its map is large.
func TestIdleTrims(t *testing.T) {
	o := fast()
	o.InitialMmapSize = 1 << 20
	large := open(t, o, guardtest.Quiet(guard.Exact))
	must(t, large.View(func(*Tx) error { return large.store.WriteIdle(guard.Changes{}) }))
	d := open(t, fast(), guardtest.Quiet(guard.Exact))
	var c guard.Changes
	for i := range 300 {
		c.Set = append(c.Set, guard.Entry{Key: fmt.Appendf(nil, "x%03d", i), Value: make([]byte, 4000)})
	}
	must(t, d.store.Write(c)) // the map has 2 MiB now, of which the store takes more than half
	must(t, d.View(func(*Tx) error {
		return d.store.WriteIdle(guard.Changes{Remove: []guard.Range{{From: []byte("x"), To: []byte("y")}}})
	}))
}

// TestFits checks that a commit of the guard needs no larger map if fits says so, though the list of
// free pages is long, and a reader keeps them from being used.
func TestFits(t *testing.T) {
	o := fast()
	o.InitialMmapSize, o.PageSize, o.NoStatistics = largeMap, 1024, true
	d := open(t, o, guardtest.Quiet(guard.Exact))
	d.store.mapped = 0 // so that fits does not know the map
	guardtest.Set(t, d, 0, 5000)
	reader, err := d.Begin(false)
	must(t, err)
	defer func() { must(t, reader.Rollback()) }()
	must(t, d.Update(func(tx *Tx) error { return tx.DeleteBucket([]byte("k")) }))
	most := func(size int64) int64 { return 1 << bits.Len64(uint64(size-1)) } // that bbolt maps
	fit := 0
	for i := range 150 {
		must(t, d.Update(func(tx *Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("k"))
			if err != nil {
				return err
			}
			return b.Put(fmt.Append(nil, i), make([]byte, 1024))
		}))
		tx, err := d.DB.DB.Begin(true)
		must(t, err)
		fits, size := d.store.fits(tx), tx.Size()
		must(t, tx.Rollback())
		must(t, d.guard.Work())
		must(t, d.DB.DB.View(func(tx *bbolt.Tx) error {
			if fits && tx.Size() >= most(size) {
				t.Errorf("the store grows from %d to %d bytes", size, tx.Size())
			}
			return nil
		}))
		if fits {
			fit++
		}
	}
	if fit == 0 || fit == 150 {
		t.Errorf("fits says so %d times", fit)
	}
}

// TestFailedCommits makes commits fail, since the store is full, while other commits put the same keys,
// and the guard works. No key that a failed commit deletes is hidden, and the filter has no key that
// only a failed commit puts.
func TestFailedCommits(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		o := fast()
		o.MaxSize = 1 << 24
		large := make([]byte, 1<<25)
		d := open(t, o, guardtest.Quiet(deletes))
		guardtest.Set(t, d, 0, 100)
		var stop atomic.Bool
		var writing, working sync.WaitGroup
		working.Go(func() {
			for !stop.Load() {
				if err := d.guard.Work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range 4 {
			writing.Go(func() {
				for range 100 {
					err := d.Update(func(tx *Tx) (err error) {
						b := tx.Bucket([]byte("k"))
						for key := range 100 {
							err = errors.Join(err, b.Put(fmt.Append(nil, "other", key), nil))
						}
						if i%2 == 0 {
							return errors.Join(err, b.Delete([]byte("00000000")), b.Put([]byte("large"), large))
						}
						return errors.Join(err, b.Delete(fmt.Append(nil, "other", i)))
					})
					if (err == nil) != (i%2 == 1) {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		stop.Store(true)
		working.Wait()
		must(t, d.guard.Work())
		if n, s := guardtest.MustHideNone(t, d), d.GuardStats(); s.Pending > 0 || deletes == guard.Exact && s.Keys != uint64(n) {
			t.Errorf("%d keys; %+v", n, s)
		}
		guardtest.MustHave(t, d, 0, 100, 200)
	})
}

// TestTouched covers G7: the next Open notices a transaction that bypassed the guard, even if the guard
// has made transactions since. Transactions of the guard that change nothing, or are rolled back, do
// not look like that.
func TestTouched(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir, o := t.TempDir(), guardtest.Quiet(deletes)
		d := engine(largeMap).MustOpen(t, dir, o).(testStore)
		guardtest.Set(t, d, 0, 10)
		must(t, d.Update(func(*Tx) error { return nil }))
		if err := d.Update(func(*Tx) error { return errAbort }); err != errAbort {
			t.Error(err)
		}
		must(t, d.Close())
		d = engine(largeMap).MustServe(t, dir, o).(testStore)
		must(t, d.DB.DB.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("k")).Put([]byte("past"), nil) }))
		guardtest.Set(t, d, 10, 20)
		must(t, d.guard.Work())
		must(t, d.Close())
		d = engine(largeMap).MustOpen(t, dir, o).(testStore)
		if s := d.GuardStats(); s.Err != guard.ErrTouched.Error() && s.Rebuilds == 0 {
			t.Errorf("%+v", s)
		}
		guardtest.MustHideNone(t, d)
		guardtest.Eventually(t, d, "a filter", guardtest.Serving)
		must(t, d.Close())
		must(t, engine(largeMap).MustServe(t, dir, o).Close())
	})
}

// TestTouchedWhileBuilding covers G7: a write bypasses the guard while a rebuild reads the keys of a
// store that has no filter yet, so the filter may lack its key. A write between Doubt and Rebuild is in
// the filter.
func TestTouchedWhileBuilding(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		for _, doubt := range []bool{false, true} {
			dir, o, e := t.TempDir(), guardtest.Quiet(deletes), engine(largeMap)
			must(t, e.Unguarded(dir, []string{"k/a", "k/b"}))
			var d testStore
			past := func(key string) {
				must(t, d.DB.DB.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("k")).Put([]byte(key), nil) }))
			}
			opened, calls := make(chan struct{}), 0
			o.CoversVersion = "all"
			o.Covers = func([]byte) bool {
				if calls++; calls == 2 { // the first call is in Open, and the second in the rebuild
					<-opened
					past("0")
				}
				return true
			}
			d = e.MustOpen(t, dir, o).(testStore)
			close(opened)
			guardtest.Eventually(t, d, "a filter", guardtest.Serving)
			if doubt {
				must(t, d.guard.Doubt())
				past("1")
				guardtest.Rebuild(t, d)
			}
			guardtest.Set(t, d, 0, 10)
			must(t, d.Close())
			d = e.MustOpen(t, dir, o).(testStore)
			if s := d.GuardStats(); (s.Err == "") != doubt {
				t.Errorf("doubt %t: %+v", doubt, s)
			}
			guardtest.MustHideNone(t, d)
			must(t, d.Close())
		}
	})
}

// TestTouchedCopy covers G7: a copy that bbolt has made, with a copy of the filter, is like a store
// after a kill. The filter is used, unless a program without the guard has written to the copy since.
func TestTouchedCopy(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		for _, past := range [][]string{nil, {"k/past"}} {
			dir, copied, o := t.TempDir(), t.TempDir(), guardtest.Quiet(deletes)
			d := engine(largeMap).MustOpen(t, dir, o).(testStore)
			guardtest.Set(t, d, 0, 100)
			must(t, d.guard.Work())
			must(t, guardtest.CopyDir(copied, dir, "db"))
			must(t, d.View(func(tx *Tx) error { return tx.CopyFile(filepath.Join(copied, "db"), 0o600) }))
			must(t, d.Close())
			must(t, engine(largeMap).Unguarded(copied, past))
			d = engine(largeMap).MustOpen(t, copied, o).(testStore)
			if s := d.GuardStats(); (s.Err == "" && s.Rebuilds == 0) != (past == nil) {
				t.Errorf("put without the guard: %q: %+v", past, s)
			}
			guardtest.MustHideNone(t, d)
			guardtest.Eventually(t, d, "a filter", guardtest.Serving)
			guardtest.MustKnow(t, d, "k/past", past != nil)
			must(t, d.Close())
		}
	})
}
