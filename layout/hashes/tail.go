package hashes

import "github.com/mmapfilter/mmapfilter/layout"

// TimeStep is the longest time for which a time is in force, in nanoseconds.
const TimeStep = 1e9

// An Entry is an operation of the tail, committed less than a second after Time.
type Entry struct {
	Op    layout.Op
	Items int // by how much the number of items changed: 1, 0 or -1
	Hash  uint64
	Time  uint64

	After layout.Position // the position after it; Read sets it
}

// timeKind is the kind of a time. The kind of an operation is its op, with its item effect in
// the upper bits.
const timeKind = 0

func (e *Entry) kind() uint64 { return uint64(e.Op) | uint64(e.Items+3)%3<<2 }

// entryOf returns the entry of a kind. ok is false if no entry has this kind.
func entryOf(kind uint64) (e Entry, ok bool) {
	e = Entry{Op: layout.Op(kind & 3), Items: [...]int{0, 1, -1, 2}[kind>>2]}
	return e, e.Op.May(e.Items)
}

// A Tail lays out pages of the tail. A copy of a Tail goes on from where it was copied,
// whatever happens to the original.
type Tail struct {
	write func(number uint64, page []uint64) error
	at    Place // the place of page, once it is full
	page  Page
	n     int             // entries on page
	end   layout.Position // of the operations so far
	now   uint64          // time in force
}

// NewTail returns a Tail that begins at a place.
func NewTail(at TailPlace, write func(number uint64, page []uint64) error) *Tail {
	return &Tail{write: write, at: at.Place, end: at.From}
}

// Resume goes on with the last page of a tail, which has been read. to is the position at its end.
func (t *Tail) Resume(p *Page, to layout.Position) {
	t.page, t.n, t.end, t.now = *p, int(p[0]>>countShift), to, p[2]
	for i := range t.n {
		if p.kind(i) == timeKind {
			t.now = p[tailFirst+i]
		}
	}
	t.page[0] = 0
}

// Add adds an operation.
func (t *Tail) Add(e Entry) error {
	if e.Time < t.now || e.Time-t.now >= TimeStep {
		if t.now = e.Time; t.n > 0 {
			if err := t.add(timeKind, e.Time); err != nil {
				return err
			}
		}
	}
	if t.n == 0 { // the first entry is an operation
		t.page[1], t.page[2], t.page[3] = t.end.Number, t.now, t.end.Chain
	}
	t.end = t.end.After(e.Op, e.Hash)
	return t.add(e.kind(), e.Hash)
}

func (t *Tail) add(kind, word uint64) error {
	t.page[tailFirst+t.n] = word
	t.page[tailKinds+t.n/kindsInWord] |= kind << (t.n % kindsInWord * kindBits)
	if t.n++; t.n < tailEntries {
		return nil
	}
	t.page[0] = uint64(t.n) << countShift
	check := t.page.sign(t.at, 0)
	err := t.write(t.at.Number, t.page[:])
	t.at = Place{t.at.Identity, t.at.Number + 1, check}
	t.page, t.n = Page{}, 0
	return err
}

// Position returns the position of the end.
func (t *Tail) Position() layout.Position { return t.end }

// End returns the last page, for the caller to write as page number, which is 1 or 2, and how much of
// the file counts then. last is nil if all pages are full. Add may be called again afterwards.
func (t *Tail) End(number uint64) (counted layout.Hashes, last *Page) {
	counted = layout.Hashes{Identity: t.at.Identity, Pages: t.at.Number, Check: t.at.Before}
	if t.n > 0 {
		p := t.page
		p[0] = uint64(t.n) << countShift
		counted.Last = p.sign(Place{t.at.Identity, number, t.at.Before}, 0)
		last = &p
	}
	return counted, last
}

// A TailPlace is a place in the tail: where a page belongs, and the position at which it begins.
type TailPlace struct {
	Place
	From layout.Position
}

// Read calls each for the operations of the page that belongs at a place, up to operation number to, and
// moves at to the next page. For the last page, at.Number is 1 or 2.
func (at *TailPlace) Read(p *Page, to uint64, each func(Entry)) error {
	if err := p.verify(at.Place, 0); err != nil {
		return err
	}
	n, now, from := p[0]>>countShift, p[2], at.From
	if n == 0 || n > tailEntries || p.From() != from {
		return Corrupt(at.Number, "%d entries after operation %d: the number is impossible, or the page before does not lead to them", n, p[1])
	}
	for i := 0; i < int(n) && from.Number < to; i++ {
		word, kind := p[tailFirst+i], p.kind(i)
		if kind == timeKind {
			now = word
			continue
		}
		e, ok := entryOf(kind)
		if !ok {
			return Corrupt(at.Number, "entry %d has a kind that does not exist", i)
		}
		from = from.After(e.Op, word)
		e.Hash, e.Time, e.After = word, now, from
		each(e)
	}
	*at = TailPlace{Place{at.Identity, at.Number + 1, uint32(p[0])}, from}
	return nil
}

// kind returns the kind of an entry.
func (p *Page) kind(i int) uint64 {
	return p[tailKinds+i/kindsInWord] >> (i % kindsInWord * kindBits) & (1<<kindBits - 1)
}

// From returns the position that a page of the tail gives for its beginning.
func (p *Page) From() layout.Position { return layout.Position{Number: p[1], Chain: p[3]} }
