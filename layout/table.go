package layout

import (
	"fmt"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Params are the two parameters of a cuckoo filter (paper, section 4): f bits in a
// fingerprint, b slots in a bucket.
type Params struct{ FingerprintBits, BucketSize int }

// A Line is an image of one line: the words of the region that hold it, as many as
// [Table.Words] says. The functions of its layout read and change it. If lines share a
// word, the image holds bits of other lines too, which stay as they are.
type Line [8]uint64

// Stores lists the words of a line that one change touches, in an order in which a
// writer may store them one by one without an item being missing at any instant: an
// item that moves is at its destination before it leaves its source. (A writer may use
// another order where readers cannot tell: see Record.Gather.)
type Stores struct {
	n       uint8
	guarded uint8 // bit i: the i-th store
	words   [8]uint8
}

// Add appends a word. A nil s lists nothing.
func (s *Stores) Add(word uint64, guarded bool) {
	if s == nil {
		return
	}
	if guarded {
		s.guarded |= 1 << s.n
	}
	s.words[s.n] = uint8(word)
	s.n++
}

// Len returns the number of words.
func (s *Stores) Len() int { return int(s.n) }

// At returns word i of the list, as an index into the image, and whether it is guarded:
// whether its store clears or overwrites a slot that held something, or means something
// else until other words of the line are stored.
func (s *Stores) At(i int) (word int, guarded bool) { return int(s.words[i]), s.guarded>>i&1 != 0 }

// An Item is what a table keeps of a key, seen from one of its two lines. Which of them
// is the home line is not kept, except in a layout that is one of Hosts.
type Item struct {
	Line   uint64 // the line it is seen from
	Bucket uint32 // one of its buckets in that line; the other follows from Fp
	Fp     uint32 // fingerprint
}

// A Class is all items with the same lines, the same buckets and the same fingerprint: a
// table cannot tell them apart. It is the key of a stash entry, whose two words are
//
//	word 0   bits 0-55 the line, 56-62 the bucket
//	word 1   bits 0-31 the number of items, 32-63 the fingerprint
//
// Both are zero if the entry is free, except for the mark of its group.
type Class struct {
	Line   uint64 // the lower of the two lines; in a layout that is one of Hosts, the home line
	Bucket uint32 // the lower of the two buckets
	Fp     uint32
}

// A View is the part of a file that lookups read, as words.
type View struct {
	Region  []uint64 // the lines
	Stash   []uint64 // the stash, StashWords
	Runtime []uint64 // the runtime page, RuntimeWords

	at func(word uint64) uint64 // At, once for all lookups: each method value would be allocated
}

// A Table is one layout with its parameters: it says how slots are stored in a line and
// which lines an item may be in. It holds no data and is safe for concurrent use. A
// layout is one implementation, in a package of its own that registers it.
type Table interface {
	Shape
	Addresses
	Images
	Slots
	Room
	Overflows
	Looks
}

// A Shape is what a table was made with, and what follows from that.
type Shape interface {
	Kind() Kind
	Params() Params
	Lines() uint64     // n, the number of lines
	SlotsPerLine() int // slots a line
	// Bounds returns the bounds of the work on one item.
	Bounds() Bounds
	// Both reports whether every lookup goes on to the second line: whether Overflowed
	// is always true.
	Both() bool
}

// Addresses say where an item may be.
type Addresses interface {
	// Split returns the item of a hash, seen from its home line.
	Split(h uint64) Item
	// Hash is an inverse of Split: it returns the lowest hash with that item.
	Hash(it Item) uint64
	// Alternate returns the same item seen from its other line. That is the same line
	// if the item has only one. Alternate is its own inverse.
	Alternate(it Item) Item
	// Legal reports whether an item may have that bucket and fingerprint. It does not
	// check the line.
	Legal(it Item) bool
	// Class returns what the stash calls the item. It is equal for all items that have
	// the same lines, the same buckets and the same fingerprint.
	Class(it Item) Class
}

// Images are those of the lines of a region.
type Images interface {
	// Words returns the words of the region that hold a line: n of them, starting with
	// first. They lie in one block of 64 bytes, or in two.
	Words(line uint64) (first uint64, n int)
	// Load and Store read and write the image of one line of the region. Two goroutines
	// must not store to lines that share a word at the same time.
	Load(region []uint64, line uint64, l *Line)
	Store(region []uint64, line uint64, l *Line)
	// CheckLines counts the items of the lines [from, to). If a line breaks a rule of
	// the format, it returns that line and what is wrong with it.
	CheckLines(region []uint64, from, to uint64) (items, line uint64, err error)
	// Items appends the items of the image of a line, as far as it is not damaged.
	Items(dst []Item, l *Line, line uint64) []Item
	// Probe says what lookups of absent keys meet whose home is a line with the image
	// l. Away is an estimate, and too low if the items that left share overflow bits.
	Probe(l *Line, line uint64) Overflow
}

// Slots are those of a line; l is the image of it.Line. Methods that change a line list
// the words they have changed in s, which is empty before the call and may be nil.
type Slots interface {
	// Place puts the item into l, moving others inside the line if that makes room. It
	// reports false, and leaves l alone, if there is no room.
	Place(l *Line, it Item, s *Stores) bool
	// Fill puts the items of sorted hashes, whose home line is the empty line l, into
	// it. It appends the hashes of those that find no room to beyond, in order.
	Fill(l *Line, hashes, beyond []uint64) []uint64
	// Remove removes one copy of the item from l and reports whether there was one.
	Remove(l *Line, it Item, s *Stores) bool
	// Copies returns the number of slots of l that hold the item.
	Copies(l *Line, it Item) int
	// Victims returns, in the memory of dst, items of l, each of whose removal lets Place put the
	// item (of a damaged line, none): all victims if all is set, otherwise the cheapest few; more
	// reports whether others may exist.
	Victims(dst []Item, l *Line, it Item, all bool) (victims []Item, more bool)
}

// Room is that of the lines.
type Room interface {
	// Free returns the number of free slots of a line with the image l. In a layout that is
	// one of Hosts, they are for items at home.
	Free(l *Line, line uint64) uint64
	// Full reports whether a line of the region has no free slot. A writer may be
	// storing to the line.
	Full(region []uint64, line uint64) bool
	// FullLines is Full for up to 64 lines, whose cache misses overlap: bit i is for
	// lines[i].
	FullLines(region, lines []uint64) (full uint64)
}

// Overflows are the overflow bits of a line; l is the image of it.Line.
type Overflows interface {
	// SetOverflow records in l that the item, or an equal one, is elsewhere. It lists
	// the words it has changed in s, as the methods of Slots do.
	SetOverflow(l *Line, it Item, s *Stores)
	// Cost says what it costs lookups if an item of l leaves, from 0 to MostCost: the number
	// of overflow bits that SetOverflow would set; in a layout that is one of Hosts, one
	// more, and 0 for a guest.
	Cost(l *Line, it Item) int
	// Overflowed reports whether a lookup of the item must go on past l.
	Overflowed(l *Line, it Item) bool
}

// Places are where an item may be: in its two lines, seen from either, which start and end
// in some blocks of the region, and in the stash as one of its class.
type Places struct {
	Home, Other           Item
	HomeFirst, HomeLast   uint64
	OtherFirst, OtherLast uint64
	Class                 Class
}

// Looks are what a layout contributes to lookups.
type Looks interface {
	// Blocks returns the blocks of 64 bytes of the region that a line starts and ends in.
	Blocks(line uint64) (first, last uint64)
	// Places sets p to where the item of a hash may be.
	Places(h uint64, p *Places)
	// LookAt looks an item up in the line it is seen from: found reports whether a slot
	// has it, beyond whether the line says that it may be elsewhere. at returns the word
	// of a file with that number.
	LookAt(at func(word uint64) uint64, it Item) (found, beyond bool)
	// Look is LookAt for a line of a region.
	Look(region []uint64, it Item) (found, beyond bool)
	// FirstLook looks a hash up in its home line alone. If open is false, found is what
	// Lookup would report.
	FirstLook(v *View, h uint64) (found, open bool)
	// FirstLooks does what it can of FirstLook for many hashes at once, and returns how
	// many of them that is: found[i] is for hashes[i], and it sets bit i%8 of open[i/8],
	// which must be 0 before, if that hash is open.
	FirstLooks(v *View, hashes []uint64, found []bool, open []uint8) (done int)
	// Kernel returns the name of the kernel that looks batches up in this layout.
	Kernel() string
}

// FillByPlace is Fill by way of Place.
func FillByPlace(t Table, l *Line, hashes, beyond []uint64) []uint64 {
	for _, h := range hashes {
		if !t.Place(l, t.Split(h), nil) {
			beyond = append(beyond, h)
		}
	}
	return beyond
}

// FullByLine is FullLines by way of Full.
func FullByLine(t Table, region, lines []uint64) (full uint64) {
	for _, line := range lines {
		first, n := t.Words(line)
		kernel.Prefetch(&region[first])
		kernel.Prefetch(&region[first+uint64(n)-1])
	}
	for i, line := range lines {
		if t.Full(region, line) {
			full |= 1 << i
		}
	}
	return full
}

// LineAt returns a line of a region whose lines are blocks of 64 bytes.
func LineAt(region []uint64, line uint64) *Line { return (*Line)(region[line*BlockWords:]) }

// LoadOf reads a word of a line that a writer may be storing to.
func LoadOf(l *Line, i uint64) uint64 { return atomic.LoadUint64(&l[i%BlockWords]) }

// Bounds are the bounds of the work on one item.
type Bounds struct {
	SearchLines int // lines that a search for a path of moves expands
	PathMoves   int // moves of a path

	// ChooseFirst means that if an item comes to a full line, the one leaves whose move sets the
	// fewest overflow bits, of the items of the line and the one that comes. Only a layout that is
	// one of Hosts can tell. Otherwise the one that comes goes to its other line if it can.
	ChooseFirst bool

	// PlaceStores, RemoveStores and OverflowStores are the most words that one call of
	// Place, Remove or SetOverflow changes.
	PlaceStores, RemoveStores, OverflowStores int
}

// Loads are the design loads of a table: items / slots, in percent.
type Loads struct {
	Least int // below it, a shorter fingerprint uses the space better
	Usual int // if no rate is asked for
	Most  int // above it, inserts need long searches, and there is no room for a few more keys
}

// A Crowd holds the items of a full line and items that have come to it: more than the
// line has slots.
type Crowd struct {
	Others []uint64 // the other line of each item
	Rooms  []uint8  // the room in that line, up to MostRoom; an item with 0 stays

	Line uint64   // of the layout, as the rest is
	Fps  []uint32 // of the items of the line, in order, then of those that have come
	Left []uint64
}

// MostCost is the largest value of Overflows.Cost.
const MostCost = 2

// MostRoom is the largest value in Crowd.Rooms.
const MostRoom = 3

// A Chooser is a Table in which any items of a full line can make room for any others.
type Chooser interface {
	// Gather fills c with the items of a full line and those of the sorted hashes that
	// have come to it, in this order. There may be at most as many hashes as the line
	// has slots. Every item is marked as one that stays.
	Gather(c *Crowd, l *Line, line uint64, came []uint64)
	// Part puts as many items of c into l as it has room for and returns the hashes that
	// the others have in their other lines. It chooses items that together leave few
	// overflow bits in l, beside those that are set already; among items that leave no
	// further bits, those with the most room. If too few items may leave, ok is false, and l
	// is as it was.
	Part(c *Crowd, l *Line) (left []uint64, ok bool)
}

// Hosts is a Table whose lines know their guests, the items that are not in their home line.
// So it is known at every instant which overflow bits are needed, and the others are cleared.
type Hosts interface {
	Guests
	ExactOverflows
}

// Guests are those of a line; l is its image.
type Guests interface {
	// IsGuest reports whether an item is seen from its other line.
	IsGuest(it Item) bool
	// Unhash is an inverse of Hash for guests as well. Split takes every hash for that of
	// a key, seen from home.
	Unhash(h uint64) Item
	// Leavers returns, in the memory of dst, the items whose leaving makes room for an item in
	// l, in the order in which they are to be tried: those of the least Cost first. Of those
	// that share their overflow bits and so their other line, it has only the first. If itself
	// is set, the item is one of them, before others of its cost.
	Leavers(dst []Item, l *Line, it Item, itself bool) []Item
	// GuestRoom returns how many guests a line has room for.
	GuestRoom(l *Line) uint64
	// Related returns a guest in l, the image of it.Line, that has the home and the
	// overflow bits of it, a guest there, and how many such guests there are.
	Related(l *Line, it Item) (guest Item, n int)
	// Absent returns, in the memory of dst, what Related needs for each overflow bit that
	// is set in a line.
	Absent(dst []Item, l *Line, line uint64) []Item
}

// ExactOverflows are overflow bits that are set as long as an item needs them, and no longer.
type ExactOverflows interface {
	// SameBits reports whether two fingerprints with the same home have the same overflow
	// bits.
	SameBits(a, b uint32) bool
	// ClearOverflow clears the overflow bits of an item in its home line. It lists the
	// words it has changed in s, as SetOverflow does. Place is guarded at home, so that it
	// needs no guard.
	ClearOverflow(l *Line, home Item, s *Stores)
	// MakeBits makes the overflow bits of the lines [from, to) again: those that guests
	// and the stash need, and no other. It calls store for each word that changes, by its
	// number in the region.
	MakeBits(v *View, from, to uint64, store func(word, value uint64))
	// CheckBits returns the first of the lines [from, to) that has a guest whose overflow
	// bits are not set at home, and says so, or nil.
	CheckBits(region []uint64, from, to uint64) (line uint64, err error)
}

// CheckLines is Table.CheckLines, which checks rule F10, with F11 where lines know their
// guests. The error names the rule and the line.
func CheckLines(t Table, region []uint64, from, to uint64) (items, line uint64, err error) {
	if items, line, err = t.CheckLines(region, from, to); err != nil {
		return items, line, fmt.Errorf("F10: line %d: %w", line, err)
	}
	if hosts, ok := t.(Hosts); ok {
		if line, err = hosts.CheckBits(region, from, to); err != nil {
			return items, line, fmt.Errorf("F11: line %d: %w", line, err)
		}
	}
	return items, 0, nil
}

// Unhash returns the item of a hash that [Addresses.Hash] has made, or of a key.
func Unhash(t Table, h uint64) Item {
	if hosts, ok := t.(Hosts); ok {
		return hosts.Unhash(h)
	}
	return t.Split(h)
}

// An Overflow says what a lookup of an absent key meets, in a line or on average in a
// table.
type Overflow struct {
	Match  float64 // probability that a line it reads holds a matching fingerprint
	Second float64 // probability that it reads a second line
	Away   float64 // items away from this home line / items in the line
	Own    bool    // the layout is one of Hosts
}

// Rate returns the false-positive rate. Wherever an item is, it matches the absent keys
// that share its home, its buckets and its fingerprint. So the items away from home
// count once more than the items in the lines that are probed. Where lines know their
// guests, an item matches no other keys, and Match counts each once.
func (o Overflow) Rate() float64 {
	if o.Own {
		return o.Match
	}
	return o.Match * (1 + o.Second + o.Away)
}
