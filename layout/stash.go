package layout

import (
	"math/bits"
	"sync/atomic"
)

// The stash holds items that found no slot in their lines: 768 entries of 16 bytes, in
// 192 groups of one cache line. The class of an item determines the group in which the
// search for its entry starts. A new entry whose group is full goes to a later group, and
// each group on the way there is marked. After a marked group, a search goes on to the
// next group. So every entry can be used, and a lookup reads one cache line unless the
// stash is nearly full. A mark is cleared when no search needs it any more.
const (
	StashEntries    = StashBytes / stashEntryBytes // 768
	stashEntryBytes = 16
	stashGroups     = StashBytes / LineBytes // 192
	groupWords      = LineBytes / 8
	maxStashCount   = 1<<32 - 1
	stashLineBits   = 56
	groupMark       = 1 << 63 // in word 0 of the first entry of a group
)

func (c Class) word0() uint64 { return c.Line | uint64(c.Bucket)<<stashLineBits }

// firstGroup returns the first word of the group in which the search for a class
// starts.
func (c Class) firstGroup() uint64 {
	g, _ := bits.Mul64((c.word0()^uint64(c.Fp)*MixSecond)*MixFirst, stashGroups)
	return g * groupWords
}

// StashCount returns the number of items of a class in the stash.
func StashCount(stash []uint64, c Class) uint64 {
	if !mayStash(stash, c) {
		return 0
	}
	return StashCountAt(func(word uint64) uint64 { return loadWord(stash, word-WordStash) }, c)
}

// StashCountAt is StashCount for words, numbered as in a file, that come from anywhere.
func StashCountAt(at func(word uint64) uint64, c Class) uint64 {
	if i, ok := stashEntry(at, c); ok {
		return at(i+1) & maxStashCount
	}
	return 0
}

// mayStash reports whether the stash may have an entry of a class: whether the group in
// which the search starts has an entry or a mark.
func mayStash(stash []uint64, c Class) bool {
	group := (*[groupWords]uint64)(stash[c.firstGroup():])
	used := atomic.LoadUint64(&group[0]) & groupMark
	for i := 1; i < groupWords; i += 2 {
		used |= atomic.LoadUint64(&group[i])
	}
	return used != 0
}

// stashEntry returns the first word of the entry of a class, as a word of the file.
func stashEntry(at func(word uint64) uint64, c Class) (word uint64, ok bool) {
	key := c.word0()
	group := c.firstGroup()
	for range stashGroups {
		first := WordStash + group
		for i := first; i < first+groupWords; i += 2 {
			if w1 := at(i + 1); w1>>32 == uint64(c.Fp) && w1&maxStashCount != 0 && at(i)&^groupMark == key {
				return i, true
			}
		}
		if at(first)&groupMark == 0 {
			break
		}
		group = nextGroup(group)
	}
	return 0, false
}

func nextGroup(group uint64) uint64 { return (group + groupWords) % StashWords }

// MaxCrowded limits the number of stash entries that a table is expected to need at its
// design load. The other entries are for chance and for later keys.
const MaxCrowded = StashEntries / 8

// A StashStore stores one word of the stash. guarded says whether the store removes
// something that a lookup may be looking for.
type StashStore func(word, value uint64, guarded bool)

// StashAdd adds an item of a class to the stash. It calls store word by word, in an order
// in which no lookup misses an item. Words are numbered as in the file. It reports false
// and stores nothing if the class has no entry and none is free, or if the count of its
// entry is at its maximum.
//
// A lookup finds the item afterwards, whatever the stash holds. In a stash that
// CheckStash accepts, the count rises by one; in a damaged one, a new mark may reveal
// another entry of the class, whose count then applies.
func StashAdd(stash []uint64, c Class, store StashStore) bool {
	at := func(word uint64) uint64 { return stash[word-WordStash] }
	if i, ok := stashEntry(at, c); ok {
		count := at(i + 1)
		if count&maxStashCount == maxStashCount {
			return false
		}
		store(i+1, count+1, false)
		return true
	}
	first := c.firstGroup()
	group := first
	for range stashGroups {
		if i, ok := freeEntry(stash, group); ok {
			for g := first; g != group; g = nextGroup(g) {
				if stash[g]&groupMark == 0 {
					store(WordStash+g, stash[g]|groupMark, false)
				}
			}
			store(WordStash+i, stash[i]&groupMark|c.word0(), false)
			store(WordStash+i+1, uint64(c.Fp)<<32|1, false)
			return true
		}
		group = nextGroup(group)
	}
	return false
}

