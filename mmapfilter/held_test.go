package mmapfilter

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// A held is a filter and what it must hold: a multiset, and the hashes that the multiset counts, each as
// often as the filter has it.
type held struct {
	*testing.T
	*multiset.Multiset
	f      *Filter
	path   string
	rng    *rand.Rand
	table  layout.Table
	hashes []uint64
}

// newHeld creates a filter that does no work in the background.
func newHeld(t *testing.T, o Options, seed uint64) *held {
	t.Helper()
	o.Seed, o.CommitInterval = seed+1, -1
	path := filepath.Join(memoryDir(t), "filter.mmf")
	f, err := Create(path, &o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	writerOf(f).Work = nil
	return hold(t, f, path, rand.New(rand.NewPCG(seed, o.Capacity)))
}

// hold returns a held for an empty filter.
func hold(t *testing.T, f *Filter, path string, rng *rand.Rand) *held {
	table := writerOf(f).Table()
	return &held{T: t, Multiset: multiset.New(table), f: f, path: path, rng: rng, table: table}
}

// fill inserts random hashes until one is refused.
func (h *held) fill() {
	h.Helper()
	for {
		hash := h.rng.Uint64()
		err := h.f.InsertHash(hash)
		if errors.Is(err, ErrFull) {
			return
		}
		must(h, err)
		h.inserted(hash)
	}
}

func (h *held) insert(hash uint64) {
	h.Helper()
	if err := h.f.InsertHash(hash); err != nil {
		h.Fatalf("with %d keys: %v", h.f.Len(), err)
	}
	h.inserted(hash)
}

func (h *held) inserted(hash uint64) {
	h.Add(hash, 1)
	h.hashes = append(h.hashes, hash)
}

// remove deletes a random key of the filter, and returns it.
func (h *held) remove() (hash uint64) {
	h.Helper()
	hash = h.any()
	h.delete(hash)
	return hash
}

func (h *held) delete(hash uint64) {
	h.Helper()
	if ok, err := h.f.DeleteHash(hash); !ok || err != nil {
		h.Fatalf("delete: %t, %v", ok, err)
	}
	h.Add(hash, -1)
	i := slices.Index(h.hashes, hash)
	if i < 0 { // h.hashes has another hash with an equal item
		place := h.Locate(hash)
		i = slices.IndexFunc(h.hashes, func(other uint64) bool { return h.Locate(other) == place })
	}
	h.hashes[i] = h.hashes[len(h.hashes)-1]
	h.hashes = h.hashes[:len(h.hashes)-1]
}

// any returns a random key of the filter.
func (h *held) any() uint64 { return h.hashes[h.rng.IntN(len(h.hashes))] }

// other returns a random key whose class has no entry in the stash.
func (h *held) other() (hash uint64) {
	for hash = h.rng.Uint64(); h.stashed(hash) > 0; {
		hash = h.rng.Uint64()
	}
	return hash
}

// refuses checks that the filter refuses a further key.
func (h *held) refuses() {
	h.Helper()
	if err := h.f.InsertHash(h.other()); !errors.Is(err, ErrFull) {
		limit, keys := h.limit()
		h.Fatalf("an insert with %d of %d keys: %v", keys, limit, err)
	}
}

// stashed returns how many items of the class of a key the stash counts.
func (h *held) stashed(hash uint64) uint64 {
	return layout.StashCount(writerOf(h.f).Stash(), h.table.Class(h.table.Split(hash)))
}

// limit returns the limit of the filter, and how many keys it has as the limit counts them.
func (h *held) limit() (limit, keys uint64) {
	w := writerOf(h.f)
	entries, inStash := layout.StashUse(w.Stash())
	return w.Limit, place.KeysOf(h.f.Len(), inStash, entries)
}

// mustHold checks that the filter has exactly the keys that it must hold.
func (h *held) mustHold() {
	h.Helper()
	if h.f.Len() != uint64(len(h.hashes)) {
		h.Fatalf("Len is %d, not %d", h.f.Len(), len(h.hashes))
	}
	mustContain(h, h.f, h.hashes)
	v := newestState(writerOf(h.f))
	must(h, h.Check(&v))
}

// reopen closes the filter and opens it again.
func (h *held) reopen() {
	must(h.T, h.f.Close())
	h.f = openQuiet(h, h.path)
}

// openQuiet opens a filter that, like one of createLines, does no work in the background.
func openQuiet(tb testing.TB, path string) *Filter {
	tb.Helper()
	f, err := Open(path, &OpenOptions{CommitInterval: -1})
	must(tb, err)
	writerOf(f).Work = nil
	return f
}
