package layout

import (
	"fmt"
	"maps"
	"slices"
)

// A Kind names a layout in the superblock. Numbers are never reused.
type Kind uint8

const (
	Auto       Kind = 0 // no layout: "choose one"; never in a file
	Blocked    Kind = 1
	Packed     Kind = 3
	SemiSorted Kind = 4
	Compact    Kind = 5 // and not 2, which it was with other overflow bits
)

var kindNames = [...]string{Auto: "auto", Blocked: "blocked", Packed: "packed", SemiSorted: "semisorted", Compact: "compact"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ParseKind is the inverse of [Kind.String].
func ParseKind(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name && n != "" {
			return Kind(k), true
		}
	}
	return 0, false
}

// MarshalText gives the name, for JSON and the like.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes the name of a layout.
func (k *Kind) UnmarshalText(name []byte) error {
	kind, ok := ParseKind(string(name))
	if !ok {
		return fmt.Errorf("layout: no layout is called %q", name)
	}
	*k = kind
	return nil
}

// Params are the two numbers of a cuckoo filter (paper, section 4): f bits a
// fingerprint, b slots a bucket.
type Params struct{ FingerprintBits, BucketSize int }

// A Line is the unit in which an item lives: an item has a home line and an
// alternate line. It is an image of the words of the region that hold line i, as
// many as [Table.Words] says, which the layout's own functions read and change.
// Where lines share a word, the bits of the others are in it as well, and are
// left alone.
type Line [8]uint64

// Stores lists the words of a line that one change touches, in the order in
// which a writer may store them one after the other so that no item is missing
// at any instant: an item that moves is at its destination before it leaves its
// source. (Where that changes nothing for readers, a writer has its own order: see
// Record.Gather.)
type Stores struct {
	n       uint8
	guarded uint8 // bit i: the i-th store
	words   [8]uint8
}

// add appends a word. A nil s lists nothing.
func (s *Stores) add(word uint64, guarded bool) {
	if s == nil {
		return
	}
	if guarded {
		s.guarded |= 1 << s.n
	}
	s.words[s.n] = uint8(word)
	s.n++
}

// Len is the number of words.
func (s *Stores) Len() int { return int(s.n) }

// At gives word i of the list, counted in the image, and whether it is guarded:
// whether a slot that held something is cleared or gets something else, or means
// something else while other words of the line are not stored yet.
func (s *Stores) At(i int) (word int, guarded bool) { return int(s.words[i]), s.guarded>>i&1 != 0 }

// An Item is what a table keeps of a key, seen from one of its two lines.
// Which of the two is home is not kept.
type Item struct {
	Line   uint64 // the line it is looked at in
	Bucket uint32 // one of its buckets in that line; the other follows from Fp
	Fp     uint32 // fingerprint
}

// A View is the part of a file that lookups read, as words.
type View struct {
	Region  []uint64 // the lines
	Stash   []uint64 // the stash, StashWords
	Runtime []uint64 // the runtime page, RuntimeWords
}

// NewView cuts the words of a file, from OffRuntime on, into what lookups read.
func NewView(words []uint64, g Geometry) View {
	const stash, region = WordStash - WordRuntime, WordRegion - WordRuntime
	return View{
		Runtime: words[:RuntimeWords],
		Stash:   words[stash : stash+StashWords],
		Region:  words[region : region+uint64(g.RegionBytes/8)],
	}
}

