package writer

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A historian is a writer of a filter that keeps its hashes, with the position that its history should
// have.
type historian struct {
	*Writer
	t  testing.TB
	at layout.Position
}

// newHistorian creates a filter with so few lines that hashes that differ only in the last bits have the
// same class.
func newHistorian(tb testing.TB) *historian {
	return &historian{t: tb, Writer: mustWriter(tb, small.Keeping(tb, 20), 1<<20)}
}

// newHistorianOnDisk is newHistorian with files. NAME.hashes has room for many operations.
func newHistorianOnDisk(tb testing.TB, logBytes int64) *historian {
	path := filepath.Join(tb.TempDir(), "f")
	small.CreateKeeping(tb, path, 20)
	files, err := osfile.OpenFiles(path)
	must(tb, err)
	h := &historian{t: tb, Writer: mustWriter(tb, files, logBytes)}
	tb.Cleanup(func() { h.Close() })
	return h
}

// insert, unique and remove do an operation and check its result.
func (h *historian) insert(hash uint64) {
	h.t.Helper()
	h.must(h.Insert(hash))
}

func (h *historian) unique(hash uint64, want bool) {
	h.t.Helper()
	added, err := h.InsertUnique(hash)
	if h.must(err); added != want {
		h.t.Errorf("%#x: added %t", hash, added)
	}
}

func (h *historian) remove(hash uint64, want bool) {
	h.t.Helper()
	done, err := h.Delete(hash)
	if h.must(err); done != want {
		h.t.Errorf("%#x: deleted %t", hash, done)
	}
}

func (h *historian) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// expect checks that the history has got an operation, or none if op is 0, and checks the other numbers.
func (h *historian) expect(op layout.Op, hash, items, leftOut, waiting uint64) {
	h.t.Helper()
	if op != 0 {
		h.at = h.at.After(op, hash)
	}
	if got, want := h.protocol.History(), (layout.Kept{At: h.at, LeftOut: leftOut, Waiting: waiting}); got != want || h.Len() != items {
		h.t.Errorf("%d items, %+v; not %d, %+v", h.Len(), got, items, want)
	}
}

// Two hashes of one class, and two others. Each has a place of its own in the table of known hashes.
const (
	key     = 0x123456789ABCDEF0
	leaning = key ^ 1
	other   = key ^ 1<<63 ^ 2
	absent  = key ^ 1<<62 ^ 4
)

// TestKnown covers K7: if the writer knows that the history has a key, an InsertUnique of the key adds
// nothing to the history. The writer must not take another hash for a known one. A key whose item was
// removed must be inserted again.
func TestKnown(t *testing.T) {
	const samePlace = key ^ 1<<16
	h := newHistorian(t)
	h.unique(key, true)
	h.expect(layout.AtLeastOne, key, 1, 0, 0)
	operations := h.protocol.Operations()
	h.unique(key, false)
	h.expect(0, 0, 1, 0, 0)
	if n := h.protocol.Operations(); n != operations+1 {
		t.Errorf("%d operations after %d", n, operations)
	}
	done, added := 0, []bool{true, true}
	h.must(h.DoAll(layout.AtLeastOne, []uint64{key, key}, false, &done, added))
	h.expect(0, 0, 1, 0, 0)
	if done != 2 || added[0] || added[1] {
		t.Errorf("a batch: %d, %v", done, added)
	}
	h.unique(samePlace, false)
	h.expect(layout.AtLeastOne, samePlace, 1, 1, 0)
	h.unique(samePlace, false)
	h.expect(0, 0, 1, 1, 0)
	h.unique(key, false) // samePlace has taken its place in the table
	h.expect(layout.AtLeastOne, key, 1, 2, 0)
	h.remove(key, true)
	h.expect(layout.Delete, key, 1, 2, 1)
	h.unique(key, false) // another key's item answers for it now
	h.expect(layout.AtLeastOne, key, 1, 3, 1)
	h.remove(absent, false)
	h.expect(0, 0, 1, 3, 1)

	h = newHistorian(t)
	h.unique(key, true)
	h.expect(layout.AtLeastOne, key, 1, 0, 0)
	h.insert(other)
	h.expect(layout.Insert, other, 2, 0, 0)
	h.unique(other, false)
	h.expect(0, 0, 2, 0, 0)
	h.remove(other, true)
	h.expect(layout.Delete, other, 1, 0, 0)
	h.unique(other, true)
	h.expect(layout.AtLeastOne, other, 2, 0, 0)
	h.remove(leaning, true) // a stray delete, which removes the item of key
	h.expect(layout.Delete, leaning, 1, 0, 0)
	h.unique(key, true)
	h.expect(layout.AtLeastOne, key, 2, 0, 0)

	tap := h.beginTap()
	h.unique(key, false)
	h.expect(layout.AtLeastOne, key, 2, 1, 0)
	if _, ops, err := tap.Take(nil, nil, 10); len(ops) != 1 || ops[0] != layout.AtLeastOne || err != nil {
		t.Errorf("tapped: %v, %v", ops, err)
	}
	h.Untap()
	h.unique(key, false)
	h.expect(0, 0, 2, 1, 0)

	h = newHistorian(t)
	h.unique(1, true)
	h.expect(layout.AtLeastOne, 1, 1, 0, 0)
	h.unique(0, false) // not known, although free places are 0
	h.expect(layout.AtLeastOne, 0, 1, 1, 0)
}

