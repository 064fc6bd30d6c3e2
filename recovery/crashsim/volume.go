package crashsim

import (
	"io/fs"
	"math/rand/v2"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// An Event is a moment after which a crash can come.
type Event uint8

const (
	StoreSame    Event = iota // a store that changed nothing, to a sector that was dirty
	StoreHead                 // a store to a superblock
	StoreLog                  // a store to a log, or to a file of hashes
	StoreVisible              // a store to a place that readers read: runtime page, stash, region
	SyncBegins                // a sync of a file or of the directory begins
	SyncEnds                  // the sync ends, successfully or not
	NameChanges               // a name in the directory changes
	eventKinds
)

// noFile stands for the number of the file if no file has a name.
const noFile = -1

// A Volume is a [recovery.Volume] that can crash. It is not safe for concurrent use.
type Volume struct {
	files
	filter *disk   // the filter file that has the name of the filter
	disks  [2]disk // filter files
	had    [2]bool // which filter files have lost the name; readers may still have them open
	logs   []*log  // logs and files of hashes
	dir    directory
	clock  uint64
	shift  uint

	// FailOdds, if not 0, makes one sync in FailOdds fail, at random.
	FailOdds int
	// FailHashes, if not 0, makes one in FailHashes calls that write hashes fail, at random.
	FailHashes int
	// FailAt, if not 0, makes one sync fail: the sync with this number, counted from 1.
	FailAt int
	syncs  int
	// Failed counts the syncs and other calls that have failed.
	Failed int
	// RequireHashes makes operations fail if their hashes cannot be kept.
	RequireHashes bool
	// NoRoom refuses every larger log: every log that would replace the log that is in use.
	NoRoom bool
	// Refused counts the logs that were refused.
	Refused int

	source rand.PCG // randomness of the device
	rng    *rand.Rand

	// hook is called after the event whose number is next, and after an event that brings
	// the count of its kind in left down to 0.
	hook   func(Event)
	events int
	next   int
	left   [eventKinds]int
	// during, if not nil, is called while a file is being synced.
	during func()
	muted  bool        // no events
	each   func(Event) // is called after each event, if not nil
	// patched, if not 0, is 1 plus the number of a slot in which a superblock was stored over
	// another one that the disk may have half written, with its checksum (O7).
	patched int
	// fell is set once a page with superblocks has fallen back to what the disk has (see forget). fallen
	// has the checksums of the superblocks that it had before.
	fell   bool
	fallen [layout.SuperblockSlots]uint64
	// watch, if not nil, is called after each store that readers can see.
	watch func(word, value uint64)
}

const superblockWords = layout.SuperblockBytes / 8

// checkSlot checks the disk when a new checksum is stored to a slot.
func (v *Volume) checkSlot(d *disk, slot int, checksum uint64) {
	last := (slot+1)*superblockWords - 1
	if checksum == 0 || checksum == d.cache.words[last] || checksum == v.fallen[slot] || d.durable.words[last] == 0 {
		return // what is stored again can only complete itself
	}
	if layout.SlotGeneration(recovery.Bytes(d.durable.words[:layout.OffRuntime/8]), slot) == 0 {
		v.patched = slot + 1
	}
}

// A log is a file that is or was a log, or a file of hashes.
type log struct {
	disk
	volume *Volume
	open   bool
	// size, in words, is 0 if the file was just created and has no bytes yet. The disk may
	// still have size 0 when the cache has more.
	size, durableSize int
}

// A name is the number of a name that a file may have: a recovery.LogName; firstHashes plus a
// recovery.HashesName; setName; or filterName. For the files of a second filter, which is to take the
// place of the first one, beside is added to these numbers.
type name int

const (
	firstHashes name = 2
	setName     name = 4
	filterName  name = 5
	beside      name = 6
	allNames    name = 2 * beside
)

// names has, for each name, the number of the file that has it, or noFile.
type names [allNames]int

// A directory says which file has which name, in the cache and on the disk. Changes reach
// the disk one by one.
type directory struct {
	names, durable names
	unsynced       []names // the names after each change that is not durable
}

func (v *Volume) reseed(seed uint64) {
	v.source.Seed(seed, mix(seed))
	v.rng = rand.New(&v.source)
}

// forgetLogs removes the files that are or were logs, which must have no name. Everything must
// be clean.
func (v *Volume) forgetLogs() {
	kept := v.dir.names[firstHashes]
	if kept == noFile {
		v.logs = nil
		return
	}
	l := v.logs[kept]
	l.open = false
	v.logs = []*log{l}
	v.dir.names[firstHashes] = 0
	v.dir.durable = v.dir.names
}

func (v *Volume) event(e Event) {
	if v.muted {
		return
	}
	v.events++
	if e == StoreVisible || e == SyncBegins || e == NameChanges { // storeRun counts most other events only
		v.forget()
	}
	if v.each != nil {
		v.each(e)
	}
	v.left[e]--
	if v.hook != nil && (v.events == v.next || v.left[e] == 0) {
		v.hook(e)
	}
}

// forget lets pages with lost sectors leave the cache now and then, once the process knows that a sync
// has failed.
func (v *Volume) forget() {
	if !v.hasLost() {
		return
	}
	goes, before := v.rng.IntN(8) == 0, v.fallen
	for slot := range before {
		before[slot] = v.filter.cache.words[(slot+1)*superblockWords-1]
	}
	var changed []uint64
	v.eachDisk(func(d *disk) {
		d.change(justLost, mayLeave)
		if goes {
			d.forget(v.rng, func(word uint64) {
				if d == v.filter {
					changed = append(changed, word)
				}
			})
		}
	})
	for _, word := range changed {
		if word < layout.WordRuntime {
			slot := word / superblockWords
			v.fell, v.fallen[slot] = true, before[slot]
		}
		if v.watch != nil && word >= layout.WordRuntime {
			v.watch(word, v.filter.cache.words[word])
		}
	}
}

// eachDisk calls f for the disk of each file that has a name.
func (v *Volume) eachDisk(f func(*disk)) {
	f(v.filter)
	for _, i := range v.dir.names[:filterName] {
		if i != noFile {
			f(&v.logs[i].disk)
		}
	}
}

// onlyCounts reports whether nobody waits for the number of the next event, so that the event
// need only be counted. (Somebody may still wait for an event of its kind: see left.)
func (v *Volume) onlyCounts() bool {
	return v.events+1 != v.next && !v.muted && v.each == nil
}

// A filterFile is a filter file of a volume.
type filterFile struct {
	v *Volume
	*disk
}

func (f *filterFile) Words() []uint64 { return f.cache.words }
func (f *filterFile) Prefetch(uint64) {}
func (f *filterFile) Close() error    { return nil }
func (f *filterFile) Sync() error     { return f.v.syncFile(f.disk) }

func (f *filterFile) SyncRange(word, words uint64) error { return f.v.syncPart(f.disk, word, words) }

func (f *filterFile) Store(word, value uint64) {
	v := f.v
	switch {
	case word >= layout.WordRuntime:
		f.disk.store(word, value)
		if v.watch != nil && f.disk == v.filter {
			v.watch(word, value)
		}
		v.event(StoreVisible)
	case f.disk.same(word, value) && v.onlyCounts(): // most stores of a recovery
		v.events++
	case f.disk.same(word, value):
		v.event(StoreSame)
	default:
		if word%superblockWords == superblockWords-1 {
			v.checkSlot(f.disk, int(word/superblockWords), value)
		}
		f.disk.store(word, value)
		v.event(StoreHead)
	}
}

func (l *log) Words() []uint64 { return l.cache.words[:l.size] }
func (l *log) Prefetch(uint64) {}
func (l *log) Close() error    { l.open = false; return nil }

func (l *log) Store(word, value uint64) {
	switch v := l.volume; {
	case l.disk.same(word, value) && v.onlyCounts():
		v.events++
	case l.disk.same(word, value):
		v.event(StoreSame)
	default:
		l.disk.store(word, value)
		v.event(StoreLog)
	}
}

func (l *log) Sync() error {
	err := l.volume.syncFile(&l.disk)
	if err == nil || l.volume.rng.IntN(2) == 0 {
		l.durableSize = l.size
	}
	return err
}

func (v *Volume) fails() bool {
	if v.muted {
		return false
	}
	if v.syncs++; v.syncs != v.FailAt && (v.FailOdds == 0 || v.rng.IntN(v.FailOdds) != 0) {
		return false
	}
	v.Failed++
	return true
}

func (v *Volume) failsHashes() bool {
	if v.muted || v.FailHashes == 0 || v.rng.IntN(v.FailHashes) != 0 {
		return false
	}
	v.Failed++
	return true
}

func (v *Volume) syncFile(d *disk) error { return v.syncPart(d, 0, uint64(len(d.cache.words))) }

// syncPart makes some words of a file durable, and all other words of their sectors.
func (v *Volume) syncPart(d *disk, word, words uint64) error {
	v.event(SyncBegins)
	// What is stored during a sync may or may not be durable after it.
	during := v.during
	if v.muted {
		during = nil
	}
	covered := during != nil && v.rng.IntN(2) == 0
	if covered {
		during()
	}
	failed := v.fails()
	if failed {
		d.failSync(word, words, v.rng)
	} else {
		d.sync(word, words)
	}
	if during != nil && !covered {
		during()
	}
	v.event(SyncEnds)
	if failed {
		return errSync
	}
	return nil
}

func (v *Volume) Named() error         { return nil }
func (v *Volume) Whole() error         { return nil }
func (v *Volume) RequiresHashes() bool { return v.RequireHashes }
func (v *Volume) Close() error         { return nil }
func (v *Volume) Random() uint64       { return v.rng.Uint64() }

// Catch calls f. Loads and stores in a simulated file cause no faults.
func (v *Volume) Catch(f func(), failed func(error)) error {
	f()
	return nil
}

// Now returns a time. From call to call it rises by a third of a second.
func (v *Volume) Now() uint64 {
	v.clock += 333_333_333
	return v.clock
}

// file returns the log, or the file of hashes, that has a name.
func (v *Volume) file(n name) (*log, error) {
	if i := v.dir.names[n]; i != noFile {
		return v.logs[i], nil
	}
	return nil, fs.ErrNotExist
}

// log returns the log that has a name. A log without bytes is an error.
func (v *Volume) log(n name) (*log, error) {
	l, err := v.file(n)
	if err == nil && l.size == 0 {
		err = &layout.CorruptError{Region: layout.RegionLog, Rule: "L1", What: "the log has no bytes"}
	}
	return l, err
}

func (f *files) OpenLog(n recovery.LogName) (recovery.File, error) {
	l, err := f.v.log(f.first + name(n))
	if err != nil {
		return nil, err
	}
	l.open = true
	return l, nil
}

func (f *files) CreateLog(bytes int64) (recovery.File, error) {
	v, next := f.v, f.first+name(recovery.NextLog)
	v.rename(next, noFile)
	// A log that is not open belonged to the file that was replaced.
	if current := v.dir.names[f.first+name(recovery.CurrentLog)]; v.NoRoom && current != noFile && v.logs[current].open {
		v.Refused++
		return nil, recovery.ErrNoRoom
	}
	i := v.freeFile()
	l := v.logs[i]
	l.init(int(bytes/8), v.shift)
	l.size, l.durableSize = 0, 0
	v.rename(next, i)
	l.open = true
	l.size = int(bytes / 8)
	v.event(NameChanges)
	err := l.Sync()
	if err == nil {
		err = v.syncDir()
	}
	if err != nil {
		l.open = false
		v.rename(next, noFile)
		return nil, err
	}
	return l, nil
}

// freeFile returns the number of a file that is not open and has no name, in the cache or on
// the disk.
func (v *Volume) freeFile() int {
	used := func(i int) bool {
		for _, names := range append(v.dir.unsynced, v.dir.names, v.dir.durable) {
			for n, j := range names {
				if j == i && name(n)%beside != filterName {
					return true
				}
			}
		}
		return v.logs[i].open
	}
	for i := range v.logs {
		if !used(i) {
			return i
		}
	}
	v.logs = append(v.logs, &log{volume: v})
	return len(v.logs) - 1
}

// rename gives a name to another file, or to no file if to is noFile.
func (v *Volume) rename(name name, to int) {
	if v.dir.names[name] == to {
		return
	}
	v.dir.names[name] = to
	v.dir.unsynced = append(v.dir.unsynced, v.dir.names)
	v.event(NameChanges)
}

func (f *files) KeepLog() error {
	f.v.keepName(f.first+name(recovery.CurrentLog), f.first+name(recovery.NextLog))
	return f.v.syncDir()
}

// keepName renames the file that has the name next to current, in one change.
func (v *Volume) keepName(current, next name) {
	v.dir.names[current], v.dir.names[next] = v.dir.names[next], noFile
	v.dir.unsynced = append(v.dir.unsynced, v.dir.names)
	v.event(NameChanges)
}

func (f *files) RemoveLogs() error {
	f.v.rename(f.first+name(recovery.NextLog), noFile)
	f.v.rename(f.first+name(recovery.CurrentLog), noFile)
	return f.v.syncDir()
}

func (v *Volume) SyncNames() error { return v.syncDir() }

// DropLargePages implements recovery.Volume.
func (*Volume) DropLargePages(int64) (next, dropped int64) { return 0, 0 }

// syncDir makes the names durable. If it fails, the first few changes (or none, or all) are
// durable, and the rest may become durable later.
func (v *Volume) syncDir() error {
	v.event(SyncBegins)
	defer v.event(SyncEnds)
	if v.fails() {
		v.dir.settle(v.rng.IntN(len(v.dir.unsynced) + 1))
		return errSync
	}
	v.dir.settle(len(v.dir.unsynced))
	return nil
}

// settle makes the first n changes durable.
func (d *directory) settle(n int) {
	if n > 0 {
		d.durable = d.unsynced[n-1]
		d.unsynced = append(d.unsynced[:0], d.unsynced[n:]...)
	}
}

// copyFrom makes v a copy of o, without the events.
func (v *Volume) copyFrom(o *Volume) { v.copyAs(o, o.shift) }

// copyAs is copyFrom with sectors of another size. Everything in o must be clean then.
func (v *Volume) copyAs(o *Volume, shift uint) {
	v.copyRest(o)
	v.shift = shift
	for i := range v.disks {
		if o.uses(i) || o.had[i] {
			v.disks[i].copyAs(&o.disks[i], shift)
		}
	}
	v.filter, v.had = &v.disks[o.dir.names[filterName]], o.had
	for i, l := range o.logs {
		v.logs[i].disk.copyAs(&l.disk, shift)
		v.logs[i].open, v.logs[i].size, v.logs[i].durableSize = l.open, l.size, l.durableSize
	}
	v.dir.names, v.dir.durable = o.dir.names, o.dir.durable
	v.dir.unsynced = append(v.dir.unsynced[:0], o.dir.unsynced...)
	v.source = o.source
	v.clock = o.clock
}

func (v *Volume) copyRest(o *Volume) {
	v.v = v
	v.shift, v.FailOdds, v.Failed, v.patched = o.shift, o.FailOdds, 0, 0
	v.RequireHashes, v.FailHashes, v.NoRoom, v.Refused = o.RequireHashes, o.FailHashes, o.NoRoom, 0
	v.FailAt, v.syncs = 0, 0
	v.fell, v.fallen = false, [layout.SuperblockSlots]uint64{}
	v.events, v.next, v.left = 0, 0, [eventKinds]int{}
	v.each = nil
	v.hook, v.during, v.watch, v.muted = nil, nil, nil, false
	if v.rng == nil {
		v.rng = rand.New(&v.source)
	}
	for len(v.logs) < len(o.logs) {
		v.logs = append(v.logs, &log{volume: v})
	}
	for _, l := range v.logs[len(o.logs):] {
		l.open = false
	}
}

// kill makes v what o is after its process is killed.
func (v *Volume) kill(o *Volume) {
	v.copyFrom(o)
	for _, l := range v.logs {
		l.open = false
	}
	v.eachDisk(func(d *disk) { d.change(justLost, stays) })
}

// hasLost reports whether there are sectors that a failed sync has dropped.
func (v *Volume) hasLost() bool {
	lost := 0
	v.eachDisk(func(d *disk) { lost += len(d.lostList) })
	return lost > 0
}

// named reports whether the filter file keeps its name after a power loss.
func (v *Volume) named() bool { return v.dir.durable[filterName] == v.dir.names[filterName] }

// hash returns a hash of what a recovery reads: the caches and the names.
func (v *Volume) hash() uint64 {
	h := v.filter.cache.hash
	for n, i := range v.dir.names[:filterName] {
		if i != noFile {
			h += hashOfLog(name(n), v.logs[i].cache.hash, v.logs[i].size)
		}
	}
	return h
}

func hashOfLog(n name, content uint64, size int) uint64 {
	return mix(content + uint64(n) + 1 + uint64(size)<<8)
}

// uses reports whether filter file i has a name, in the cache or on the disk.
func (v *Volume) uses(i int) bool {
	for _, names := range append(v.dir.unsynced, v.dir.names, v.dir.durable) {
		if names[filterName] == i || names[beside+filterName] == i {
			return true
		}
	}
	return false
}
