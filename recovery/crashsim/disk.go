package crashsim

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// errSync is the error of a sync that fails.
var errSync = errors.New("input/output error")

// A sparse is an array of words that is mostly zero. It is in one piece, since the library
// reads it so, but copyFrom copies only the grains of 512 bytes that were stored to.
type sparse struct {
	words []uint64
	used  []uint64 // bit g is clear: grain g is zero
	hash  uint64   // of the content: the sum of the terms of all words
}

const (
	grainShift = 6
	grainWords = 1 << grainShift
	pageWords  = 512
)

// resize sets the size of the array. Its content is then undefined, but zero if it was
// zero before.
func (m *sparse) resize(words int) {
	grains := (words/grainWords + 63) / 64
	if words > cap(m.words) {
		m.words, m.used, m.hash = make([]uint64, words), make([]uint64, grains), 0
		return
	}
	if words < len(m.words) {
		m.zero()
	}
	m.words, m.used = m.words[:words], m.used[:grains]
}

func (m *sparse) set(word, value uint64) {
	m.hash += term(word, value) - term(word, m.words[word])
	m.words[word] = value
	if value != 0 {
		m.used[word>>(grainShift+6)] |= 1 << (word >> grainShift & 63)
	}
}

func (m *sparse) zero() {
	for i, b := range m.used {
		for ; b != 0; b &= b - 1 {
			at := (i*64 + bits.TrailingZeros64(b)) * grainWords
			clear(m.words[at : at+grainWords])
		}
		m.used[i] = 0
	}
	m.hash = 0
}

func (m *sparse) copyFrom(o *sparse) {
	m.resize(len(o.words))
	for i, theirs := range o.used {
		for old := m.used[i] &^ theirs; old != 0; old &= old - 1 {
			at := (i*64 + bits.TrailingZeros64(old)) * grainWords
			clear(m.words[at : at+grainWords])
		}
		for b := theirs; b != 0; b &= b - 1 {
			at := (i*64 + bits.TrailingZeros64(b)) * grainWords
			*(*[grainWords]uint64)(m.words[at:]) = *(*[grainWords]uint64)(o.words[at:])
		}
		m.used[i] = theirs
	}
	m.hash = o.hash
}

// term is what a word adds to a hash.
func term(word, value uint64) uint64 {
	if value == 0 {
		return 0
	}
	return mix(value ^ word*0x9E3779B97F4A7C15)
}

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// A disk is a file in the page cache and on the disk. Each sector has the versions that
// were made since it was last clean: version 0 is what the disk has, and version i is the
// content after i stores.
type disk struct {
	cache, durable sparse
	shift          uint // from a word number to its sector number

	versions []versions // of each sector
	dirty    []uint32   // sectors that have versions, in the order in which they became dirty
	stores   []stored   // since the sectors were last clean, in order, without those of touched versions

	// Sectors that a failed sync has made clean although the cache differs from the
	// disk. lost is what the cache had then, before the first of stores.
	lost     []uint64 // allocated when a sync fails
	isLost   []loss
	lostList []uint32

	spare struct { // for split
		dirty  []uint32
		stores []stored
	}
}

type stored struct{ word, value uint64 }

// A loss says whether a failed sync has dropped the content of a sector, and whether its page may
// leave the cache: not before the process knows of the failure. If the process is killed before it
// knows, the page stays.
type loss uint8

const (
	notLost loss = iota
	justLost
	mayLeave
	stays
)

// versions says how many versions a sector has, not counting version 0. Most sectors become
// dirty by a store that changes nothing, since a recovery stores words again that the cache
// has. Then version 1 is marked as touched: it has the content that the cache had before, and
// stores does not have its store.
type versions uint32

const (
	touched    versions = 1
	oneVersion versions = 2
)

func (n versions) count() uint32 { return uint32(n / oneVersion) }

// init makes d a clean file of zeros.
func (d *disk) init(words int, shift uint) {
	if d.versions != nil {
		d.cleanAll()
		d.cache.zero()
		d.durable.zero()
	}
	d.cache.resize(words)
	d.durable.resize(words)
	if sectors := words >> shift; shift != d.shift || sectors > len(d.versions) {
		d.versions, d.isLost = make([]versions, sectors), make([]loss, sectors)
	}
	d.shift = shift
}

