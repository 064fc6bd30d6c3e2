package layout

// A Table is one layout with its parameters: it says how slots are stored in a line and
// which lines an item may be in. It holds no data and is safe for concurrent use. The
// package of a layout implements Table and registers the layout.
//
// Table and [Hosts] are large because a layout is one thing: all of their methods know the
// image of a line. Code that uses little of a table takes a small interface: a lookup takes
// [Looks], the stash [Classes], a check [Checks], a search for a path place.Table.
//
// Methods that only some layouts have are not here but in [Hosts], and in the interfaces of the
// kernels. Their callers ask a table once whether it has them.
type Table interface {
	Kind() Kind
	Params() Params

	// Hash is an inverse of Split: it returns the lowest hash of an item.
	Hash(it Item) uint64
	// Items appends the items in the image of a line to dst. A damaged line may lack items.
	Items(dst []Item, l *Line, line uint64) []Item
	// Probe says what a lookup of an absent key meets if its home line has the image l.
	Probe(l *Line, line uint64) Absent

	// The following methods change a line, or look for room in it; l is the image of it.Line. If
	// they change it, they list the words they have changed in s, which is empty before the call
	// and may be nil.

	// Place puts the item into l, moving others inside the line if that makes room. It
	// reports false, and leaves l alone, if there is no room.
	Place(l *Line, it Item, s *Stores) bool
	// Remove removes one copy of the item from l and reports whether there was one.
	Remove(l *Line, it Item, s *Stores) bool
	// Victims returns, in the memory of dst, the items of l that make room for the item: after the
	// removal of any one of them, Place succeeds. A damaged line has none.
	Victims(dst []Item, l *Line, it Item) []Item

	Looks
	Classes
	Checks
}

// Checks verifies the lines of a region.
type Checks interface {
	Lines() uint64 // n, the number of lines
	// CheckLines counts the items of the lines [from, to). If a line breaks a rule of
	// the format, it returns that line and what is wrong with it.
	CheckLines(region []uint64, from, to uint64) (items, line uint64, err error)
}

// Load and Store read and write the image of one line of a region. Two goroutines must not
// store to lines that share a word at the same time.
func Load(t Table, region []uint64, line uint64, l *Line) {
	first, n := t.Words(line)
	copy(l[:n], region[first:])
}

func Store(t Table, region []uint64, line uint64, l *Line) {
	first, n := t.Words(line)
	copy(region[first:], l[:n])
}

// Overflowed reports whether a lookup of an item must go on past l, the image of its line.
func Overflowed(t Table, l *Line, it Item) bool {
	_, beyond := t.Look(l[:], it)
	return beyond
}

// Bounds limit the work on one item.
type Bounds struct {
	SearchLines int // most lines that a search for a path of moves expands
	PathMoves   int // most moves of a path

	// PlaceStores, RemoveStores and OverflowStores are the largest numbers of words that
	// one call of Place, Remove or SetOverflow changes.
	PlaceStores, RemoveStores, OverflowStores int
}

// Loads are the design loads of a table: items / slots, in percent.
type Loads struct {
	Least int // below this load, other parameters use the space better
	Usual int // the load if no rate is asked for
	Most  int // above this load, inserts need long searches, and a few more keys would find no room
}

// Hosts is a Table whose lines have overflow bits and know their guests, the items that are not in
// their home line. So a writer knows at every instant which overflow bits are needed, and clears the
// other bits. In any other Table, every lookup goes on to the second line.
type Hosts interface {
	// The guests of a line. l is the image of the line.

	// IsGuest reports whether an item is seen from its other line.
	IsGuest(it Item) bool
	// Leavers returns, in the memory of dst, the items that make room for an item in l by
	// leaving, in the order in which to try them: guests, which go home; then items whose overflow bits
	// are set; then the others. Of items that share overflow bits, and so their other line, it returns
	// only the first. If itself is set, the item is one of the leavers, before others of the same group.
	Leavers(dst []Item, l *Line, it Item, itself bool) []Item
	// Related is about guests in l, the image of it.Line, that have the same home and the same
	// overflow bits as it. It returns one of these guests, and their number.
	Related(l *Line, it Item) (guest Item, n int)
	// Absent returns, in the memory of dst, an item for each overflow bit that is set in a
	// line. Related finds the guests for which this bit is set.
	Absent(dst []Item, l *Line, line uint64) []Item

	// The overflow bits, which are set as long as an item needs them, and no longer.

	// SetOverflow records in l, the image of it.Line, that the item, or an equal one, is elsewhere. It
	// lists the words it has changed in s, as Table.Place does.
	SetOverflow(l *Line, it Item, s *Stores)
	// SameBits reports whether two fingerprints with the same home have the same overflow
	// bits.
	SameBits(a, b uint32) bool
	// ClearOverflow clears the overflow bits of an item in its home line. It lists the
	// words it has changed in s, as SetOverflow does. It needs no guard: the last item
	// that needed the bits has been deleted, or was brought home by a guarded Place.
	ClearOverflow(l *Line, home Item, s *Stores)
	// MakeBits computes the overflow bits of the lines [from, to) anew: it sets the bits
	// that guests and the stash need, and no other. It calls store for each word that
	// changes, by its number in the region.
	MakeBits(v *View, from, to uint64, store func(word, value uint64))
	// CheckBits looks in the lines [from, to) for a guest whose overflow bits are not set
	// at home. It returns the first such line and an error, or nil.
	CheckBits(region []uint64, from, to uint64) (line uint64, err error)

	// FillLines puts the items of sorted hashes into the lines [from, to) of a region, which are empty
	// and are the home lines of these items. If a line has more items than slots, some go to their other
	// lines, if these are in the range and have room beside their own items, or can make room. FillLines
	// appends the hashes of items for which it finds no room to left.
	FillLines(region []uint64, from, to uint64, hashes, left []uint64) []uint64
}

// An Absent says what a lookup of an absent key meets, in one line or on average in a table.
type Absent struct {
	Rate   float64 // probability that it finds a matching fingerprint: the false-positive rate
	Second float64 // probability that it reads a second line
}
