package badgerguard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var (
	modelSteps = flag.Int("model-steps", 500, "transactions of each goroutine of the model test")
	modelSeed  = flag.Uint64("model-seed", 0, "seed of the model test; 0 means a random one")
)

// TestModel has goroutines do all that a program can do, each with keys of its own that a map follows,
// and with keys that all share. With drops, Badger brings deleted keys back, also those of other
// prefixes, so the map may be wrong, but what the store has must not be hidden.
func TestModel(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		for _, v := range []struct{ conflicts, drops bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
			t.Run(fmt.Sprintf("conflicts=%t,drops=%t", v.conflicts, v.drops), func(t *testing.T) {
				seed := *modelSeed
				if seed == 0 {
					seed = rand.Uint64()
				}
				t.Logf("-model-seed %d", seed)
				runModel(t, small(t.TempDir()).WithDetectConflicts(v.conflicts), often(deletes), seed, v.drops)
			})
		}
	})
}

const (
	modelGoroutines = 6
	modelKeys       = 400 // of each
	sharedKeys      = 40
)

// A model is what one goroutine does, and what it expects.
type model struct {
	name  string
	rng   *rand.Rand
	d     *DB
	drops bool              // and the map may be wrong
	there map[string]string // what the store has
	merge *MergeOperator
	seq   *Sequence
	stats *modelStats

	long     *Txn // a read transaction that stays open
	longSeen map[string]string
}

type modelStats struct {
	conflicts, blocked, checked atomic.Uint64
	resurrected, lost           atomic.Uint64 // by Badger, seen in lookups
	dropsBegun, dropsEnded      atomic.Uint64
	moved                       atomic.Bool // values may have been, by a GC
}

func runModel(t *testing.T, o badger.Options, g *guard.Options, seed uint64, drops bool) {
	d := mustOpen(t, o, g)
	stats := new(modelStats)
	models := make([]*model, modelGoroutines)
	for i := range models {
		models[i] = &model{
			name: fmt.Sprintf("g%d/", i), rng: rand.New(rand.NewPCG(seed, uint64(i))), d: d,
			drops: drops, there: map[string]string{}, stats: stats,
		}
	}
	for round := range 3 { // each ends with another open
		ctx, cancel := context.WithCancel(context.Background())
		var background sync.WaitGroup
		background.Add(1)
		go func() {
			defer background.Done()
			for ctx.Err() == nil {
				if err := d.Guard().Rebuild(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("rebuild: %v", err)
				}
				stats.moved.Store(true)
				d.RunValueLogGC(0.1)
			}
		}()
		var workers sync.WaitGroup
		for _, m := range models {
			workers.Add(1)
			go func() {
				defer workers.Done()
				if err := m.run(*modelSteps); err != nil {
					t.Errorf("%s: %v; %+v", m.name, err, d.GuardStats())
				}
			}()
		}
		workers.Wait()
		cancel()
		background.Wait()
		mustHideNone(t, d)
		if t.Failed() {
			return
		}
		if round == 2 {
			break
		}
		must(t, d.Close())
		d = mustOpen(t, o, g)
		if s := d.GuardStats(); s.State != "serving" {
			t.Fatalf("after an orderly close: %+v", s)
		}
		mustHideNone(t, d)
		for _, m := range models {
			m.d = d
		}
	}
	s := d.GuardStats()
	t.Logf("%d conflicts, %d blocked, %d lookups checked (%d resurrected, %d lost), skipped %d of %d, %d rebuilds", stats.conflicts.Load(), stats.blocked.Load(), stats.checked.Load(), stats.resurrected.Load(), stats.lost.Load(), s.Skipped, s.Lookups, s.Rebuilds)
	if s.Skipped == 0 {
		t.Errorf("nothing was skipped")
	}
	if o.DetectConflicts && stats.conflicts.Load() == 0 {
		t.Errorf("there was no conflict")
	}
}

func (m *model) key() string    { return fmt.Sprintf("%skey%d", m.name, m.rng.IntN(modelKeys)) }
func (m *model) shared() string { return fmt.Sprintf("shared/%d", m.rng.IntN(sharedKeys)) }

var errRollback = errors.New("rolled back")

