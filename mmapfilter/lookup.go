package mmapfilter

import (
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Hash returns the hash of key: 64-bit XXH3 with the seed of the file. Pass it to
// [Filter.ContainsHash] and the other methods that take a hash. The shards of a set have one seed,
// so a hash is the same in all of them.
func (f *Filter) Hash(key []byte) uint64 { return f.hash.Hash(key) }

// Contains reports whether key may be in the filter. False is certain. True is wrong for a small
// share of absent keys (see [Stats.EstimatedRate]), and is the answer whenever the filter cannot
// know, such as after [Filter.Close] (C1). Contains takes no lock, does not allocate and reads one
// line of the file for most keys (rule R1).
func (f *Filter) Contains(key []byte) bool {
	// Usually assembly answers (layout.Direct). It calls openFile.contains for lookups that it
	// leaves open.
	return f.direct.Load().Contains(key)
}

// ContainsString is Contains for a key in a string.
func (f *Filter) ContainsString(key string) bool {
	return f.ContainsHash(f.hash.HashString(key))
}

// ContainsHash is Contains for a key whose [Filter.Hash] is known. Any other number must be as random as
// a hash: the top bits choose the line, and the bits below them make the fingerprint.
func (f *Filter) ContainsHash(hash uint64) bool { return f.direct.Load().ContainsHash(hash) }

// contains answers the lookups that a Direct leaves to Go: those that assembly leaves open, and all
// lookups if the file is open for writing or Checked.
func (o *openFile) contains(hash uint64) bool {
	found := true
	if o.checked {
		o.catch(func() { found = o.lookUp(hash) })
	} else {
		found = o.lookUp(hash)
	}
	runtime.KeepAlive(o) // keeps the file mapped until here
	return found
}

// lookUp looks where the newest state is: in the file, or in the writer if this process has one,
// since operations may be pending.
func (o *openFile) lookUp(hash uint64) bool {
	if o.work != nil {
		return o.work.Writer.Contains(hash) || o.work.Writer.Unsure()
	}
	if o.lines != nil {
		return o.lines.contains(hash)
	}
	found := layout.Contains(o.looks, &o.view, hash)
	if found {
		o.notice()
	}
	return found
}

// ContainsBatch sets found[i] to whether keys[i] may be in the filter, as Contains reports it.
// It is faster than calling Contains for each key, since it fetches the lines of many keys from memory
// at once. It panics, before it answers for any key, if the capacity of found is less than len(keys).
func (f *Filter) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	o := f.open.Load() // load once: one file must answer the whole batch, also if the filter is closed meanwhile
	part := hashParts.Get().(*hashPart)
	defer hashParts.Put(part)
	hashes := o.part(part, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), len(hashes))
		for i, key := range keys[:n] {
			hashes[i] = f.hash.Hash(key)
		}
		f.containsHashes(o, hashes[:n], found[:n])
		keys, found = keys[n:], found[n:]
	}
}

// ContainsHashes is ContainsBatch for keys whose [Filter.Hash] is known.
func (f *Filter) ContainsHashes(hashes []uint64, found []bool) {
	f.containsHashes(f.open.Load(), hashes, found[:len(hashes)])
}

// containsHashes is ContainsHashes in the file of o. o is nil if there is no file.
func (f *Filter) containsHashes(o *openFile, hashes []uint64, found []bool) {
	if f.shard.Count == 0 || o == nil || o.unknown() {
		o.containsAll(hashes, found)
		return
	}
	part := hashParts.Get().(*hashPart)
	defer hashParts.Put(part)
	own := o.part(part, len(hashes))
	for len(hashes) > 0 {
		n := min(len(hashes), len(own))
		for i, h := range hashes[:n] {
			own[i], _ = f.shard.Own(h)
		}
		o.containsAll(own[:n], found[:n])
		for i, h := range hashes[:n] {
			_, ok := f.shard.Own(h)
			found[i] = found[i] && ok
		}
		hashes, found = hashes[n:], found[n:]
	}
}

// A hashPart is the memory for the hashes of a part of a batch.
type hashPart [layout.LookupPart]uint64

// part returns memory for the hashes of one part of a batch of n keys. In a filter from a reader, the
// whole batch is one part, so that as many lines as possible are read together.
func (o *openFile) part(part *hashPart, n int) []uint64 {
	if o != nil && o.lines != nil && n > len(part) {
		return make([]uint64, n)
	}
	return part[:]
}

var hashParts = sync.Pool{New: func() any { return new(hashPart) }}

// containsAll is contains for a batch of hashes, in the form that this file uses.
func (o *openFile) containsAll(hashes []uint64, found []bool) {
	switch {
	case o == nil || o.unknown():
		sayMaybe(found)
		return
	case !o.checked:
		o.lookUpAll(hashes, found)
	case o.catch(func() { o.lookUpAll(hashes, found) }):
		for i, h := range hashes { // one of the lookups faults; the other keys still get right answers
			found[i] = o.contains(h)
		}
	}
	runtime.KeepAlive(o)
}

// lookUpAll is lookUp for a batch.
func (o *openFile) lookUpAll(hashes []uint64, found []bool) {
	if o.work != nil {
		o.work.Writer.ContainsAll(hashes, found)
		return
	}
	if o.lines != nil {
		o.lines.containsAll(hashes, found)
		return
	}
	layout.ContainsHashes(o.looks, &o.view, hashes, found)
	o.notice()
}

// unknown reports whether the filter cannot tell which keys it has (C1).
func (o *openFile) unknown() bool {
	return o.unrecovered || o.work != nil && o.work.Writer.Unsure() || o.lines != nil && o.lines.replaced.Load()
}

// notice makes the follower of the file look at its path at once, if another file has taken the
// place of this one (R6). Lookups that answer "maybe" call it. A file that becomes superseded
// wakes the follower once.
func (o *openFile) notice() {
	if o.wake != nil && o.view.At(layout.WordRuntime+layout.RuntimeEpoch) == layout.Superseded && !o.told.Load() && o.told.CompareAndSwap(false, true) {
		select {
		case o.wake <- struct{}{}:
		default: // it is about to look
		}
	}
}

// sayMaybe answers "maybe" for a whole batch (C1).
func sayMaybe(found []bool) {
	for i := range found {
		found[i] = true
	}
}

// catch runs a lookup, keeps the error if it faults, and reports whether it did.
func (o *openFile) catch(lookup func()) (faulted bool) {
	if o.data == nil {
		lookup()
		return false
	}
	fault := osfile.Catch(o.data, lookup)
	if fault == nil {
		return false
	}
	o.fault.CompareAndSwap(nil, build.Damage(o.geometry, fault))
	return true
}
