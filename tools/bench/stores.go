package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// newStores returns the command that measures what a filter in front of an embedded store saves, and
// what it costs.
func newStores(s *session) command {
	r := &storesRun{session: s}
	s.rounds = 3
	s.countFlag(&r.keys, "keys", "2M", "how many keys a store has; -size has no effect")
	listFlag(s, &r.engines, "engines", "pebble,bbolt,badger", "which stores", func(word string) (string, error) { return word, nil })
	s.flags.IntVar(&r.cold, "cold", 20_000, "how many reads of a store; at first, none of the store is in memory")
	return command{map[string]string{"keys": "20K", "cold": "500", "rounds": "1"}, r.run}
}

type storesRun struct {
	*session
	keys    uint64
	engines []string
	cold    int
}

func (r *storesRun) run() error {
	n := r.keys
	for _, engine := range r.engines {
		var kinds []storeKind
		for _, k := range storeKinds() {
			if k.engine == engine {
				kinds = append(kinds, k)
			}
		}
		if kinds == nil {
			return fmt.Errorf("there is no store %q", engine)
		}
		if err := r.writes(engine, kinds, n); err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
		if err := r.reads(engine, kinds, n); err != nil {
			return fmt.Errorf("%s: %w", engine, err)
		}
	}
	return nil
}

// key appends key i: 16 characters, different for each i.
func (r *storesRun) key(to []byte, i uint64) []byte {
	return fmt.Appendf(to, "%016x", Mix(r.seed+i))
}

// putAll puts n keys from first on in transactions of a size.
func (r *storesRun) putAll(s store, first, n uint64, size int, sync bool) (time.Duration, error) {
	value := make([]byte, 100)
	rng := rand.New(rand.NewPCG(r.seed, 1))
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	keys := make([][]byte, size)
	var took time.Duration
	for i := uint64(0); i < n; i += uint64(size) {
		for j := range keys {
			keys[j] = r.key(keys[j][:0], first+i+uint64(j))
		}
		begun := time.Now()
		if err := s.put(keys, value, sync); err != nil {
			return 0, err
		}
		took += time.Since(begun)
		if r.ctx.Err() != nil {
			return 0, r.ctx.Err()
		}
	}
	return took, nil
}

func (r *storesRun) storeDir(k storeKind) string {
	return r.path(k.engine + "-" + strings.ReplaceAll(k.filter, " ", "-"))
}

// writes fills the stores, and then compares single writes of new keys.
func (r *storesRun) writes(engine string, kinds []storeKind, n uint64) error {
	type way struct {
		name string
		n    uint64
		size int
		sync bool
	}
	ways := []way{
		{"batches of 100", min(n/20, 500_000), 100, false},
		{"one at a time", min(n/100, 50_000), 1, false},
		{"one at a time, each synced", min(n/1000, 1000), 1, true},
	}
	fill := 1000
	if engine == "bbolt" { // a commit writes pages and syncs them
		ways = []way{{"batches of 100", min(n/100, 50_000), 100, false}, {"one at a time", min(n/1000, 1000), 1, false}}
		fill = int(max(1000, n/100))
	}
	all := make([][][]float64, len(ways))
	stores := make([]store, len(kinds))
	for i, k := range kinds {
		s, err := k.open(r.storeDir(k), &guard.Options{Capacity: 2 * n})
		if err != nil {
			return err
		}
		stores[i] = s
		r.note("%s, %s: fill", engine, k.filter)
		if _, err := r.putAll(s, 0, n, fill, false); err != nil {
			return err
		}
	}
	next := n
	for i, w := range ways {
		w.n = max(w.n/uint64(w.size), 1) * uint64(w.size)
		turns, err := r.takeTurns(len(kinds), func(j int) (float64, error) {
			// Each store gets new keys.
			took, err := r.putAll(stores[j], next, w.n, w.size, w.sync)
			next += w.n
			return float64(took.Nanoseconds()) / float64(w.n), err
		})
		if err != nil {
			return err
		}
		all[i] = turns
	}
	var errs []error
	for _, s := range stores {
		errs = append(errs, s.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	head := []string{fmt.Sprintf("%s, ns a put", engine)}
	for _, k := range kinds {
		head = append(head, k.filter)
	}
	t := NewTable(append(head, "rate behind a guard over that alone")...)
	for i, w := range ways {
		row := []string{w.name}
		for j := range kinds {
			row = append(row, Digits(Median(all[i][j])))
		}
		t.Row(append(row, Digits(MedianRatio(all[i][0], all[i][len(kinds)-1])))...)
	}
	r.print(t)
	return nil
}

// reads compares reads of stores of which no part is in memory.
func (r *storesRun) reads(engine string, kinds []storeKind, n uint64) error {
	t := NewTable(fmt.Sprintf("%s, cold: %s reads", engine, Grouped(int64(r.cold))), "of", "µs, 50 %", "99 %", "99.9 %", "reads a second", "skipped", "read calls a read", "page faults a read", "bytes a read from the disk")
	for _, k := range kinds {
		for _, what := range []string{"absent", "present"} {
			if err := r.read(t, k, n, what); err != nil {
				return err
			}
		}
	}
	r.print(t)
	return nil
}

func (r *storesRun) read(t *Table, k storeKind, n uint64, what string) error {
	dir := r.storeDir(k)
	if err := dropDir(dir); err != nil { // before it is mapped
		return err
	}
	s, err := k.open(dir, &guard.Options{Capacity: 2 * n})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.seed, uint64(len(what))))
	var key []byte
	present := what == "present"
	before, _ := readsSoFar() // zeros if the system does not say
	skippedBefore := s.skipped()
	took := make([]time.Duration, r.cold)
	begun := time.Now()
	for i := range took {
		number := rng.Uint64N(n)
		if !present {
			number += 1 << 60
		}
		at := time.Now()
		key = r.key(key[:0], number)
		found, err := s.get(key)
		took[i] = time.Since(at)
		if err == nil && found != present {
			err = fmt.Errorf("key %s: found %t, but it is there: %t", key, found, present)
		}
		if err != nil {
			return errors.Join(err, s.Close())
		}
	}
	all := time.Since(begun)
	after, _ := readsSoFar()
	did := after.since(before)
	slices.Sort(took)
	at := func(share float64) string {
		return Digits(float64(took[min(int(share*float64(r.cold)), r.cold-1)].Nanoseconds()) / 1000)
	}
	each := func(n int64) string { return Digits(float64(n) / float64(r.cold)) }
	t.Row(k.filter, what, at(0.5), at(0.99), at(0.999), Grouped(int64(float64(r.cold)/all.Seconds())),
		Digits(100*float64(s.skipped()-skippedBefore)/float64(r.cold))+" %",
		each(did.calls), each(did.major), each(did.bytes))
	return s.Close()
}