// A Table is one layout with its parameters bound: it says how slots are
// stored in a line and where an item may live. It holds no data and may be
// shared by any number of goroutines. This is the seam behind which a further
// layout is one file; [specs] lists them.
type Table interface {
	Kind() Kind
	Params() Params
	Lines() uint64     // n, the number of lines
	SlotsPerLine() int // slots a line

	// Split gives the item of a hash, seen from its home line.
	Split(h uint64) Item
	// Hash is an inverse of Split: the lowest hash of which Split makes the item.
	Hash(it Item) uint64
	// Alternate gives the same item seen from its other line, which is the
	// same line where an item has one home only. It is its own inverse.
	Alternate(it Item) Item
	// Legal reports whether the bucket and the fingerprint of it can be those
	// of an item; the line is the caller's to check.
	Legal(it Item) bool
	// Class names the item as the stash does: equal for all items that have
	// the same lines, the same buckets and the same fingerprint.
	Class(it Item) Class

	// Bounds gives those of the work on one item.
	Bounds() Bounds
	// Both reports whether every lookup goes on to the second line: whether
	// Overflowed is always true.
	Both() bool

	// Words gives the words of the region that hold a line: n of them, from first
	// on. They are in one block of 64 bytes, or in two.
	Words(line uint64) (first uint64, n int)
	// Load and Store read and write the image of one line of the region. Lines
	// that share a word must not be stored to at the same time.
	Load(region []uint64, line uint64, l *Line)
	Store(region []uint64, line uint64, l *Line)

	// The functions that change a line list the words they changed in s, which
	// is empty when they are called, and may be nil. l is the image of it.Line.

	// Place puts the item into l, moving others inside the line when that
	// makes room. It reports false, and leaves l alone, when nothing does.
	Place(l *Line, it Item, s *Stores) bool
	// Fill puts the items of sorted hashes, whose home is the line of the image l,
	// which is empty, into it. It appends the hashes of those that find no room to
	// beyond, in their order.
	Fill(l *Line, hashes, beyond []uint64) []uint64
	// Free counts the free slots of a line with the image l.
	Free(l *Line, line uint64) uint64
	// Full reports whether no slot of a line of the region is free. Someone may be storing
	// to it meanwhile.
	Full(region []uint64, line uint64) bool
	// FullLines is Full for up to 64 lines, whose cache misses overlap: bit i is for lines[i].
	FullLines(region, lines []uint64) (full uint64)
	// Remove takes one copy of the item out of l.
	Remove(l *Line, it Item, s *Stores) bool
	// Copies counts the slots of l that hold the item.
	Copies(l *Line, it Item) int
	// Victims gives, in the memory of dst, the items of l whose removal lets Place
	// put it: all of them, or the first few and whether there may be more.
	Victims(dst []Item, l *Line, it Item, all bool) (victims []Item, more bool)
	// SetOverflow records in l that the item, or an equal one, lives elsewhere.
	SetOverflow(l *Line, it Item, s *Stores)
	// NewMarks counts the overflow bits that SetOverflow would set.
	NewMarks(l *Line, it Item) int
	// Overflowed reports whether a lookup of the item must go on past l.
	Overflowed(l *Line, it Item) bool

	// CheckLines counts the items of the lines [from, to), or says which line
	// has something that cannot stand in a line.
	CheckLines(region []uint64, from, to uint64) (items, line uint64, err error)
	// Probe tells what a lookup of an absent key meets whose home is a line with
	// the image l. Away is estimated, and too low where items went away that share
	// overflow bits: they leave no more than traces.
	Probe(l *Line, line uint64) Overflow

	// Lookup looks one hash up in words that come from anywhere: at gives the
	// word of a file with that number, from the runtime page on. It reports
	// true when the hash may be in the table, and false only when it is
	// certainly not, whatever a writer does meanwhile (rule R2).
	Lookup(at func(word uint64) uint64, h uint64) bool
	// FirstLook looks one hash up in its home line alone. Where it is not open, found
	// is what Lookup says.
	FirstLook(v *View, h uint64) (found, open bool)
	// FirstLooks is FirstLook for many: found[i] is for hashes[i], and bit i%8 of
	// open[i/8], which is 0 before, is set where that is open.
	FirstLooks(v *View, hashes []uint64, found []bool, open []uint8)
	// HomeBlocks gives for each hash the block of 64 bytes of the region that its
	// home line begins in.
	HomeBlocks(hashes, blocks []uint64)
	// Contains is Lookup in a view.
	Contains(v *View, h uint64) bool
	// Kernel names what batches of lookups of this layout run on.
	Kernel() string
	// ContainsHashes looks up hashes[i] into found[i]; found is not shorter.
	ContainsHashes(v *View, hashes []uint64, found []bool)
}

// fillByPlace is Fill by way of Place.
func fillByPlace(t Table, l *Line, hashes, beyond []uint64) []uint64 {
	for _, h := range hashes {
		if !t.Place(l, t.Split(h), nil) {
			beyond = append(beyond, h)
		}
	}
	return beyond
}

