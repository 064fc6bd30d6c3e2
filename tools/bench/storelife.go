package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/badgerguard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/bboltguard"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newStoreLife returns the command that measures a guard whose store grows, is written over, and shrinks
// again, while another goroutine asks for absent keys.
func newStoreLife() command {
	l := new(storeLife)
	return command{
		flags: func(s *session) {
			l.session = s
			s.flags.StringVar(&l.first, "first", "1000", "the capacity that is asked for; -size and -rounds do not count")
			s.flags.StringVar(&l.most, "most", "20M", "keys that the store grows to")
			s.flags.StringVar(&l.last, "last", "1M", "keys that it shrinks to")
			s.flags.StringVar(&l.engines, "engines", "pebble,bbolt,badger", "which stores")
			s.flags.StringVar(&l.deletes, "deletes", "default", "how keys leave the filters: rebuild, exact, or default, which is what suits the engine")
		},
		short: map[string]string{"most": "20K", "last": "1K"},
		run:   func(*session) error { return l.run() },
	}
}

type storeLife struct {
	*session
	first, most, last, engines, deletes string

	mode guard.DeleteMode
	keys storesRun // names them
}

// A guardedStore is a store behind a guard.
type guardedStore interface {
	store
	remove(keys [][]byte) error
	GuardStats() guard.Stats
}

