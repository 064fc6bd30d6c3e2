package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// limitCases returns options for filters with a requested rate.
func limitCases() (all []*Options) {
	for _, kind := range layout.Kinds() {
		// The last rate is the lowest. In the layouts of the paper, it needs three of ten slots to be
		// free.
		for _, rate := range []float64{0.05, 0.01, 0.001, map[layout.Kind]float64{layout.Compact: 1e-8, layout.Packed: 0.091, layout.SemiSorted: 1.3e-9}[kind]} {
			for _, capacity := range small([]uint64{100, 500, 2000}, []uint64{100, 1000}) {
				all = append(all, &Options{Layout: kind, FalsePositiveRate: rate, Capacity: capacity})
			}
		}
	}
	return all
}

// TestRateWhenFull covers C4: the rate of a filter that has refused a key is at most 1.5 times the
// requested rate, and the filter has at least as many keys as its capacity. This applies to a filter
// filled by inserts and to the largest that Build makes. Both take about the same number of keys.
func TestRateWhenFull(t *testing.T) {
	t.Parallel() // uses only one processor
	for _, o := range limitCases() {
		t.Run(fmt.Sprintf("%s,%g,%d", o.Layout, o.FalsePositiveRate, o.Capacity), func(t *testing.T) {
			check := func(by string, table layout.Table, v *layout.View, hashes []uint64) {
				if uint64(len(hashes)) < o.Capacity {
					t.Errorf("full by %s with %d keys", by, len(hashes))
				}
				if rate := expectedRate(table, v, hashes) / o.FalsePositiveRate; rate > build.OverRate {
					t.Errorf("full by %s with %d keys, the rate is %.3f times the requested rate", by, len(hashes), rate)
				}
			}
			h := newHeld(t, *o, 0)
			h.fill()
			view, stashLen := newestState(writerOf(h.f)), writerOf(h.f).State().StashLen
			check("inserts", h.table, &view, h.hashes)
			limit, keys := h.limit()
			if limit != build.NoLimit && keys > limit || keys < limit && stashLen < layout.StashEntries {
				t.Errorf("refused with %d keys and %d entries of the stash, the limit is %d", keys, stashLen, limit)
			}
			b, built := h.largestBuild(*o, limit)
			defer b.Close()
			o := b.open.Load()
			check("Build", o.table, &o.view, built)
			entries, inStash := layout.StashUse(o.view.Stash)
			if keys := place.KeysOf(b.Len(), inStash, entries); limit != build.NoLimit && entries < layout.StashEntries && (keys > limit || keys+3 < limit) {
				t.Errorf("Build takes %d keys, the limit is %d", keys, limit)
			}
			// In the two filters, different keys share entries of the stash or are guests. With short
			// fingerprints, this affects one or two keys in a hundred.
			if stashLen < layout.StashEntries && entries < layout.StashEntries && math.Abs(float64(len(built)-len(h.hashes))) > 3+float64(len(built))/50 {
				t.Errorf("Build takes %d keys, and inserts %d", len(built), len(h.hashes))
			}
		})
	}
}

// largestBuild returns the largest filter that Build makes from the hashes and, if needed, random ones
// after them: with one hash more, Build fails. If there is no limit on keys, it fails with one percent
// more.
func (h *held) largestBuild(o Options, limit uint64) (f *Filter, built []uint64) {
	h.Helper()
	o.Workers = 1
	path, hashes := filepath.Join(memoryDir(h.T), "filter.mmf"), h.hashes
	takes := func(n int) bool {
		for n > len(hashes) {
			hashes = append(hashes, h.rng.Uint64())
		}
		o := o.withDefaults()
		_, err := build.FromHashes(context.Background(), path, o.building(), func(yield func([]uint64, error) bool) { yield(hashes[:n], nil) })
		if !errors.Is(err, ErrFull) {
			must(h.T, err)
		}
		return err == nil
	}
	n, step := len(hashes), 1
	if limit == build.NoLimit {
		step = n/100 + 1
	}
	for ; !takes(n); n -= step {
		if n < int(o.Capacity) {
			h.Fatalf("a build refuses %d keys", n)
		}
	}
	for takes(n + step) {
		if n += step; n > 2*len(h.hashes) {
			h.Fatalf("a build takes %d keys; inserts took %d, the limit is %d", n, len(h.hashes), limit)
		}
	}
	return mustOpenReadOnly(h.T, path, nil), hashes[:n]
}

