package place

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// A memory is a Preview of itself.

func (m *memory) FullLines(lines []uint64) (full uint64) {
	for i, line := range lines {
		if m.lines.Full(line) {
			full |= 1 << i
		}
	}
	return full
}

func (m *memory) PrefetchChange(line uint64) { m.lines.Prefetch(line) }

func (m *memory) Peek(line uint64, l *layout.Line) {
	*l = layout.Line{}
	layout.Load(m.table, m.view.Region, line, l)
}

// TestOutlookIsAHint: an outlook says which home lines are full. Inserts with outlooks leave the same
// words as inserts without, even if earlier inserts have filled a line that is not full according to an
// outlook.
func TestOutlookIsAHint(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p, q := newMemory(t, s, s.Lines(60)), newMemory(t, s, s.Lines(60))
			rng := rand.New(rand.NewPCG(13, 14))
			var ahead [MostAhead]Outlook
			full := 0
			for refused := 0; refused < 100; {
				items := make([]layout.Item, 1+rng.IntN(MostAhead))
				for i := range items {
					items[i] = p.table.Split(rng.Uint64())
				}
				p.LookAhead(p, items, ahead[:])
				for i, it := range items { // what ahead had from the previous batch is gone
					l, o := p.image(it.Line), &ahead[i]
					is := p.table.Free(l[:], it.Line) == 0
					if !o.made || o.homeFull != is || o.prefetched != (is && p.hosts != nil) {
						t.Fatalf("%+v: home full %t", *o, is)
					}
					if is {
						full++
					}
				}
				for i, it := range items {
					p.Expect(&ahead[i])
					ok := p.Insert(it)
					if ok != q.Insert(it) {
						t.Fatalf("%+v is taken with an outlook: %t", it, ok)
					}
					if !ok {
						refused++
					}
				}
				p.Expect(nil)
				if !slices.Equal(p.view.Region, q.view.Region) || !slices.Equal(p.view.Stash, q.view.Stash) {
					t.Fatal("inserts with outlooks leave other words")
				}
			}
			if full == 0 {
				t.Error("no line is full")
			}
		})
	}
}
