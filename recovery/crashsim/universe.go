package crashsim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all" // the explorer uses all layouts
	"github.com/mmapfilter/mmapfilter/layout/multiset"
)

// A key is a hash and what the table derives from it.
type key struct {
	hash  uint64
	home  layout.Item
	lines uint64 // bit i: whether its item may be in line i
	place multiset.Place
}

// A Universe is a few keys and a filter with some items. It is the same for every trace on
// it.
type Universe struct {
	Number   int
	geometry layout.Geometry
	table    layout.Table
	keys     []key              // keys of traces
	fillers  []key              // in the filter, once each; no trace touches them
	script   []Op               // operations that traces repeat, besides others; may be nil
	static   *multiset.Multiset // the fillers; its first classes are the classes of keys
	mine     int                // number of classes of keys
	keysOf   [][]int            // numbers of the keys of each class

	linesOf []uint64 // for each word of the region: bit i is set if line i has bits in this word

	base  *Volume // clean files
	start Point   // the content of base
	sum   uint64  // of the fillers: see Volume.sumOf
	keeps bool    // the filter keeps its hashes
}

var sectorSizes = [4]int{8, 64, 512, 4096}

// sectorShift is Volume.shift for one of sectorSizes.
func sectorShift(number int) uint { return uint(3 * number) }

// A shape describes a universe.
type shape struct {
	kind    layout.Kind
	lines   uint64
	params  layout.Params
	classes int                               // number of classes of the keys of traces
	twins   int                               // most keys of a class with the same home line
	free    int                               // slots that fillers leave free; if negative, fillers exceed the slots by -free, or fill the stash
	present int                               // number of fillers that traces use
	twinned bool                              // traces insert and delete twins whose home line is the other line of an item
	sealed  bool                              // the file that a trace finds is sealed
	keep    bool                              // the filter keeps its hashes
	must    bool                              // operations fail rather than lose hashes
	page    bool                              // the kept hashes nearly fill a page: see fillPage
	addKeys func(u *Universe, rng *rand.Rand) // adds keys of traces; may be nil
	tidy    bool                              // fillers leave their home line only if no slot is free, so few overflow bits are set
}

const stashFull = -layout.StashEntries

func randomItem(t layout.Table, rng *rand.Rand) layout.Item {
	return layout.Item{Line: rng.Uint64N(t.Lines()), Fp: 1 + uint32(rng.Uint64N(t.Params().Fingerprints()-1))}
}

// universes is the number of universes that random traces use.
const (
	compactUniverses = 96
	sharedUniverses  = 72 // the last universes have layouts whose lines share words
	universes        = compactUniverses + sharedUniverses
)

// randomShape returns the shape of a universe. The filters are so small and so full that
// most inserts move items, overflow, or end in the stash.
func randomShape(number int, rng *rand.Rand) shape {
	params := []layout.Params{
		{Quotients: 25, RemainderBits: 26}, {Quotients: 38, RemainderBits: 16}, {Quotients: 41, RemainderBits: 7},
	}
	s := shape{
		kind:    layout.Compact,
		lines:   []uint64{1, 2, 3, 4, 2, 3, 4, 4}[number%8],
		params:  params[min(rng.IntN(5)/2, 2)],
		classes: 2 + rng.IntN(4),
		twins:   1 + rng.IntN(3),
		free:    []int{-4, 0, 1, 2, 4, -8}[number/8%6],
		present: 3 + rng.IntN(6),
		tidy:    rng.IntN(2) == 0,
		sealed:  rng.IntN(4) == 0,
		keep:    number%3 == 0,
		must:    number%6 == 0,
		page:    number%12 == 6 || number%12 == 9,
	}
	switch {
	case number%12 == 11:
		s.lines, s.params, s.free = 1+rng.Uint64N(2), params[0], stashFull
	case number%12 == 8:
		s.free = 1000 // an empty filter
	case number%12 == 7:
		s.lines, s.free, s.tidy, s.twinned = 2+rng.Uint64N(2), -6, true, true
	}
	if number >= compactUniverses {
		s.share(number, rng)
	}
	return s
}