// TestNoHistory checks that a filter that keeps no hashes has no history, and only counts operations
// that change no item.
func TestNoHistory(t *testing.T) {
	h := &historian{t: t, Writer: mustWriter(t, small.Volume(t, 20), 1<<20)}
	tap := h.beginTap()
	h.unique(key, true)
	h.unique(leaning, false)
	h.unique(leaning, false)
	h.remove(absent, false)
	h.expect(0, 0, 1, 0, 0)
	if n := h.protocol.Operations(); n != 4 || h.mu.known != nil {
		t.Errorf("%d operations, known: %t", n, h.mu.known != nil)
	}
	if hashes, _, err := tap.Take(nil, nil, 10); len(hashes) != 3 || err != nil { // with InsertUniques, since the new file may lack an item
		t.Errorf("%#x, %v", hashes, err)
	}
}

func (h *historian) beginTap() *Tap {
	h.t.Helper()
	tap := newTap(h.t)
	h.must(h.Quiet(tap, func() error { return nil }))
	return tap
}

func newTap(tb testing.TB) *Tap {
	tap := NewTap(func() (*osfile.Scratch, error) {
		return osfile.ScratchBeside(filepath.Join(tb.TempDir(), "f"))
	})
	tb.Cleanup(func() { tap.Close() })
	return tap
}

// TestExpire covers K6 and K7: Expire deletes the given hashes, except those that were deleted
// meanwhile. Its deletes must not go to the tap. If the filter has left-out keys, or the item is gone, a
// delete must be in the history only.
func TestExpire(t *testing.T) {
	h := newHistorian(t)
	for _, hash := range []uint64{key, key, key, other, other} {
		h.insert(hash)
	}
	tap, deleted := h.beginTap(), map[uint64]uint64{}
	h.remove(key, true)
	n, err := h.Expire([]uint64{key, key, other}, tap, deleted, nil, true)
	if h.must(err); n != 2 || h.Len() != 2 || tap.Len() != 0 || deleted[key] != 0 {
		t.Errorf("%d have expired, %d items are left; tapped %d, %v", n, h.Len(), tap.Len(), deleted)
	}
	h.insert(absent) // other operations go to the tap again
	if tap.Len() == 0 {
		t.Error("after Expire, an insert does not go to the tap")
	}
	h.remove(leaning, true) // a stray delete, which removes the last item of key
	h.at = h.protocol.History().At
	n, err = h.Expire([]uint64{key}, tap, deleted, nil, true)
	h.must(err)
	h.expect(layout.Delete, key, 2, 0, 1)
	h.unique(other^1, false)
	h.unique(other, false) // not a delete
	h.at = h.protocol.History().At
	m, err := h.Expire([]uint64{other}, tap, deleted, nil, true)
	h.must(err)
	h.expect(layout.Delete, other, 2, 2, 2)
	if n != 1 || m != 1 {
		t.Errorf("%d and %d have expired", n, m)
	}
}

// TestTapChecksItsFile checks that a tap returns an error if its file returns other operations than it
// got.
func TestTapChecksItsFile(t *testing.T) {
	for name, change := range map[string]func(words []uint64){
		"nothing":       func([]uint64) {},
		"a hole":        func(words []uint64) { clear(words) },
		"another bit":   func(words []uint64) { words[1] ^= 1 << 20 },
		"another order": func(words []uint64) { words[0], words[1] = words[1], words[0] },
	} {
		tap := newTap(t)
		for h := uint64(1); tap.file == nil; h++ {
			tap.add(h, layout.Insert)
		}
		words := make([]uint64, 2)
		_, err := tap.file.ReadAt(recovery.Bytes(words), 0)
		if change(words); err == nil {
			_, err = tap.file.WriteAt(recovery.Bytes(words), 0)
		}
		must(t, err)
		hashes, _, err := tap.Take(nil, nil, tap.Len())
		if name == "nothing" && (err != nil || hashes[len(hashes)-1] != uint64(len(hashes))) || name != "nothing" && !errors.Is(err, errTap) {
			t.Errorf("%s: %d operations, %v", name, len(hashes), err)
		}
	}
}

// TestHistoryIsLong covers K7: after Compact, a rebuild is due when the tail has 32,768 operations more
// than there are items, or when as many deletes wait as Compact was told. Without Compact, none is due.
func TestHistoryIsLong(t *testing.T) {
	h := newHistorianOnDisk(t, wal.MinBytes)
	h.Compact(3)
	repeat := func(n int) {
		for range n { // neither adds an item, and each takes the other's place in the table
			_, err := h.InsertUnique(leaning)
			h.must(err)
			_, err = h.InsertUnique(leaning ^ 1<<16)
			h.must(err)
		}
	}
	h.insert(key)
	if repeat(1 << 14); h.HistoryIsLong() || h.protocol.Tail() != 1<<15+1 {
		t.Errorf("a rebuild is due after %d operations", h.protocol.Tail())
	}
	if repeat(1); !h.HistoryIsLong() {
		t.Errorf("no rebuild is due after %d operations", h.protocol.Tail())
	}

	for waiting, want := range map[uint64]uint64{0: 0, 3: 3} {
		h := newHistorian(t)
		h.insert(key)
		h.unique(leaning, false)
		h.Compact(waiting)
		for n := uint64(1); n <= 5; n++ {
			h.remove(key, true)
			if long := h.HistoryIsLong(); long != (want > 0 && n >= want) {
				t.Errorf("%d deletes wait, and %d may: a rebuild is due: %t", n, want, long)
			}
		}
	}
}

