package layout

import "math/bits"

// The stash holds what found no slot in its lines: 768 entries of 16 bytes,
// in 192 groups of one cache line each. An item may stand in either of two
// groups, so that a lookup which gets here reads two lines, however full the
// stash is. (One list of entries would be 192 lines to read.)
const (
	StashEntries    = StashBytes / stashEntryBytes // 768
	stashEntryBytes = 16
	stashGroups     = StashBytes / LineBytes // 192
	groupWords      = LineBytes / 8
	maxStashCount   = 1<<32 - 1
	stashLineBits   = 56
)

// A Class names all items that have the same lines, the same buckets and the
// same fingerprint: a table cannot tell them apart. It is the key of a stash
// entry, whose two words are
//
//	word 0   bits 0-55 the lower of the two lines, 56-63 the lower of the two buckets
//	word 1   bits 0-31 the number of items, 32-63 the fingerprint
//
// and zero both where the entry is free.
type Class struct {
	Line   uint64 // the lower of the two lines
	Bucket uint32 // the lower of the two buckets
	Fp     uint32
}

func (c Class) word0() uint64 { return c.Line | uint64(c.Bucket)<<stashLineBits }

// groups gives the first words of the two groups of a class.
func (c Class) groups() (a, b uint64) {
	x := (c.word0() ^ uint64(c.Fp)*mixSecond) * mixFirst
	a, _ = bits.Mul64(x, stashGroups)
	step, _ := bits.Mul64(bits.RotateLeft64(x, 32), stashGroups-1)
	b = a + 1 + step // 1 to 191 groups further, so never the same group
	if b >= stashGroups {
		b -= stashGroups
	}
	return a * groupWords, b * groupWords
}

// StashCount gives the number of items of a class in the stash.
func StashCount(stash []uint64, c Class) uint64 {
	if i, ok := stashEntry(stash, c); ok {
		return loadWord(stash, i+1) & maxStashCount
	}
	return 0
}

// stashEntry finds the first word of the entry of a class.
func stashEntry(stash []uint64, c Class) (word uint64, ok bool) {
	a, b := c.groups()
	key := c.word0()
	for _, g := range [2]uint64{a, b} {
		for i := g; i < g+groupWords; i += 2 {
			if w1 := loadWord(stash, i+1); w1>>32 == uint64(c.Fp) && w1 != 0 && loadWord(stash, i) == key {
				return i, true
			}
		}
	}
	return 0, false
}

// StashAdd counts one more item of a class, in the emptier of its groups if
// it has no entry yet. It reports false, and changes nothing, when both groups
// are full or the count is.
func StashAdd(stash []uint64, c Class) bool {
	if i, ok := stashEntry(stash, c); ok {
		if stash[i+1]&maxStashCount == maxStashCount {
			return false
		}
		stash[i+1]++
		return true
	}
	a, b := c.groups()
	freeA, nA := freeEntry(stash, a)
	freeB, nB := freeEntry(stash, b)
	if nA+nB == 0 {
		return false
	}
	i := freeA
	if nB > nA {
		i = freeB
	}
	stash[i] = c.word0()
	stash[i+1] = uint64(c.Fp)<<32 | 1
	return true
}

// freeEntry finds the first free entry of a group, and counts them.
func freeEntry(stash []uint64, group uint64) (first uint64, n int) {
	for i := group; i < group+groupWords; i += 2 {
		if stash[i+1] == 0 {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	return first, n
}

// CheckStash holds every entry against F12 and counts the entries in use and
// their items. region gives the lines the entries belong to.
func CheckStash(t Table, v *View) (entries int, items uint64, err error) {
	var l Line
	for i := 0; i < len(v.Stash); i += 2 {
		w0, w1 := v.Stash[i], v.Stash[i+1]
		if w0|w1 == 0 {
			continue
		}
		bad := func(what string) error {
			return corrupt(RegionStash, OffStash+int64(i)*8, "F12: entry %d: %s", i/2, what)
		}
		c := Class{Line: w0 & (1<<stashLineBits - 1), Bucket: uint32(w0 >> stashLineBits), Fp: uint32(w1 >> 32)}
		if w1&maxStashCount == 0 {
			return entries, items, bad("count 0")
		}
		it := Item{Line: c.Line, Bucket: c.Bucket, Fp: c.Fp}
		if c.Line >= t.Lines() || !t.Legal(it) || t.Class(it) != c {
			return entries, items, bad("no item has this line, bucket and fingerprint")
		}
		if j, ok := stashEntry(v.Stash, c); !ok || j != uint64(i) {
			return entries, items, bad("not where a lookup finds it")
		}
		t.Load(v.Region, it.Line, &l)
		marked := t.Overflowed(&l, it)
		other := t.Alternate(it)
		t.Load(v.Region, other.Line, &l)
		if !marked && !t.Overflowed(&l, other) {
			return entries, items, bad("no overflow bits lead to it")
		}
		entries++
		items += w1 & maxStashCount
	}
	return entries, items, nil
}

// StashLen counts the entries in use.
func StashLen(stash []uint64) (n int) {
	for i := 1; i < len(stash); i += 2 {
		if stash[i] != 0 {
			n++
		}
	}
	return n
}