// share changes a shape to a layout whose lines share words, and adds lines: so many that
// some span two words, and one spans two blocks of 64 bytes.
func (s *shape) share(number int, rng *rand.Rand) {
	s.kind = []layout.Kind{layout.SemiSorted, layout.Packed}[number%2]
	var params []layout.Params
	if s.kind == layout.Packed {
		params = []layout.Params{
			{FingerprintBits: 30, BucketSize: 4}, {FingerprintBits: 31, BucketSize: 2}, {FingerprintBits: 17, BucketSize: 8}, {FingerprintBits: 29, BucketSize: 1},
		}
	} else {
		params = []layout.Params{
			{FingerprintBits: 32, BucketSize: 4}, {FingerprintBits: 25, BucketSize: 4}, {FingerprintBits: 18, BucketSize: 4},
		}
	}
	s.params = params[rng.IntN(len(params))]
	block := uint64(8 * layout.LineBytes / layout.LineBits(s.kind, s.params))
	s.lines += block
}

// newUniverse creates a universe of a shape, with the filter under test.
func newUniverse(sys *System, number int, s shape, rng *rand.Rand) (*Universe, error) {
	g, err := layout.NewGeometry(s.kind, s.params, s.lines)
	if err != nil {
		return nil, err
	}
	u := &Universe{Number: number}
	u.bind(g)
	for range s.classes {
		u.addTwins(randomItem(u.table, rng), s.twins, rng)
	}
	if s.addKeys != nil {
		s.addKeys(u, rng)
	}
	if err := u.fill(sys, s, rng); err != nil {
		return nil, fmt.Errorf("universe %d: %w", number, err)
	}
	return u, nil
}

// bind sets the table of the universe.
func (u *Universe) bind(g layout.Geometry) {
	u.geometry, u.table = g, layout.NewTable(g)
	u.linesOf = make([]uint64, g.RegionBytes/8)
	for line := range g.Lines {
		first, n := u.table.Words(line)
		for i := range uint64(n) {
			u.linesOf[first+i] |= 1 << line
		}
	}
}

// addTwins adds keys of the class of an item: some whose home line is the line of the item and,
// if the item has two lines, some whose home line is the other one; in any bucket of the class.
func (u *Universe) addTwins(it layout.Item, twins int, rng *rand.Rand) {
	c := u.table.Class(it)
	seen := []layout.Item{it}
	if other := u.table.Alternate(it); other != it {
		seen = append(seen, other)
	}
	for i, from := range seen {
		n := 1 + rng.IntN(twins)
		if i == 1 {
			n = rng.IntN(twins + 1)
		}
		for salt := range n {
			it := from
			for b := range uint32(8) {
				it.Bucket = b
				if b != from.Bucket && salt%2 == 1 && u.table.Class(it) == c {
					break
				}
				it.Bucket = from.Bucket
			}
			if len(u.keys) < maxKeys {
				u.addKey(it, uint64(salt))
			}
		}
	}
}

// addKey adds a key that has this item.
func (u *Universe) addKey(it layout.Item, salt uint64) { u.keys = append(u.keys, u.keyOf(it, salt)) }

// keyOf returns a key that has this item. Keys with different salts are different.
func (u *Universe) keyOf(it layout.Item, salt uint64) key {
	return u.newKey(multiset.HashOf(u.table, it) + salt)
}

func (u *Universe) newKey(hash uint64) key {
	k := key{hash: hash, home: u.table.Split(hash)}
	k.lines = 1<<k.home.Line | 1<<u.table.Alternate(k.home).Line
	return k
}

// fill creates the filter that every trace starts with.
func (u *Universe) fill(sys *System, s shape, rng *rand.Rand) error {
	u.keeps = s.keep
	v := NewVolume(u.geometry, uint64(u.Number)+1, 4096, s.keep, nil)
	v.RequireHashes = s.must
	w, _, err := sys.Open(v)
	if err != nil {
		return err
	}
	if s.page {
		if err := u.fillPage(w, s); err != nil {
			return err
		}
	}
	if err := u.insertFillers(w, s, rng); err != nil {
		return err
	}
	if err := w.Sync(true, 0); err != nil {
		return err
	}
	if s.sealed {
		if err := w.Seal(); err != nil {
			return err
		}
	}
	if err := w.Clean(); err != nil {
		return err
	}
	// Traces may use a few of the fillers, and twins of these fillers.
	for i := range s.present {
		n := len(u.fillers)
		if n == 0 || len(u.keys)+2 > maxKeys {
			break
		}
		j := rng.IntN(n)
		k := u.fillers[j]
		u.start.Counts[len(u.keys)] = 1
		u.keys = append(u.keys, k)
		u.fillers[j] = u.fillers[n-1]
		u.fillers = u.fillers[:n-1]
		if i%2 == 0 || s.twinned {
			if twin := len(u.keys); s.twinned {
				u.script = append(u.script, Op{Insert, twin}, Op{Kind: Sync}, Op{Delete, twin})
			}
			u.addKey(u.table.Alternate(k.home), 50)
		}
	}
	u.findClasses()
	_, r, err := sys.Open(v)
	if err != nil {
		return err
	}
	u.start.LSN, u.start.UserSeq, u.start.OpMin = r.LSN, r.UserSeq, r.Operations
	u.start.Meant, u.start.Kept = u.start.Counts, w.History()
	u.start.OpMax, u.start.Length = r.Operations, r.Length
	u.start.Image = append([]uint64(nil), u.image(v)...)
	v.forgetLogs()
	u.base = v
	return nil
}