// sector returns the words of a sector.
func (d *disk) sector(words []uint64, s uint32) []uint64 {
	at := int(s) << d.shift
	return words[at:min(at+1<<d.shift, len(words))]
}

// setDurable gives a sector of the disk the content that words have.
func (d *disk) setDurable(s uint32, words []uint64) {
	for i, w := range d.sector(words, s) {
		d.durable.set(uint64(s)<<d.shift+uint64(i), w)
	}
}

// same reports whether a store would change nothing: the sector is dirty and has the value.
func (d *disk) same(word, value uint64) bool {
	return d.cache.words[word] == value && d.versions[word>>(d.shift&63)] != 0
}

// store changes a word of the cache. That makes a new version, unless it changes nothing.
func (d *disk) store(word, value uint64) {
	s, old := word>>(d.shift&63), d.cache.words[word]
	if d.versions[s] == 0 {
		d.dirty = append(d.dirty, uint32(s))
		if value == old {
			d.versions[s] = oneVersion | touched
			return
		}
	} else if value == old {
		return
	}
	d.versions[s] += oneVersion
	d.stores = append(d.stores, stored{word, value})
	d.cache.set(word, value)
}

// sync makes the sectors of some words durable.
func (d *disk) sync(word, words uint64) {
	d.split(word, words, d.syncAll)
}

// syncAll makes everything durable.
func (d *disk) syncAll() {
	if len(d.lostList) == 0 {
		for _, s := range d.stores {
			d.durable.set(s.word, s.value)
		}
	} else {
		for _, s := range d.dirty {
			d.setDurable(s, d.cache.words)
			d.isLost[s] = notLost
		}
		kept := d.lostList[:0]
		for _, s := range d.lostList {
			if d.isLost[s] != notLost {
				kept = append(kept, s)
			}
		}
		d.lostList = kept
	}
	d.allClean()
}

// split runs f while only the dirty sectors of some words are listed as dirty.
func (d *disk) split(word, words uint64, f func()) {
	first, last := uint32(word>>d.shift), uint32((word+words-1)>>d.shift)
	within := func(s uint32) bool { return first <= s && s <= last }
	if !slices.ContainsFunc(d.dirty, func(s uint32) bool { return !within(s) }) { // nothing else is dirty
		f()
		return
	}
	dirty, stores := d.dirty[:0], d.stores[:0]
	others, otherStores := d.spare.dirty[:0], d.spare.stores[:0]
	for _, s := range d.dirty {
		if within(s) {
			dirty = append(dirty, s)
		} else {
			others = append(others, s)
		}
	}
	for _, s := range d.stores {
		if within(uint32(s.word >> d.shift)) {
			stores = append(stores, s)
		} else {
			otherStores = append(otherStores, s)
		}
	}
	d.dirty, d.stores = dirty, stores
	f()
	d.dirty, d.stores = append(d.dirty[:0], others...), append(d.stores[:0], otherStores...)
	d.spare.dirty, d.spare.stores = others, otherStores
}

func (d *disk) allClean() {
	for _, s := range d.dirty {
		d.versions[s] = 0
	}
	d.dirty, d.stores = d.dirty[:0], d.stores[:0]
}

// cleanAll is allClean, but also forgets lost sectors.
func (d *disk) cleanAll() {
	d.allClean()
	for _, s := range d.lostList {
		d.isLost[s] = notLost
	}
	d.lostList = d.lostList[:0]
}

// failSync makes about half of the dirty sectors of some words durable, and drops the other half. Now
// and then it does so for all dirty sectors, as if the system had tried to write them by itself.
func (d *disk) failSync(word, words uint64, rng *rand.Rand) {
	if rng.IntN(4) == 0 {
		word, words = 0, uint64(len(d.cache.words))
	}
	d.split(word, words, func() { d.failAll(rng) })
}

func (d *disk) failAll(rng *rand.Rand) {
	coins := uint64(0)
	for i, s := range d.dirty {
		if i%64 == 0 {
			coins = rng.Uint64()
		}
		if coins>>(i%64)&1 == 0 {
			d.setDurable(s, d.cache.words)
			continue
		}
		d.lose(s, d.cache.words, justLost)
	}
	d.allClean()
}

