package verify

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A file is the words of a file in memory.
type file struct {
	words []uint64
	g     layout.Geometry
}

// newFile makes a file with some items, sealed or not.
func newFile(t *testing.T, s tabletest.Shape, items int, sealed bool) *file {
	t.Helper()
	f := &file{words: s.Volume(t, 300).File.Mem}
	sb := f.head(t).Superblock
	f.g = f.head(t).Geometry
	table := layout.NewTable(f.g)
	p := place.New(table, place.NewUnlogged(table, layout.NewView(f.words[layout.WordRuntime:], f.g)))
	rng := rand.New(rand.NewPCG(1, 2))
	for range items {
		if !p.Insert(table.Split(rng.Uint64())) {
			t.Fatal("no room")
		}
	}
	sb.SetLength(uint64(items))
	if sealed {
		sb.SetState(layout.Sealed)
	}
	sb.Sign()
	for i := range layout.SuperblockSlots {
		copy(recovery.Bytes(f.words)[i*layout.SuperblockBytes:], sb[:])
	}
	if sealed {
		tail, err := sweep.Tail(context.Background(), table, f.g, recovery.Bytes(f.words), sb)
		if err != nil {
			t.Fatal(err)
		}
		copy(recovery.Bytes(f.words)[f.g.OffTable:], tail)
	}
	return f
}

func (f *file) head(t *testing.T) *recovery.Head {
	t.Helper()
	data := recovery.Bytes(f.words)
	_, sb, g, err := layout.Newest(data[:layout.OffRuntime])
	if err != nil {
		t.Fatal(err)
	}
	head := &recovery.Head{Superblock: sb, Geometry: g, Size: int64(len(data))}
	copy(head.Raw[:], data)
	return head
}

func (f *file) verify(t *testing.T) Report {
	t.Helper()
	r, err := Run(context.Background(), "", f.head(t), recovery.Bytes(f.words), func(_, _ int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRun: a file that is right has no damage, and the report says what it holds. A bit that changes in
// the lines is found in a sealed file; so is a wrong count in any.
func TestRun(t *testing.T) {
	for _, s := range tabletest.OneEach() {
		for _, sealed := range []bool{true, false} {
			const items = 1000
			f := newFile(t, s, items, sealed)
			r := f.verify(t)
			if len(r.Damage) > 0 || r.Items != items || r.Sealed != sealed || r.FileBytes != f.g.SealedBytes || sealed != (r.Chunks == f.g.Chunks) {
				t.Errorf("%s: %+v", s, r)
			}
			f.words[layout.WordRegion+5] ^= 1 << 9
			if r := f.verify(t); sealed && (len(r.Damage) != 1 || !strings.HasPrefix(r.Damage[0].Rule, "F8")) {
				t.Errorf("%s: a bit has changed: %+v", s, r)
			}
		}
		f := newFile(t, s, 100, false)
		sb := f.head(t).Superblock
		sb.SetLength(101)
		sb.Sign()
		for i := range layout.SuperblockSlots {
			copy(recovery.Bytes(f.words)[i*layout.SuperblockBytes:], sb[:])
		}
		if r := f.verify(t); len(r.Damage) != 1 || !strings.HasPrefix(r.Damage[0].Rule, "F13") {
			t.Errorf("%s: a wrong count: %+v", s, r)
		}
	}
}

// TestProgress: what has been read rises to the whole file, to the byte.
func TestProgress(t *testing.T) {
	f := newFile(t, tabletest.OneEach()[0], 100, true)
	var last int64
	_, err := Run(context.Background(), "", f.head(t), recovery.Bytes(f.words), func(done, total int64) {
		if done <= last || done > total || total != f.g.OffTable-layout.OffRuntime {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil || last != f.g.OffTable-layout.OffRuntime {
		t.Errorf("%d, %v", last, err)
	}
}

// TestCancelled: the cause of a cancelled context is the error.
func TestCancelled(t *testing.T) {
	f := newFile(t, tabletest.OneEach()[0], 100, true)
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Run(ctx, "", f.head(t), recovery.Bytes(f.words), func(_, _ int64) {}); err != enough {
		t.Error(err)
	}
}

// TestListsSoMuch: if there is much damage, the report lists as much as it promises.
func TestListsSoMuch(t *testing.T) {
	v := new(verification)
	for i := range int64(2 * maxDamage) {
		v.damaged(&layout.CorruptError{Offset: i})
		if n := len(v.report.Damage); n != min(int(i)+1, maxDamage) {
			t.Fatalf("%d after %d", n, i+1)
		}
	}
}

// TestClassSums covers K6: the sums of items do not depend on their order, and those of a table that
// has the items are equal to them. An item more or less changes the sums of one piece, and so does
// another one in its place.
func TestClassSums(t *testing.T) {
	const pieces = 5
	for _, s := range tabletest.OneEach() {
		table, view := s.Memory(t, 300)
		p := place.New(table, place.NewUnlogged(table, view))
		rng := rand.New(rand.NewPCG(3, 4))
		var hashes []uint64
		for range 1000 {
			h := rng.Uint64()
			hashes = append(hashes, h, h)
		}
		for _, h := range hashes {
			if !p.Insert(table.Split(h)) {
				t.Fatal("no room")
			}
		}
		left := func(hashes []uint64) (n int) {
			sums := newClassSums(table, pieces)
			for _, h := range hashes {
				sums.add(table.Class(table.Split(h)), 1)
			}
			sums.subtract(&view)
			for _, sum := range sums.pieces {
				if sum != [2]uint64{} {
					n++
				}
			}
			return n
		}
		slices.Reverse(hashes)
		if n := left(hashes); n != 0 {
			t.Errorf("%s: the same items differ in %d pieces", s, n)
		}
		if n := left(hashes[1:]); n != 1 {
			t.Errorf("%s: an item less: %d pieces differ", s, n)
		}
		if n := left(append(slices.Clone(hashes), hashes[0])); n != 1 {
			t.Errorf("%s: an item more: %d pieces differ", s, n)
		}
		other := slices.Clone(hashes)
		other[0] ^= 1 << 63 // another line
		if n := left(other); n == 0 {
			t.Errorf("%s: another item in the place of one: no piece differs", s)
		}
	}
}
