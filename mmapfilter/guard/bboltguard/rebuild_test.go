package bboltguard

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
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
			t.Fatal("it does not come to that")
		}
	}
}

// TestSnapshotInCommit: a rebuild begins while a commit is under way that deletes keys. A transaction
// that began before it has them still.
func TestSnapshotInCommit(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		s := new(stop)
		o := &bbolt.Options{InitialMmapSize: 1 << 26, Logger: s}
		g.CommitInterval = time.Hour
		d := open(t, o, g)
		putAll(t, d, 0, 400)
		var reader *Tx
		rebuilt := make(chan error, 1)
		do := func() {
			go func() { rebuilt <- rebuild(d) }()
			d.store.until(t, func() bool { return len(d.store.gate.waiting) == 1 })
			var err error
			reader, err = d.Begin(false)
			must(t, err)
		}
		s.do.Store(&do)
		deleteAll(t, d, 0, 400)
		must(t, <-rebuilt)
		if n, err := hidden(reader); n != 400 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		must(t, reader.Rollback())
		putAll(t, d, 400, 500)
		if n := mustHaveAll(t, d); n != 100 {
			t.Errorf("%d keys", n)
		}
	})
}

// TestCommitWaitsForReader: a commit waits for a read transaction, since it needs a larger map, and a
// rebuild for the commit. The read transaction goes on.
func TestCommitWaitsForReader(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		d := open(t, fast(), g)
		putAll(t, d, 0, 100)
		for i := range 5 {
			reader, err := d.Begin(false)
			must(t, err)
			done := make(chan error, 2)
			go func() {
				done <- d.Update(func(tx *Tx) error {
					return tx.Bucket([]byte("b")).Put(number(1000), make([]byte, 1<<18<<i))
				})
			}()
			d.store.until(t, func() bool { return d.store.gate.busy })
			go func() { done <- rebuild(d) }()
			d.store.until(t, func() bool { return len(d.store.gate.waiting) == 1 })
			_ = d.GuardStats()
			for key := range 5000 { // the guard hears of false positives
				if reader.Bucket([]byte("b")).Get(number(10_000+key)) != nil {
					t.Error("there")
				}
			}
			if _, err := hidden(reader); err != nil {
				t.Error(err)
			}
			must(t, reader.Rollback())
			must(t, <-done)
			must(t, <-done)
			mustHaveAll(t, d)
		}
	})
}

// TestWriteNeedsLargerMap: what the guard writes at the end of a rebuild needs a larger map.
func TestWriteNeedsLargerMap(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		d := open(t, fast(), g)
		var waits sync.WaitGroup
		for i := range 40 {
			waits.Go(func() { putAll(t, d, 1000*i, 1000*i+1000) })
			if i%4 == 3 {
				must(t, rebuild(d))
			}
		}
		waits.Wait()
		if n := mustHaveAll(t, d); n != 40_000 {
			t.Errorf("%d keys", n)
		}
	})
}

// TestFailedCommits: commits fail while others put the same keys, and the guard works.
func TestFailedCommits(t *testing.T) {
	each(t, func(t *testing.T, g *guard.Options) {
		o := fast()
		o.MaxSize = 1 << 24
		large := make([]byte, 1<<25)
		d := open(t, o, g)
		putAll(t, d, 0, 100)
		var stop atomic.Bool
		var writing, working sync.WaitGroup
		working.Go(func() {
			for !stop.Load() {
				if err := d.Guard().Work(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range 4 {
			writing.Go(func() {
				for range 300 {
					err := d.Update(func(tx *Tx) error {
						b := tx.Bucket([]byte("b"))
						for key := range 100 {
							if err := b.Put(number(200+key), nil); err != nil {
								return err
							}
						}
						if i%2 == 0 {
							return b.Put(number(1000), large)
						}
						return b.Delete(number(200 + i))
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
		mustHaveAll(t, d)
		must(t, d.Guard().Work())
		if n := mustHaveAll(t, d); g.Deletes == guard.Exact && d.GuardStats().Keys != uint64(n) {
			t.Errorf("%d keys; %+v", n, d.GuardStats())
		}
	})
}
