package guard

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// An operation is an insert into a smallFilter, or a delete.
type operation struct {
	hash          uint64
	deletes, uniq bool
}

// A table is the content of a smallFilter. It takes hashes with the same remainder for one another.
type table struct {
	copies    map[uint64]int
	n, room   int
	remainder uint64
	seq, ops  uint64
}

func (s *table) copied() *table {
	c := *s
	c.copies = maps.Clone(s.copies)
	return &c
}

func (s *table) do(o operation) (added bool, err error) {
	s.ops++
	at := o.hash % s.remainder
	switch {
	case o.deletes && s.copies[at] > 0:
		s.copies[at]--
		s.n--
	case o.deletes || o.uniq && s.copies[at] > 0:
	case s.n == s.room:
		return false, mmapfilter.ErrFull
	default:
		s.copies[at]++
		s.n++
		added = true
	}
	return added, nil
}

// A smallFilter counts operations as a filter does, and soon has no room. A power loss loses any number
// of the operations since the last sync.
type smallFilter struct {
	guarded.Filter
	*table
	name    string
	durable *table
	since   []operation  // the last sync
	tap     *[]operation // operations since the instant of a rebuild
	step    func()
}

func (f *smallFilter) Hash(key []byte) uint64     { return xxh3.Hash(key) | 1<<63 }
func (f *smallFilter) Normalisation() string      { return f.name }
func (f *smallFilter) ContainsHash(h uint64) bool { return f.copies[h%f.remainder] > 0 }
func (f *smallFilter) Len() uint64                { return uint64(f.n) }
func (f *smallFilter) Cap() uint64                { return uint64(f.room) }
func (f *smallFilter) TargetRate() float64        { return defaultRate }
func (f *smallFilter) DurableSeq() uint64         { return f.durable.seq }
func (f *smallFilter) DurableOps() uint64         { return f.durable.ops }
func (f *smallFilter) Seal(context.Context) error { return f.Sync() }
func (f *smallFilter) Close() error               { return nil }

func (f *smallFilter) ContainsHashes(hashes []uint64, found []bool) {
	for i, h := range hashes {
		found[i] = f.ContainsHash(h)
	}
}

func (f *smallFilter) do(o operation) (added bool, err error) {
	f.step()
	f.since = append(f.since, o)
	if f.tap != nil {
		*f.tap = append(*f.tap, o)
	}
	return f.table.do(o)
}

func (f *smallFilter) DeleteHash(h uint64) (bool, error) { return f.do(operation{h, true, false}) }

func (f *smallFilter) InsertHashes(hashes []uint64, unique bool) (n, added int, err error) {
	for _, h := range hashes {
		is, err := f.do(operation{h, false, unique})
		if err != nil {
			return n, added, err
		}
		if n++; is {
			added++
		}
	}
	return n, added, nil
}

func (f *smallFilter) Sync() error {
	f.step()
	f.durable, f.since = f.table.copied(), nil
	return nil
}

func (f *smallFilter) SyncAtFunc(seq func(uint64) uint64) error {
	f.step()
	f.seq, f.ops = seq(f.ops), 0
	f.durable, f.since = f.table.copied(), nil
	f.step()
	return nil
}

func (f *smallFilter) Rebuild(_ context.Context, o *guarded.RebuildOptions) error {
	keys, err := o.Keys()
	if err != nil {
		return err
	}
	var all, came []operation
	f.tap = &came
	defer func() { f.tap = nil }()
	for _, h := range o.Hashes() {
		all = append(all, operation{hash: h})
	}
	for key, err := range keys {
		if err != nil {
			return err
		}
		f.step()
		all = append(all, operation{hash: f.Hash(key)})
	}
	next := &table{copies: map[uint64]int{}, remainder: f.remainder, room: int(o.CapacityFor(uint64(len(all))))}
	for _, o := range append(all, came...) {
		if _, err := next.do(o); err != nil {
			return err
		}
	}
	f.step()
	next.seq, next.ops = f.seq, f.ops
	f.table, f.durable, f.since = next, next.copied(), nil
	f.step()
	return nil
}

// after returns the filter after a crash that loses all operations since the last sync but the first n.
func (f *smallFilter) after(n int) *smallFilter {
	if f == nil {
		return nil
	}
	t := f.durable.copied()
	for _, o := range f.since[:n] {
		_, _ = t.do(o)
	}
	return &smallFilter{name: f.name, table: t, durable: t.copied()}
}

// simulate makes a guard use a smallFilter, which takes hashes with the same remainder for one another.
// Each step may be the last before a crash.
func simulate(o *Options, filter **smallFilter, remainder uint64, random func() uint64, step func()) *Options {
	o.Hooks = &guarded.Hooks{
		Manual: true,
		Random: random,
		Create: func(_ string, o *mmapfilter.Options) (guarded.Filter, error) {
			step()
			next := &table{copies: map[uint64]int{}, remainder: remainder, room: int(o.Capacity)}
			if *filter != nil {
				next.ops = (*filter).ops // the new file counts on
			}
			*filter = &smallFilter{name: o.Normalisation, table: next, durable: next.copied(), step: step}
			return *filter, nil
		},
		Open: func(string) (guarded.Filter, error) {
			if *filter == nil {
				return nil, errOther
			}
			(*filter).step = step
			return *filter, nil
		},
	}
	return o
}