// copyAs copies everything that survives kill -9. If the sectors get another size, all must be
// clean.
func (d *disk) copyAs(o *disk, shift uint) {
	d.resize(len(o.cache.words), shift)
	d.cleanAll()
	d.cache.copyFrom(&o.cache)
	d.durable.copyFrom(&o.durable)
	for _, s := range o.dirty {
		d.versions[s] = o.versions[s]
	}
	d.dirty = append(d.dirty, o.dirty...)
	d.stores = append(d.stores, o.stores...)
	for _, s := range o.lostList {
		d.lose(s, o.lost, o.isLost[s])
	}
}

// resize makes d an empty file if the size of the file or of its sectors changes.
func (d *disk) resize(words int, shift uint) {
	if len(d.cache.words) != words || d.shift != shift {
		d.init(words, shift)
	}
}

// lose notes that a sector is lost, with its content in words.
func (d *disk) lose(s uint32, words []uint64, how loss) {
	if len(d.lost) < len(d.cache.words) {
		d.lost = append(make([]uint64, 0, len(d.cache.words)), d.lost...)[:len(d.cache.words)]
	}
	copy(d.sector(d.lost, s), d.sector(words, s))
	if d.isLost[s] == notLost {
		d.lostList = append(d.lostList, s)
	}
	d.isLost[s] = how
}

// change changes the loss of sectors that are lost.
func (d *disk) change(from, to loss) {
	for _, s := range d.lostList {
		if d.isLost[s] == from {
			d.isLost[s] = to
		}
	}
}

// forget drops some of the clean pages that have lost sectors from the cache. It calls each for the
// words that thereby fall back to what the disk has. A page with a dirty sector stays.
func (d *disk) forget(rng *rand.Rand, each func(word uint64)) {
	page := func(s uint32) uint32 { return s << d.shift / pageWords }
	leaves := make(map[uint32]bool)
	for _, s := range d.lostList {
		leaves[page(s)] = rng.IntN(2) == 0
	}
	for _, s := range d.dirty {
		leaves[page(s)] = false
	}
	for _, s := range d.lostList {
		if d.isLost[s] != mayLeave {
			leaves[page(s)] = false
		}
	}
	kept := d.lostList[:0]
	for _, s := range d.lostList {
		if !leaves[page(s)] {
			kept = append(kept, s)
			continue
		}
		d.isLost[s] = notLost
		for i, w := range d.sector(d.durable.words, s) {
			if word := uint64(s)<<d.shift + uint64(i); d.cache.words[word] != w {
				d.cache.set(word, w)
				each(word)
			}
		}
	}
	d.lostList = kept
}

// loseFrom makes d what o is after a power loss. keep chooses the version that each dirty sector then
// has.
func (d *disk) loseFrom(o *disk, keep func(versions uint32) uint32) {
	d.resize(len(o.cache.words), o.shift)
	d.cleanAll()
	d.durable.copyFrom(&o.durable)
	left := d.versions // of each sector: how many of its next stores reach the disk
	for _, s := range o.dirty {
		n := keep(o.versions[s].count())
		if n != 0 && o.isLost[s] != notLost {
			d.setDurable(s, o.lost)
		}
		if n != 0 && o.versions[s]&touched != 0 {
			n--
		}
		left[s] = versions(n)
	}
	for _, st := range o.stores {
		if s := st.word >> d.shift; left[s] != 0 {
			left[s]--
			d.durable.set(st.word, st.value)
		}
	}
	d.cache.copyFrom(&d.durable)
}

// changing calls each for the dirty sectors of the words below end whose content differs
// from the disk.
func (d *disk) changing(end uint64, each func(sector uint32)) {
	for _, s := range d.dirty {
		if uint64(s)<<d.shift >= end {
			continue
		}
		now, disk := d.sector(d.cache.words, s), d.sector(d.durable.words, s)
		for i := range now {
			if now[i] != disk[i] {
				each(s)
				break
			}
		}
	}
}

// trash fills a sector with noise, in the cache and on the disk.
func (d *disk) trash(sector uint32, rng *rand.Rand) {
	for i := range d.sector(d.cache.words, sector) {
		word := uint64(sector)<<d.shift + uint64(i)
		v := rng.Uint64()
		d.cache.set(word, v)
		d.durable.set(word, v)
	}
}