// MaxStashStores bounds the stores of one StashAdd or StashRemove: the mark of every
// group and the two words of an entry.
const MaxStashStores = stashGroups + 2

// StashRemove removes an item of a class from the stash. Removing the last item of the
// class frees the entry. If there is no item, it reports false and stores nothing.
func StashRemove(stash []uint64, c Class, store StashStore) bool {
	at := func(word uint64) uint64 { return stash[word-WordStash] }
	i, ok := stashEntry(at, c)
	if !ok {
		return false
	}
	count := at(i + 1)
	if count&maxStashCount > 1 {
		store(i+1, count-1, true)
		return true
	}
	store(i+1, 0, true) // without its count, the entry is free
	store(i, at(i)&groupMark, true)
	clearMarks(stash, c, i-WordStash, store)
	return true
}

// clearMarks clears the marks on the way to the entry of a class that has just been freed,
// except the marks that the search for another entry needs.
func clearMarks(stash []uint64, c Class, freed uint64, store StashStore) {
	first, end := c.firstGroup(), freed/groupWords*groupWords
	if first == end {
		return
	}
	var needed [stashGroups]bool // a search goes on past the group
	for i := uint64(0); i < StashWords; i += 2 {
		if stash[i+1] == 0 || i == freed {
			continue
		}
		g := entryClass(stash[i]&^groupMark, stash[i+1]).firstGroup()
		for ; g != i/groupWords*groupWords; g = nextGroup(g) {
			needed[g/groupWords] = true
		}
	}
	for g := first; g != end; g = nextGroup(g) {
		if stash[g]&groupMark != 0 && !needed[g/groupWords] {
			store(WordStash+g, stash[g]&^groupMark, false)
		}
	}
}

// StashFree returns the value of word 0 of an entry after the entry is freed: the mark
// stays. word is the number of the word in the file, and value its value before.
func StashFree(word, value uint64) uint64 {
	if (word-WordStash)%groupWords != 0 {
		return 0 // only the first entry of a group has a mark
	}
	return value & groupMark
}

// Classes tells the stash which items share an entry.
type Classes interface {
	Lines() uint64 // n, the number of lines
	// Legal reports whether a table can have items with this bucket and fingerprint. It
	// does not check the line.
	Legal(it Item) bool
	// Class returns the class of the item. It is equal for all items that have the same
	// lines, the same buckets and the same fingerprint.
	Class(it Item) Class
}

// Stashed reports whether the stash holds an item of a class: whether the table can have
// such an item, and a lookup finds its entry. A damaged stash may have entries that no
// lookup finds, and entries for lines that do not exist.
func Stashed(t Classes, stash []uint64, c Class) bool { return c.isOf(t) && StashCount(stash, c) != 0 }

// isOf reports whether a table can have items of a class.
func (c Class) isOf(t Classes) bool {
	it := Item(c)
	return c.Line < t.Lines() && t.Legal(it) && t.Class(it) == c
}

// StashClasses calls each for every class that has an entry, even in a damaged stash.
func StashClasses(stash []uint64, each func(c Class, items uint64)) {
	for i := 0; i < len(stash); i += 2 {
		if w0, w1 := stash[i]&^groupMark, stash[i+1]; w1 != 0 {
			each(entryClass(w0, w1), w1&maxStashCount)
		}
	}
}

func entryClass(w0, w1 uint64) Class {
	return Class{Line: w0 & (1<<stashLineBits - 1), Bucket: uint32(w0 >> stashLineBits), Fp: uint32(w1 >> 32)}
}

// freeEntry finds the first free entry of a group.
func freeEntry(stash []uint64, group uint64) (word uint64, ok bool) {
	for i := group; i < group+groupWords; i += 2 {
		if stash[i+1] == 0 {
			return i, true
		}
	}
	return 0, false
}

// StashUse returns how many entries are in use, and how many items they count.
func StashUse(stash []uint64) (entries int, items uint64) {
	for i := 1; i < len(stash); i += 2 {
		if stash[i] != 0 {
			entries++
			items += stash[i] & maxStashCount
		}
	}
	return entries, items
}

// StashLen returns the number of entries in use.
func StashLen(stash []uint64) int {
	entries, _ := StashUse(stash)
	return entries
}