// TestReplaceOfHistory covers K7: at the handover of a replacement, the files need the same history, but
// not the same items. If the histories differ, the replacement must fail, and the old file goes on.
func TestReplaceOfHistory(t *testing.T) {
	insert := func(w *Writer, hash uint64) {
		t.Helper()
		must(t, w.Insert(hash))
	}
	for _, c := range []struct {
		name string
		do   func(old, next *Writer)
		err  error
	}{
		{"the same", func(old, next *Writer) { insert(old, other); insert(next, other) }, nil},
		{"an operation less", func(old, _ *Writer) { insert(old, other) }, ErrDiverged},
		{"an operation more", func(_, next *Writer) { insert(next, other) }, ErrDiverged},
		{"another operation", func(old, next *Writer) { insert(old, other); insert(next, absent) }, ErrDiverged},
		{"another order", func(old, next *Writer) {
			insert(old, other)
			insert(old, absent)
			insert(next, absent)
			insert(next, other)
		}, ErrDiverged},
		{"other items", func(old, next *Writer) {
			insert(old, key)
			insert(next, key)
			for i, w := range []*Writer{old, next} { // the old file has lost an item that the history has
				w.mu.Lock()
				if i == 0 && !w.remove(key) {
					t.Fatal("no delete")
				}
				w.finish(layout.Delete, i-1, key)
				w.mu.Unlock()
			}
		}, nil},
	} {
		for _, when := range []int{fewLeft, 0} { // before the pause, or in it
			t.Run(fmt.Sprintf("%s, with %d left", c.name, when), func(t *testing.T) {
				old, next := newStageOn(t, stageShape.Keeping(t, 3), 3, 1), newStageOn(t, stageShape.Keeping(t, 4), 4, 1)
				insert(old.w, key)
				insert(next.w, key)
				named, done := false, false
				next.volume.place = func() (bool, error) {
					named = true
					return true, nil
				}
				if when > 0 || c.err == nil {
					c.do(old.w, next.w)
					done = true
				}
				catchUp := func(most int) error {
					if most == 0 && !done {
						insert(next.w, absent) // the old file does not have this operation
					}
					return nil
				}
				err := old.w.Replace(next.w, true, catchUp, func(*Writer) {})
				if err != c.err || named != (c.err == nil) {
					t.Fatalf("named %t: %v", named, err)
				}
				if a, b := old.w.protocol.History(), next.w.protocol.History(); err == nil && a.At != b.At {
					t.Errorf("the histories are at %+v and %+v", a, b)
				}
				if err != nil {
					insert(old.w, other)
				}
			})
		}
	}
	for _, exact := range []bool{true, false} { // a new file with the caller's keys may lack known hashes
		old, next := newHistorian(t), newStageOn(t, stageShape.Keeping(t, 4), 4, 1)
		next.volume.place = func() (bool, error) { return true, nil }
		old.unique(key, true)
		catchUp := func(most int) (err error) {
			if most == 0 {
				_, err = next.w.Replay([]uint64{key}, []layout.Op{layout.AtLeastOne})
			}
			return err
		}
		must(t, old.Replace(next.w, exact, catchUp, func(*Writer) {}))
		if (next.w.mu.known == old.mu.known) != exact {
			t.Errorf("exact %t: the new file knows what the old one does: %t", exact, !exact)
		}
	}
}

// TestRebuilding covers K5: if many operations come during a rebuild, each of the next operations waits
// a little, but not until the rebuild ends. No operation waits after the rebuild, or without Compact.
func TestRebuilding(t *testing.T) {
	h := newHistorianOnDisk(t, 64<<20)
	come := func(rounds, waits int) {
		t.Helper()
		before := h.mu.waits
		for range rounds {
			h.insert(key)
			h.remove(key, true)
		}
		if h.mu.waits-before != waits {
			t.Errorf("%d waits in %d operations, not %d", h.mu.waits-before, 2*rounds, waits)
		}
	}
	h.Rebuilding()
	come(40_010, 0)
	h.Compact(1)
	come(10, 0)
	h.Rebuilding()
	come(1, 1)
	come(4, 8)
	h.Untap()
	come(1, 0) // no wait is left over from the rebuild
	come(10, 0)
	h.insert(other)
	h.insert(other)
	h.Rebuilding()
	if h.mu.mostTail != 80_000+2*2 {
		t.Errorf("with 2 items, operations wait from %d on", h.mu.mostTail)
	}
}
