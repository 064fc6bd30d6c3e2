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

func (m *memory) isFull(line uint64) bool {
	var l layout.Line
	m.Peek(line, &l)
	return m.table.Free(l[:], line) == 0
}

// fill inserts until a share of the slots is in use or an insert is refused. Then it removes one
// item in 500.
func (m *memory) fill(rng *rand.Rand, share float64) {
	var there []uint64
	for slots := float64(m.table.Lines()) * float64(layout.SlotsPerLine(m.table.Kind(), m.table.Params())); float64(len(there)) < share*slots; {
		h := rng.Uint64()
		if !m.Insert(m.table.Split(h)) {
			break
		}
		there = append(there, h)
	}
	for _, h := range there[:len(there)/500] {
		m.Remove(m.table.Split(h))
	}
}

// TestOutlook compares outlooks with the state of the lines. Most lines are full, so most
// outlooks say something.
func TestOutlook(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p, rng := newMemory(t, s, s.Lines(400)), rand.New(rand.NewPCG(11, 12))
			p.fill(rng, 0.97)
			full := 0
			for range 50 {
				items := make([]layout.Item, MostAhead)
				for i := range items {
					items[i] = p.table.Split(rng.Uint64())
				}
				var ahead [MostAhead]Outlook
				ahead[0] = Outlook{homeFull: true, prefetched: true} // left from the previous block
				p.LookAhead(p, items, ahead[:])
				for i, it := range items {
					o := &ahead[i]
					if !o.made || o.homeFull != p.isFull(it.Line) || o.prefetched != (o.homeFull && p.hosts != nil) {
						t.Fatalf("%+v: home full %t", *o, p.isFull(it.Line))
					}
					if o.homeFull {
						full++
					}
				}
			}
			if full == 0 {
				t.Error("no line is full")
			}
		})
	}
}

// TestOutlookIsAHint: inserts with outlooks leave the same words as inserts without, even if
// earlier inserts have filled a line that is not full according to an outlook.
func TestOutlookIsAHint(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p, q := newMemory(t, s, s.Lines(60)), newMemory(t, s, s.Lines(60))
			rng := rand.New(rand.NewPCG(13, 14))
			var ahead [MostAhead]Outlook
			for refused := 0; refused < 100; {
				items := make([]layout.Item, 1+rng.IntN(MostAhead))
				for i := range items {
					items[i] = p.table.Split(rng.Uint64())
				}
				p.LookAhead(p, items, ahead[:])
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
		})
	}
}