// A history is a store with an outbox, and its filter, through several lives of a guard. A life may end
// at any step. Images are the store and the filter at other times.
type history struct {
	*rand.Rand
	t         *testing.T
	seed      uint64
	mode      DeleteMode
	store     *rows
	filter    *smallFilter
	remainder uint64
	capacity  uint64
	crash     int // steps until the crash, or 0 for none
	g         *Guard
	under     []*underway
	images    []image
}

type image struct {
	rows   *rows
	filter *smallFilter
}

// An underway transaction is prepared. No other one may change its key.
type underway struct {
	tx      *Tx
	c       Changes
	key     string
	put     bool
	visible bool
}

func (h *history) step() {
	if h.crash--; h.crash == 0 {
		panic(errCrash)
	}
}

func (h *history) options() *Options {
	o := (&Options{Capacity: h.capacity, Deletes: h.mode}).WithDefaults("f", h.mode)
	return simulate(o, &h.filter, h.remainder, h.Uint64, h.step)
}

// copied returns the filter after a kill, or after a power loss, which loses some operations.
func (h *history) copied(power bool) *smallFilter {
	n := 0
	if h.filter != nil {
		n = len(h.filter.since)
	}
	if power {
		n = h.IntN(n + 1)
	}
	return h.filter.after(n)
}

func (h *history) begin() {
	key := string(rune('a' + h.IntN(16)))
	for _, u := range h.under { // with Exact, it would wait for a transaction that changes the same keys
		if hash := h.filter.Hash([]byte(key)); hash%256 == h.filter.Hash([]byte(u.key))%256 {
			return
		}
	}
	u := &underway{tx: h.g.Begin(), key: key, put: h.IntN(3) > 0}
	u.tx.change([]byte(key), u.put)
	for _, e := range u.tx.Prepare().Set {
		u.c.Set = append(u.c.Set, Entry{bytes.Clone(e.Key), bytes.Clone(e.Value)})
	}
	h.under = append(h.under, u)
}

// proceed makes a transaction visible, or ends it.
func (h *history) proceed() {
	if len(h.under) == 0 {
		return
	}
	i := h.IntN(len(h.under))
	u := h.under[i]
	if !u.visible && h.IntN(5) > 0 {
		h.store.commit(u.c, u.key, u.put)
		u.visible = true
		return
	}
	h.under = append(h.under[:i], h.under[i+1:]...)
	switch {
	case h.IntN(8) == 0:
		u.tx.Done(Unknown)
	case u.visible:
		u.tx.Done(Committed)
	default:
		u.tx.Done(Aborted)
	}
}

func (h *history) transactions() {
	for range h.IntN(12) {
		if h.IntN(2) == 0 {
			h.begin()
		} else {
			h.proceed()
		}
		h.mustShow()
	}
}

func (h *history) mustShow() {
	if keys := h.store.hidden(h.g); len(keys) > 0 {
		h.t.Fatalf("seed %d: %q is hidden; %+v", h.seed, keys[0], h.g.Stats())
	}
}

// live is one life of a guard.
func (h *history) live() (closed bool) {
	defer func() {
		if r := recover(); r != nil && r != errCrash {
			panic(r)
		}
	}()
	h.store.write = func(Changes) { h.step() }
	h.crash, h.under = h.IntN(2)*h.IntN(80), nil
	var err error
	h.g, err = Open(h.store, h.options())
	must(h.t, err)
	h.mustShow()
	for range h.IntN(12) {
		switch h.IntN(6) {
		case 0:
			must(h.t, h.g.Work())
		case 1:
			h.store.read = h.transactions
			_ = h.g.Rebuild(h.t.Context()) // fails if there is no room, or if a transaction is under way
			h.store.read = nil
		case 2:
			h.images = append(h.images, image{h.store.reopen(true), h.copied(h.IntN(2) == 0)})
		default:
			h.transactions()
		}
		h.mustShow()
	}
	if h.IntN(2) == 0 {
		return false
	}
	for len(h.under) > 0 {
		h.proceed()
	}
	must(h.t, h.g.Close())
	return true
}

// TestHistories covers C9 with an outbox: kills and power losses at any step, stores and filters that
// are restored from any time, transactions under way, and filters without room for all keys.
func TestHistories(t *testing.T) {
	defer func(n int) { mostOverflow = n }(mostOverflow)
	both(t, func(t *testing.T, mode DeleteMode) {
		for seed := range uint64(600) {
			h := &history{Rand: rand.New(rand.NewPCG(seed, 0)), t: t, seed: seed, mode: mode, store: newRows()}
			h.remainder, h.capacity, mostOverflow = 3+h.Uint64N(30), 2+h.Uint64N(8), []int{3, 1 << 20}[h.IntN(2)]
			for range 7 {
				power := !h.live() && h.IntN(2) == 0
				h.store = h.store.reopen(!power || h.IntN(2) == 0)
				h.filter = h.copied(power)
				h.images = append(h.images, image{h.store.reopen(true), h.copied(false)})
				if old := h.images[h.IntN(len(h.images))]; h.IntN(4) == 0 {
					h.store = old.rows.reopen(true)
				}
				if old := h.images[h.IntN(len(h.images))]; h.IntN(4) == 0 {
					h.filter = old.filter.after(0)
				}
			}
		}
	})
}