func (m *model) run(steps int) (err error) {
	m.merge = m.d.GetMergeOperator([]byte(m.name+"merge"), func(a, b []byte) []byte { return append(a[:len(a):len(a)], b...) }, 20*time.Millisecond)
	defer m.merge.Stop()
	for err = badger.ErrBlockedWrites; err == badger.ErrBlockedWrites; {
		m.seq, err = m.d.GetSequence([]byte(m.name+"sequence"), 3)
	}
	if err != nil {
		return err
	}
	for step := range steps {
		if err := m.step(); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step%8 == 0 {
			if err := m.check(); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
	}
	m.endLong()
	if err := m.ignoreBlocked(m.seq.Release()); err != nil {
		return err
	}
	return m.check()
}

// step does one transaction, or several.
func (m *model) step() error {
	switch r := m.rng.IntN(100); {
	case r < 50:
		return m.transaction()
	case r < 60:
		return m.batch()
	case r < 70:
		return m.contend()
	case r < 76:
		return m.ignoreBlocked(m.merge.Add([]byte("x")))
	case r < 82:
		_, err := m.seq.Next()
		return m.ignoreBlocked(err)
	case r < 92:
		return m.hold()
	case r < 93 && m.drops:
		return m.drop()
	}
	return m.expiring()
}

func (m *model) ignoreBlocked(err error) error {
	switch {
	case errors.Is(err, badger.ErrBlockedWrites):
		m.stats.blocked.Add(1)
	case errors.Is(err, badger.ErrConflict):
		m.stats.conflicts.Add(1)
	default:
		return err
	}
	return nil
}

// change does some operations in a transaction, or batch, and returns what they leave.
func (m *model) change(set func(k, v []byte) error, remove func(k []byte) error) (map[string]string, error) {
	after := map[string]string{}
	for range 1 + m.rng.IntN(12) {
		k := m.key()
		if m.rng.IntN(5) < 2 {
			if err := remove([]byte(k)); err != nil {
				return nil, err
			}
			after[k] = ""
			continue
		}
		v := fmt.Sprint("v", m.rng.Uint64())
		if m.rng.IntN(20) == 0 {
			v += string(make([]byte, 1500)) // goes to the value log
		}
		if err := set([]byte(k), []byte(v)); err != nil {
			return nil, err
		}
		after[k] = v
	}
	return after, nil
}

func (m *model) became(after map[string]string) {
	for k, v := range after {
		if m.there[k] = v; v == "" {
			delete(m.there, k)
		}
	}
}

func (m *model) transaction() error {
	rollback := m.rng.IntN(6) == 0
	var after map[string]string
	work := func(txn *Txn) (err error) {
		if after, err = m.change(txn.Set, txn.Delete); err != nil {
			return err
		}
		for k, v := range after { // the transaction sees what it wrote
			if err := m.expect(txn, k, v); err != nil {
				return err
			}
		}
		if rollback {
			return errRollback
		}
		return nil
	}
	var err error
	if m.rng.IntN(3) > 0 {
		err = m.d.Update(work)
	} else {
		txn := m.d.NewTransaction(true)
		defer txn.Discard()
		if err = work(txn); err == nil {
			ended := make(chan error)
			txn.CommitWith(func(err error) { ended <- err })
			err = <-ended
		}
	}
	if err == errRollback {
		return nil
	}
	if err == nil {
		m.became(after)
		return nil
	}
	return m.ignoreBlocked(err)
}

func (m *model) batch() error {
	b := m.d.NewWriteBatch()
	defer b.Cancel()
	after, err := m.change(b.Set, b.Delete)
	if err != nil {
		return err
	}
	if err = b.Flush(); err == nil {
		m.became(after)
		return nil
	}
	return m.ignoreBlocked(err)
}

// contend reads and changes keys that others change, too.
func (m *model) contend() error {
	return m.ignoreBlocked(m.d.Update(func(txn *Txn) error {
		for range 4 {
			k := []byte(m.shared())
			_, err := txn.Get(k)
			switch {
			case err == badger.ErrKeyNotFound:
				err = txn.Set(k, []byte("s"))
			case err == nil && m.rng.IntN(2) == 0:
				err = txn.Delete(k)
			}
			if err != nil {
				return err
			}
			if m.rng.IntN(16) == 0 { // a sure conflict, if Badger detects them
				if err := m.d.Update(func(other *Txn) error { return other.Set(k, []byte("first")) }); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// expiring puts keys that expire, under names that the map does not have.
func (m *model) expiring() error {
	return m.ignoreBlocked(m.d.Update(func(txn *Txn) error {
		k := []byte(fmt.Sprintf("%sexpires%d", m.name, m.rng.IntN(30)))
		if m.rng.IntN(3) == 0 {
			return txn.Set(k, []byte("stays"))
		}
		return txn.SetEntry(badger.NewEntry(k, []byte("goes")).WithTTL(time.Duration(1+m.rng.IntN(2)) * time.Second))
	}))
}

// hold begins a read transaction that is checked when it is older.
func (m *model) hold() error {
	if m.long != nil {
		for k, v := range m.longSeen {
			if err := m.expect(m.long, k, v); err != nil {
				return fmt.Errorf("in an old transaction: %w", err)
			}
		}
		m.endLong()
		return nil
	}
	m.long, m.longSeen = m.d.NewTransaction(false), map[string]string{}
	for i := range modelKeys {
		k := fmt.Sprintf("%skey%d", m.name, i)
		m.longSeen[k] = m.there[k]
	}
	return nil
}

func (m *model) endLong() {
	if m.long != nil {
		m.long.Discard()
		m.long = nil
	}
}

// drop drops keys of this goroutine. Badger removes them from old transactions, too.
func (m *model) drop() error {
	m.endLong()
	prefix := fmt.Sprintf("%skey%d", m.name, 1+m.rng.IntN(9))
	m.stats.dropsBegun.Add(1)
	defer m.stats.dropsEnded.Add(1)
	if err := m.d.DropPrefix([]byte(prefix)); err != nil {
		return m.ignoreBlocked(err)
	}
	for k := range m.there {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix {
			delete(m.there, k)
		}
	}
	return nil
}

// check looks all keys up: the guard must agree with the map, and with the store.
func (m *model) check() error {
	return m.d.View(func(txn *Txn) error {
		for i := range modelKeys {
			k := fmt.Sprintf("%skey%d", m.name, i)
			if err := m.expect(txn, k, m.there[k]); err != nil {
				return err
			}
		}
		m.stats.checked.Add(modelKeys)
		var keys []string
		for i := range sharedKeys {
			keys = append(keys, fmt.Sprintf("shared/%d", i))
		}
		for i := range 30 {
			keys = append(keys, fmt.Sprintf("%sexpires%d", m.name, i))
		}
		for _, k := range append(keys, m.name+"merge", m.name+"sequence") {
			if _, err := m.get(txn, k, false); err != nil && err != badger.ErrKeyNotFound {
				return err
			}
		}
		return nil
	})
}

// get gets a key. If it is not there, the store must not have it: what the store has it had before,
// since time only takes keys away. A drop may bring one back, so an answer during one is asked for
// again. With drops, a compaction may bring back a deleted one later, if a GC has written its value
// anew.
func (m *model) get(txn *Txn, key string, deleted bool) (*badger.Item, error) {
	for {
		ended := m.stats.dropsEnded.Load()
		item, err := txn.Get([]byte(key))
		if err != badger.ErrKeyNotFound {
			return item, err
		}
		stored, storeErr := txn.Txn.Get([]byte(key))
		switch {
		case storeErr == badger.ErrKeyNotFound:
			return nil, err
		case m.stats.dropsBegun.Load() != ended:
		case storeErr == nil && deleted && m.drops && m.stats.moved.Load() && stored.ValueSize() >= valueThreshold:
			m.stats.resurrected.Add(1)
			return nil, err
		default:
			return nil, fmt.Errorf("%s is hidden: the store says %v", key, storeErr)
		}
	}
}

// expect checks the value of a key; "" means that it is not there.
func (m *model) expect(txn *Txn, key, value string) error {
	item, err := m.get(txn, key, value == "")
	if err == badger.ErrKeyNotFound {
		if value == "" {
			return nil
		}
		if m.drops {
			m.stats.lost.Add(1)
			return nil
		}
		return fmt.Errorf("%s is lost", key)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return item.Value(func(got []byte) error {
		if string(got) != value && m.drops {
			m.stats.resurrected.Add(1)
		} else if string(got) != value {
			return fmt.Errorf("%s is %.20q, and should be %.20q", key, got, value)
		}
		return nil
	})
}
