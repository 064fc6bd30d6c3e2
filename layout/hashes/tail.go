package hashes

// A Kind says what an entry of the tail is.
type Kind uint64

// The kinds of entries.
const (
	Insert Kind = iota // the hash of an item that was inserted
	Delete             // the hash of an item that was deleted
	time               // a time
)

// TimeStep is how long a time is in force at most, in nanoseconds.
const TimeStep = 1e9

// A Tail lays out pages of the tail.
type Tail struct {
	write func(number uint64, p *Page) error
	at    Place // of the page
	page  Page
	n     int    // entries on it
	sum   uint64 // operations so far
	now   uint64 // time in force
}

// NewTail returns the layout of the pages of a tail from a place on. operations is how many the
// tail has before that place.
func NewTail(at Place, operations uint64, write func(number uint64, p *Page) error) *Tail {
	return &Tail{write: write, at: at, sum: operations}
}

// Add adds an operation that was committed at the given time.
func (t *Tail) Add(kind Kind, hash, committed uint64) error {
	if committed < t.now || committed-t.now >= TimeStep { // also if the clock was set back
		if t.now = committed; t.n > 0 {
			if err := t.add(time, committed); err != nil {
				return err
			}
		}
	}
	t.sum++
	return t.add(kind, hash)
}

func (t *Tail) add(kind Kind, word uint64) error {
	if t.n == 0 {
		t.page[1], t.page[2] = t.sum-1, t.now // the first entry is an operation
	}
	t.page[tailFirst+t.n] = word
	t.page[tailKinds+t.n/kindsInWord] |= uint64(kind) << (t.n % kindsInWord * kindBits)
	if t.n++; t.n < tailEntries {
		return nil
	}
	return t.flush()
}

func (t *Tail) flush() error {
	t.page[0] = uint64(t.n) << countShift
	check := t.page.sign(t.at, 0)
	err := t.write(t.at.Number, &t.page)
	t.at = Place{t.at.Identity, t.at.Number + 1, check}
	t.page, t.n = Page{}, 0
	return err
}

// End writes the last page. It returns the place after it, and the number of operations.
func (t *Tail) End() (Place, uint64, error) {
	if t.n == 0 {
		return t.at, t.sum, nil
	}
	err := t.flush()
	return t.at, t.sum, err
}

// An Entry is an operation of the tail, committed less than a second after Time.
type Entry struct {
	Kind Kind // Insert or Delete
	Hash uint64
	Time uint64
}

// ReadTail calls each for the operations of a page of the tail. It returns the place of the
// page after it and the number of operations up to there.
func ReadTail(p *Page, at Place, operations uint64, each func(Entry)) (Place, uint64, error) {
	if err := p.verify(at, 0); err != nil {
		return at, operations, err
	}
	n, now := p[0]>>countShift, p[2]
	if n == 0 || n > tailEntries || p[1] != operations {
		return at, operations, Corrupt(at.Number, "%d entries after %d operations of the tail, not after %d", n, p[1], operations)
	}
	for i := range int(n) {
		word := p[tailFirst+i]
		switch kind := Kind(p[tailKinds+i/kindsInWord] >> (i % kindsInWord * kindBits) & (1<<kindBits - 1)); kind {
		case Insert, Delete:
			operations++
			each(Entry{kind, word, now})
		case time:
			now = word
		default:
			return at, operations, Corrupt(at.Number, "entry %d is of no kind", i)
		}
	}
	return Place{at.Identity, at.Number + 1, uint32(p[0])}, operations, nil
}

// OperationsBefore returns how many operations a page of the tail says are before it.
func (p *Page) OperationsBefore() uint64 { return p[1] }