// fullLines is FullLines by way of Full.
func fullLines(t Table, region, lines []uint64) (full uint64) {
	for _, line := range lines {
		first, n := t.Words(line)
		Prefetch(&region[first])
		Prefetch(&region[first+uint64(n)-1])
	}
	for i, line := range lines {
		if t.Full(region, line) {
			full |= 1 << i
		}
	}
	return full
}

// Bounds are those of the work on one item.
type Bounds struct {
	SearchLines int // lines that one search for a path of moves expands
	PathMoves   int // moves of one path

	// ChooseFirst: of the items of a full line, and the one that comes, one goes whose
	// move sets the fewest overflow bits; else the one that comes goes, if it can.
	ChooseFirst bool

	// Words that one call of these functions changes.
	PlaceStores, RemoveStores, OverflowStores int
}

// Loads are those that a table is sized for: items over slots, in hundredths.
type Loads struct {
	Least int // below it a smaller fingerprint is the better use of the space
	Usual int // where no rate is asked for
	Most  int // above it inserts need long searches, and nothing is left for a few keys more
}

// A spec is what this package knows of a layout before its parameters are bound.
type spec struct {
	params []Params // the legal ones, by rising f
	// itemBits is how many bits of a hash an item uses beside its line.
	itemBits func(p Params) int
	// slotsPerLine and lineBits size the region. Lines follow one another
	// without a gap.
	slotsPerLine func(p Params) int
	lineBits     func(p Params) int
	loads        func(p Params) Loads
	// predict tells what a lookup of an absent key meets on average in a table
	// with that load.
	predict func(p Params, load float64) Overflow
	// marks gives figures of overflow; nil where there are no overflow bits.
	marks func(p Params) marks
	// crowded is how many entries of the stash are in use, about, in a table of so
	// many lines with that load: for classes that have more items than places.
	crowded func(p Params, lines, load float64) float64
	bind    func(p Params, lines uint64) Table
}

// specs holds every layout this program can read and write.
var specs = map[Kind]*spec{
	Blocked:    &blockedSpec,
	Compact:    &compactSpec,
	Packed:     &packedSpec,
	SemiSorted: &semiSortedSpec,
}

// Kinds lists the layouts that exist, in the order of their numbers.
func Kinds() []Kind { return slices.Sorted(maps.Keys(specs)) }

// LegalParams lists the parameters of a layout by rising fingerprint bits; it
// is empty for a layout this program does not have.
func LegalParams(k Kind) []Params {
	if s := specs[k]; s != nil {
		return s.params
	}
	return nil
}

// An Overflow tells what a lookup of an absent key meets, in a line or on
// average in a table.
type Overflow struct {
	Match  float64 // probability that a line it probes holds its fingerprint
	Second float64 // probability that it goes on to a second line
	Away   float64 // items whose home it is but that are not in it, over items in it
}

// Rate is the false-positive rate. An item gives a match to the absent keys that
// share its home, its buckets and its fingerprint wherever it stands; so those
// that are away count once more than the items in the lines that are probed.
func (o Overflow) Rate() float64 { return o.Match * (1 + o.Second + o.Away) }

// Predict tells what the lookup of an absent key meets in a table filled to
// load (items over slots, 0 to 1).
func Predict(k Kind, p Params, load float64) Overflow { return specs[k].predict(p, load) }

// SlotsPerLine gives the slots of a line of that layout.
func SlotsPerLine(k Kind, p Params) int { return specs[k].slotsPerLine(p) }

// LineBits gives the size of a line of that layout in bits.
func LineBits(k Kind, p Params) int { return specs[k].lineBits(p) }

// DesignLoads gives the loads that a table is sized for.
func DesignLoads(k Kind, p Params) Loads { return specs[k].loads(p) }

// MaxCrowded is how many entries of the stash a table may be expected to need at
// its design load: what is left is for chance, and for the keys that come later.
const MaxCrowded = StashEntries / 8

// Crowded tells how many entries of the stash a table needs.
func Crowded(k Kind, p Params, lines, load float64) float64 { return specs[k].crowded(p, lines, load) }

// NewTable binds a layout to the parameters in g.
func NewTable(g Geometry) Table { return specs[g.Kind].bind(g.Params, g.Lines) }
