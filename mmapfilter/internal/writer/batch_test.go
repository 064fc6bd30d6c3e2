package writer

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestInsertBatchPlacesAsInsert: what a batch looks at ahead changes nothing but the time it
// takes. Every word of the region and of the stash is the same after every batch, up to the
// first insert that is refused, with commits in between, by which lines turn from pending ones
// into those of the mapping.
func TestInsertBatchPlacesAsInsert(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			one, many := mustWriter(t, s.Volume(t, s.Lines(40)), 0), mustWriter(t, s.Volume(t, s.Lines(40)), 0)
			rng := rand.New(rand.NewPCG(9, 10))
			for round, full := 0, false; !full; round++ {
				batch := make([]uint64, 1+rng.IntN(Batch))
				for i := range batch {
					batch[i] = rng.Uint64()
				}
				n, err := insertBlockOf(many, batch, batch[len(batch)/2:])
				full = err != nil
				if full && !errors.Is(err, ErrFull) || !full && n != len(batch) {
					t.Fatalf("%d of %d inserted, %v", n, len(batch), err)
				}
				for _, h := range batch[:n] {
					must(t, one.Insert(h))
				}
				alone := rng.Uint64()
				for _, w := range []*Writer{one, many} { // an outlook is of no other insert
					if err := w.Insert(alone); err != nil && !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
				}
				if a, b := newestWords(one), newestWords(many); !slices.Equal(a, b) {
					t.Fatalf("round %d, %d items: a batch leaves other words than its inserts one by one", round, one.Len())
				}
				if round%3 == 0 {
					must(t, errors.Join(one.Sync(), many.Sync()))
				}
			}
		})
	}
}

// TestFullLines compares the set of full lines, and what Full knows of each, with their newest state, of
// which some is durable, some pending, and some is deletes. While an operation has an item on its way
// out, nothing is known.
func TestFullLines(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			w, rng := mustWriter(t, s.Volume(t, s.Lines(400)), 0), rand.New(rand.NewPCG(11, 12))
			var there []uint64
			for slots := int(s.Lines(400)) * int(s.Slots()); len(there) < slots*97/100; {
				h := rng.Uint64()
				if err := w.Insert(h); err != nil {
					break
				}
				if there = append(there, h); len(there) == slots*90/100 {
					must(t, w.Sync())
				}
			}
			for _, h := range there[:len(there)/500] {
				if _, err := w.Delete(h); err != nil {
					t.Fatal(err)
				}
			}
			full, mapped := 0, 0 // lines, and those that are as full in the mapping
			for range 50 {
				lines := make([]uint64, Batch)
				for i := range lines {
					lines[i] = rng.Uint64N(w.table.Lines())
				}
				set := w.mu.op.FullLines(lines)
				for i, line := range lines {
					var l layout.Line
					w.mu.op.Peek(line, &l)
					is := w.table.Free(l[:], line) == 0
					if set>>i&1 == 1 != is {
						t.Fatalf("line %d is full: %t", line, is)
					}
					if is {
						full++
					}
					if w.mu.op.Full(line) && !is {
						t.Fatalf("line %d is known to be full, and is not", line)
					}
					if is == w.fullMapped(line) {
						mapped++
					}
				}
			}
			if all := 50 * Batch; full == 0 || full == all || mapped == all {
				t.Errorf("of %d lines, %d are full, and the mapping is right about %d: not what this is about", all, full, mapped)
			}
			must(t, w.Sync())
			known := 0
			for _, h := range there[len(there)/2:][:100] {
				home := w.table.Split(h)
				if !w.mu.op.Full(home.Line) {
					continue
				}
				if _, inLine, _ := w.mu.placer.Remove(home); inLine && w.mu.op.Full(home.Line) {
					t.Error("full, with an item on its way out")
				}
				w.mu.op.reset()
				if !w.mu.op.Full(home.Line) {
					t.Error("not full any more, though nothing was done")
				}
				at := layout.Copies(w.table, layout.LineFrom(w.table, w.newest, home.Line), home) > 0
				if done, err := w.Delete(h); !done || err != nil || at && w.mu.op.Full(home.Line) {
					t.Errorf("%t, %v: full, with a delete that is pending", done, err)
				}
				known++
			}
			if known == 0 {
				t.Error("no line is known to be full")
			}
		})
	}
}

// TestInsertBatchAmongOthers: where a batch waits for a commit, the lock is free, and there may
// be other inserts, and deletes. The inserts know nothing of what the batch has found out, and
// the lines that were full before the deletes are not passed over: every word is that of inserts
// one by one.
func TestInsertBatchAmongOthers(t *testing.T) {
	const lines = 60_000
	inserts := lines * int(usual.Slots()) * 94 / 100
	var words [2][]uint64
	var waits [2]int
	for i := range words {
		v := usual.Volume(t, lines)
		w := mustWriter(t, v, 256<<20)
		rng := rand.New(rand.NewPCG(13, 14))
		hashes := make([]uint64, inserts)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		deleted := 0
		v.LogSync = func() {
			if w.mu.waits == waits[i] || len(hashes[deleted:]) < 3000 {
				return // a commit of another kind
			}
			waits[i] = w.mu.waits
			if w.mu.placer.Expects() {
				t.Error("others insert with the outlook of the batch")
			}
			for range 2000 {
				must(t, w.Insert(rng.Uint64()))
			}
			for _, h := range hashes[deleted : deleted+3000] {
				if ok, err := w.Delete(h); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			deleted += 3000
		}
		for left := hashes; len(left) > 0; {
			block := left[:min(Batch, len(left))]
			if left = left[len(block):]; i == 0 {
				for _, h := range block {
					must(t, w.Insert(h))
				}
				continue
			}
			if n, err := insertBlockOf(w, block, left[:min(Batch, len(left))]); err != nil {
				t.Fatal(n, err)
			}
		}
		words[i] = newestWords(w)
	}
	if waits[0] < 3 || waits[0] != waits[1] {
		t.Errorf("%d waits one by one and %d in batches: not what this is about", waits[0], waits[1])
	}
	if !slices.Equal(words[0], words[1]) {
		t.Error("a batch that waits leaves other words than its inserts one by one")
	}
}

// insertBlockOf is writer.insertAll where no fault is expected.
func insertBlockOf(w *Writer, hashes, next []uint64) (n int, err error) {
	err = w.InsertAll(hashes, next, &n)
	return n, err
}

// newestWords are those of the stash and the region, with all that is pending.
func newestWords(w *Writer) (words []uint64) {
	for i := range w.words[layout.WordStash:] {
		words = append(words, w.Word(layout.WordStash+uint64(i)))
	}
	return words
}