// fillPage inserts and deletes a key again and again. After the inserts of the fillers, a page of the
// tail of the kept hashes has room for a few more operations, so many traces fill it.
func (u *Universe) fillPage(w Writer, s shape) error {
	const entries = 478 // on a page
	room := 2 + u.Number/3%10
	n := entries - room - (int(u.geometry.Slots()) - s.free) // without the fillers
	h := u.keyOf(layout.Item{Fp: 1}, 0).hash
	for range n / 2 {
		if err := w.Insert(h); err != nil {
			return err
		}
		if _, err := w.Delete(h); err != nil {
			return err
		}
	}
	return nil
}

// insertFillers inserts the keys of the universe, and fillers until no more are wanted.
func (u *Universe) insertFillers(w Writer, s shape, rng *rand.Rand) error {
	want := int(u.geometry.Slots()) - s.free
	if s.free == stashFull {
		want = 1 << 20
	}
	lines, stash := make([]layout.Line, u.table.Lines()), make([]uint64, layout.StashWords)
	for salt := uint64(100); len(u.fillers) < want; salt++ {
		k := u.keyOf(randomItem(u.table, rng), salt%1000)
		if s.tidy && len(u.fillers) < int(u.geometry.Slots()) && !u.table.Place(&lines[k.home.Line], k.home, nil) {
			continue
		}
		if err := w.Insert(k.hash); err != nil {
			return err
		}
		u.fillers = append(u.fillers, k)
		if s.free == stashFull && stashLen(w, stash) >= layout.StashEntries-2 {
			break
		}
	}
	return nil
}

// stashLen returns the number of stash entries in use. stash is a buffer for all of them.
func stashLen(w Writer, stash []uint64) int {
	w.Newest(layout.WordStash, stash)
	return layout.StashLen(stash)
}

func (u *Universe) findClasses() {
	u.static = multiset.New(u.table)
	for i := range u.keys {
		k := &u.keys[i]
		k.place = u.static.Locate(k.hash)
		if k.place.Class == len(u.keysOf) {
			u.keysOf = append(u.keysOf, nil)
		}
		u.keysOf[k.place.Class] = append(u.keysOf[k.place.Class], i)
	}
	u.mine = u.static.Classes()
	for i := range u.fillers {
		k := &u.fillers[i]
		k.place = u.static.Locate(k.hash)
		u.static.AddAt(k.place, 1)
		u.sum += mix(k.hash)
	}
}

// image returns the words of a volume that the oracles compare: stash and region.
func (u *Universe) image(v *Volume) []uint64 { return u.imageOf(v.filter.cache.words) }

func (u *Universe) imageOf(words []uint64) []uint64 {
	return words[layout.WordStash : layout.WordRegion+u.geometry.RegionBytes/8]
}

func (u *Universe) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "universe %d: %s, %d lines, %v, %d items in %d slots; keys:\n",
		u.Number, u.table.Kind(), u.table.Lines(), u.table.Params(), u.start.Length, u.geometry.Slots())
	for i := range u.keys {
		k := &u.keys[i]
		fmt.Fprintf(&b, "  %2d: home line %d, alternate %d, bucket %d, fingerprint %d, class %d, %d in the filter\n",
			i, k.home.Line, u.table.Alternate(k.home).Line, k.home.Bucket, k.home.Fp, k.place.Class, u.start.Counts[i])
	}
	return b.String()
}