func (l *storeLife) run() error {
	var counts []uint64
	for _, word := range []string{l.first, l.most, l.last} {
		n, err := parseCounts(word)
		if err != nil {
			return err
		}
		counts = append(counts, n[0])
	}
	if 2*counts[2]+askedDeleted > counts[1] {
		return fmt.Errorf("-last twice is more than -most less %s", figures.Grouped(askedDeleted))
	}
	switch l.deletes {
	case guard.DeletesDefault.String():
	case guard.Exact.String():
		l.mode = guard.Exact
	case guard.Rebuild.String():
		l.mode = guard.Rebuild
	default:
		return fmt.Errorf("-deletes %q: it is rebuild, exact, or default", l.deletes)
	}
	l.keys = storesRun{session: l.session, hash: layout.NewHasher(l.seed)}
	for _, engine := range strings.Split(l.engines, ",") {
		if err := l.live(engine, counts[0], counts[1], counts[2]); err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

// live takes a store of an engine through its life.
func (l *storeLife) live(engine string, first, most, last uint64) error {
	s, err := l.open(engine, first)
	if err != nil {
		return err
	}
	put := func(keys [][]byte) error { return s.put(keys, make([]byte, 100), false) }
	if err := put([][]byte{l.keys.key(nil, 0)}); err != nil { // so that bbolt has a bucket
		return errors.Join(err, s.close())
	}
	a := &asking{storeLife: l, store: s, ends: make(chan struct{})}
	a.done.Add(1)
	go a.run()
	t := figures.NewTable(engine+", deletes: "+l.deletes, "took", "keys a second", "rebuilds", "capacity then", "rate", "largest of any 100,000", "Gets a second", "µs, 99.99 %", "longest, ms")
	stage := func(name string, n uint64, do func(keys [][]byte) error, key func(i uint64) uint64) {
		if err != nil || a.failed.Load() {
			return
		}
		l.note("%s: %s", engine, name)
		a.begin()
		begun, before := time.Now(), s.GuardStats()
		err = l.each(engine, n, do, key, &a.failed)
		took := time.Since(begun)
		if err == nil {
			err = a.report(t, name, n, took, before)
		}
	}
	self := func(i uint64) uint64 { return i }
	stage(fmt.Sprintf("grow to %s keys", figures.Grouped(int64(most))), most, put, self)
	stage("put a quarter again", most/4, put, func(i uint64) uint64 { return peer.Mix(i) % most })
	stage(fmt.Sprintf("delete all but %s", figures.Grouped(int64(last))), most-last, s.remove, func(i uint64) uint64 { return last + i })
	a.deleted.Store(most - askedDeleted)
	stage("ask for absent and for deleted keys", 0, nil, nil)
	a.deleted.Store(0)
	stage("put as many again", last, put, func(i uint64) uint64 { return last + i })
	stage("delete these", last, s.remove, func(i uint64) uint64 { return last + i })
	stage("ask for absent keys", 0, nil, nil)
	close(a.ends)
	a.done.Wait()
	if a.err != nil {
		err = a.err
	}
	if closed := s.close(); err == nil {
		err = closed
	}
	if err == nil {
		l.print(t)
	}
	return err
}

// open opens an empty store of an engine behind a guard.
func (l *storeLife) open(engine string, capacity uint64) (guardedStore, error) {
	for _, k := range storeKinds() {
		if k.engine == engine && k.filter == guarded {
			s, err := k.open(l.path("life-"+engine), &guard.Options{Capacity: capacity, Deletes: l.mode})
			if err != nil {
				return nil, err
			}
			return s.(guardedStore), nil
		}
	}
	return nil, fmt.Errorf("there is no store %q", engine)
}

// each does something to n keys in transactions, until stop is set. With nothing to do it waits.
func (l *storeLife) each(engine string, n uint64, do func(keys [][]byte) error, key func(i uint64) uint64, stop *atomic.Bool) error {
	if do == nil {
		wait := 20 * time.Second
		if l.short {
			wait = 200 * time.Millisecond
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(wait):
		}
		return l.ctx.Err()
	}
	size := uint64(100)
	if engine == "bbolt" { // a commit writes each page that it changes, and syncs
		size = max(1000, n/400)
	}
	keys := make([][]byte, 0, size)
	for i := uint64(0); i < n && l.ctx.Err() == nil && !stop.Load(); {
		keys = keys[:0]
		for ; i < n && uint64(len(keys)) < size; i++ {
			keys = append(keys, l.keys.key(nil, key(i)))
		}
		if err := do(keys); err != nil {
			return err
		}
	}
	return l.ctx.Err()
}

// An asking asks for absent keys all the time.
type asking struct {
	*storeLife
	store  guardedStore
	ends   chan struct{}
	done   sync.WaitGroup
	err    error // if failed
	failed atomic.Bool

	// If it is not 0, the askedDeleted keys from it on have been deleted, and are asked for, too.
	deleted atomic.Uint64

	mu struct {
		sync.Mutex
		took    histogram
		largest float64 // rate of a window
		window  guard.Stats
	}
}

// askedWindow is how many absent keys there are to a rate that is compared: chance changes one of
// 1 % by 3 % of that.
const askedWindow = 100_000

func (a *asking) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.took, a.mu.largest, a.mu.window = histogram{}, 0, a.store.GuardStats()
}

func (a *asking) run() {
	defer a.done.Done()
	var key []byte
	for i := uint64(0); ; i++ {
		select {
		case <-a.ends:
			return
		default:
		}
		n := 1<<60 + i
		if from := a.deleted.Load(); from > 0 && i%2 == 0 {
			n = from + peer.Mix(i)%askedDeleted
		}
		key = a.keys.key(key[:0], n)
		begun := time.Now()
		found, err := a.store.get(key)
		took := time.Since(begun)
		if err == nil && found {
			err = errors.New("found, and it was deleted or never put")
		}
		if err != nil {
			a.err = fmt.Errorf("key %d: %w", n, err)
			a.failed.Store(true)
			return
		}
		a.mu.Lock()
		a.mu.took.add(took)
		if a.mu.took.total%askedWindow == 0 {
			now := a.store.GuardStats()
			passed, skipped := now.FalsePositives-a.mu.window.FalsePositives, now.Skipped-a.mu.window.Skipped
			if passed+skipped > askedWindow/2 {
				a.mu.largest = max(a.mu.largest, float64(passed)/float64(passed+skipped))
			}
			a.mu.window = now
		}
		a.mu.Unlock()
	}
}

// askedDeleted is how many of the keys that were deleted last are asked for.
const askedDeleted = 10_000

func (a *asking) report(t *figures.Table, name string, n uint64, took time.Duration, before guard.Stats) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.store.GuardStats()
	passed, skipped := now.FalsePositives-before.FalsePositives, now.Skipped-before.Skipped
	speed := "-"
	if n > 0 {
		speed = figures.Grouped(int64(float64(n) / took.Seconds()))
	}
	h := &a.mu.took
	t.Row(name, figures.Brief(took), speed, fmt.Sprint(now.Rebuilds-before.Rebuilds), figures.Grouped(int64(now.Capacity)),
		percent(float64(passed)/float64(max(passed+skipped, 1))), percent(a.mu.largest),
		figures.Grouped(int64(float64(h.total)/took.Seconds())), figures.Digits(float64(h.quantile(0.9999).Nanoseconds())/1000), figures.Digits(float64(h.longest.Microseconds())/1000))
	if now.State == "off" {
		return fmt.Errorf("%s: the guard is off: %s", name, now.Err)
	}
	return nil
}

func (d guardedPebble) remove(keys [][]byte) (err error) {
	b := d.NewBatch()
	for _, key := range keys {
		err = errors.Join(err, b.Delete(key, nil))
	}
	return errors.Join(err, b.Commit(writeOptions(false)), b.Close())
}

func (d guardedBolt) remove(keys [][]byte) error {
	return d.Update(func(tx *bboltguard.Tx) error {
		b := tx.Bucket(bucket)
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d guardedBadger) remove(keys [][]byte) error {
	return d.Update(func(tx *badgerguard.Txn) error {
		for _, key := range keys {
			if err := tx.Delete(bytes.Clone(key)); err != nil {
				return err
			}
		}
		return nil
	})
}