// TestBuildOverTheLimit: if there are too many keys, the error of Build says how many are allowed.
func TestBuildOverTheLimit(t *testing.T) {
	o := &Options{Capacity: 100}
	p, err := o.Plan()
	must(t, err)
	sb := newSuperblock(p, o.withDefaults())
	limit := build.Limit(&sb, p.geometry)
	mustBuild(t, o, numbers(0, limit))
	want := fmt.Sprintf("filter is full: %d keys for a capacity of 100; more than %d would raise the false-positive rate above 1.5 times 0.01", limit+9, limit)
	if _, err := Build(context.Background(), filepath.Join(t.TempDir(), "f"), o, numbers(0, limit+9)); !errors.Is(err, ErrFull) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; it should end with %q", err, want)
	}
}

// TestAtTheLimit covers C3 and C7 at the limit on keys: a delete makes room for one key, keys that have
// an entry in the stash can still be inserted, and nothing is lost, also when the file is opened again.
func TestAtTheLimit(t *testing.T) {
	for _, kind := range layout.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			h := newHeld(t, Options{Layout: kind, Capacity: 200, FalsePositiveRate: 0.001}, 3)
			h.fill()
			if limit, keys := h.limit(); keys != limit || writerOf(h.f).State().StashLen == layout.StashEntries {
				t.Fatalf("%d keys, the limit is %d", keys, limit)
			}
			stashed := slices.DeleteFunc(slices.Clone(h.hashes), func(hash uint64) bool { return h.stashed(hash) == 0 })
			if len(stashed) < 10 {
				t.Fatalf("%d keys are in the stash", len(stashed))
			}
			for range 3 { // so that their entries remain to the end of the test
				for _, hash := range stashed {
					h.insert(hash)
				}
			}
			counted := 0
			for range small(1000, 300) {
				before := newestState(writerOf(h.f))
				hash := h.remove()
				limit, keys := h.limit()
				switch {
				case h.stashed(hash) > 0 && h.rng.IntN(2) == 0: // the key itself
					counted++
				case keys < limit: // any other key
					hash = h.other()
				case layout.StashCount(before.Stash, h.table.Class(h.table.Split(hash))) < 2:
					t.Fatal("a delete of a key without an entry in the stash made no room")
				}
				h.insert(hash)
				if _, keys := h.limit(); keys > limit {
					t.Fatalf("%d keys, the limit is %d", keys, limit)
				}
				h.refuses()
			}
			if counted == 0 {
				t.Error("no key with an entry in the stash was inserted")
			}
			h.mustHold()
			h.path = abandon(t, h.f, h.path)
			h.reopen()
			h.mustHold()
			h.refuses()
		})
	}
}

// TestMoreThanTheLimit: a file whose stash was filled by a version without a limit keeps all its items.
// It refuses further keys until enough keys are deleted. Meanwhile items of the stash move into the
// lines.
func TestMoreThanTheLimit(t *testing.T) {
	for _, kind := range layout.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			h := newHeld(t, Options{Layout: kind, Capacity: 200}, 8)
			writerOf(h.f).Limit = build.NoLimit // as in earlier versions
			h.fill()
			h.reopen()
			h.mustHold()
			limit, keys := h.limit()
			if limit == build.NoLimit || keys < limit*3/2 {
				t.Fatalf("%d keys, the limit is %d", keys, limit)
			}
			for keys >= limit {
				h.refuses()
				if hash := h.any(); h.stashed(hash) > 0 {
					h.insert(hash)
				}
				h.remove()
				h.remove()
				_, keys = h.limit()
			}
			h.insert(h.other())
			h.mustHold()
		})
	}
}
