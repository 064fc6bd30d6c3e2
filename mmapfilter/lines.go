package mmapfilter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// lines looks hashes up in a file that can only be read through an io.ReaderAt (R7). The runtime page
// and the stash are in memory, since they are read at opening. The blocks of the region are read when
// lookups need them, and are not kept.
type lines struct {
	name    string // of the reader, for errors
	r       io.ReaderAt
	table   layout.Table
	view    layout.View // without a region
	atOnce  int64       // OpenOptions.ReadSize
	spare   spareSlot
	every   uint64        // checkEvery, or 1 if the reader is weak
	lookups atomic.Uint64 // number of single lookups whose answer is "certainly not", and of calls of count

	failed   atomic.Pointer[error] // the first error of r
	replaced atomic.Bool           // r no longer has the file that was opened
}

// A spareSlot tells whether a file is still the one that was opened. A writer would store its next
// superblock in this slot first; and in another file, the superblock there has another UUID or
// generation.
type spareSlot struct {
	off   int64
	began [layout.LineBytes]byte // as of opening; it has the generation and the UUID
}

// Of the single lookups that find nothing, one in checkEvery reads the spare slot. This is often enough
// to notice another file soon, and adds less than 1 % to the reads.
const checkEvery = 128

// inMemory is how many keys of a batch are looked up together. Each key takes memory for a block of 64
// bytes, and for the bytes between blocks that are read with it.
const inMemory = 1 << 16

// contains looks one hash up.
func (l *lines) contains(hash uint64) bool {
	if l.replaced.Load() {
		return true
	}
	f := l.fetch(layout.LineBytes)
	defer l.put(f)
	f.hashes, f.found = append(f.hashes, hash), append(f.found, false)
	f.lookUp()
	return f.found[0] || !l.sure()
}

// sure reports whether a single lookup may answer "certainly not". One in l.every calls checks the file.
func (l *lines) sure() bool {
	return !l.replaced.Load() && (l.lookups.Add(1)%l.every != 0 || l.check() == nil)
}

// containsAll looks a batch up, and checks that all blocks came from one file.
func (l *lines) containsAll(hashes []uint64, found []bool) {
	order := make([]int, len(hashes))
	for i := range order {
		order[i] = i
	}
	// The top bits of a hash choose the home line, so blocks of neighbours are looked up together.
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(hashes[a], hashes[b]) })
	failed := false
	for part := range slices.Chunk(order, inMemory) {
		f := l.fetch(l.atOnce)
		f.failed = failed
		for _, i := range part {
			f.hashes, f.found = append(f.hashes, hashes[i]), append(f.found, false)
		}
		f.lookUp()
		for k, i := range part {
			found[i] = f.found[k]
		}
		failed = f.failed
		l.put(f)
	}
	if l.check() != nil {
		sayMaybe(found)
	}
}

// count is openFile.count.
func (l *lines) count(hash uint64) (items uint64, ok bool) {
	f := l.fetch(layout.LineBytes)
	defer l.put(f)
	for {
		items, ok = layout.Count(l.table, f.at, hash)
		if len(f.wanted) == 0 {
			return items, ok && !f.missed && l.sure()
		}
		f.read()
	}
}

// check reads the spare slot. It returns an error if bytes that have been read may come from another
// file than the one that was opened.
func (l *lines) check() error {
	if l.replaced.Load() {
		return ErrSuperseded
	}
	var now [layout.LineBytes]byte
	_, err := l.readAt(now[:], l.spare.off)
	if err == nil && now != l.spare.began {
		l.replaced.Store(true)
		err = ErrSuperseded
	}
	return err
}

// readAt fills b from the reader and returns how many bytes of b are good. A short read is an error.
func (l *lines) readAt(b []byte, off int64) (n int, err error) {
	if n, err = readFull(l.r, b, off); err != nil {
		if errors.Is(err, ErrSuperseded) { // the reader itself can tell
			l.replaced.Store(true)
		}
		err = about("read", l.name, err)
		l.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// readFull fills b, or returns an error and how many bytes of b are good. If the reader returns all
// bytes and an error other than io.EOF, none of the bytes is good, since the reader may have checked
// them and found them wrong.
func readFull(r io.ReaderAt, b []byte, off int64) (n int, err error) {
	n, err = r.ReadAt(b, off)
	switch {
	case n == len(b) && (err == nil || err == io.EOF):
		return n, nil
	case n == len(b):
		return 0, err
	case n < 0 || n > len(b):
		return 0, errors.New("the reader says that it has read more bytes than there is room for")
	case err == nil || err == io.EOF:
		return n, &CorruptError{Region: layout.RegionFile, Offset: off + int64(n), Rule: "F6", What: "the reader ends before the size that it was opened with"}
	}
	return n, err
}

// err returns the error that limits the filter, or nil.
func (l *lines) err() error {
	if l.replaced.Load() {
		return about("read", l.name, ErrSuperseded)
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// A fetch has a number of lookups, and the blocks that have been read for them. A lookup that needs a
// missing block notes the block as wanted, and begins again once the block has been read. In this way a
// fetch can use the lookups of package layout, and many lookups share a few reads.
type fetch struct {
	of     *lines
	atOnce int64                    // most bytes that one read of several blocks takes
	at     func(word uint64) uint64 // the method word, made once for all lookups
	hashes []uint64
	found  []bool
	open   []int                   // indexes of the hashes that have no answer yet
	blocks map[uint64]*layout.Line // a nil value means that the block could not be read
	wanted []uint64                // blocks to read next; some are listed twice
	missed bool                    // a lookup needs a block that could not be read
	failed bool                    // a read has failed; no other is tried, since each may take long
	buf    []byte
}

var fetches = sync.Pool{New: func() any {
	f := &fetch{blocks: make(map[uint64]*layout.Line)}
	f.at = f.word
	return f
}}

// fetch returns a fetch whose reads are at most atOnce bytes long.
func (l *lines) fetch(atOnce int64) *fetch {
	f := fetches.Get().(*fetch)
	f.of, f.atOnce = l, atOnce
	return f
}

// put gives a fetch back to the pool, unless it has the memory of a large batch.
func (l *lines) put(f *fetch) {
	if len(f.hashes) > layout.LookupPart {
		return
	}
	clear(f.blocks)
	f.of, f.hashes, f.found, f.open, f.wanted = nil, f.hashes[:0], f.found[:0], f.open[:0], f.wanted[:0]
	f.missed, f.failed = false, false
	fetches.Put(f)
}

// word returns a word of the file.
func (f *fetch) word(word uint64) uint64 {
	if word < layout.WordRegion {
		return f.of.view.At(word)
	}
	block := (word - layout.WordRegion) / layout.BlockWords
	line, ok := f.blocks[block]
	switch {
	case !ok:
		f.wanted = append(f.wanted, block)
		return 0
	case line == nil:
		f.missed = true
		return 0
	}
	return line[word%layout.BlockWords]
}

// lookUp answers for all hashes. Each round reads the missing blocks that its lookups have
// asked for: first home lines, and then other lines. So there are at most as many rounds as
// one lookup needs blocks.
func (f *fetch) lookUp() {
	for i := range f.hashes {
		f.open = append(f.open, i)
	}
	for len(f.open) > 0 {
		open := f.open
		f.open = f.open[:0]
		for _, i := range open {
			before := len(f.wanted)
			f.missed = false
			found := layout.Lookup(f.of.table, f.at, f.hashes[i])
			if len(f.wanted) > before { // the lookup took a missing block for zeros
				f.open = append(f.open, i)
				continue
			}
			f.found[i] = found || f.missed
		}
		f.read()
	}
}

// read reads the wanted blocks, in order. Blocks that lie within atOnce bytes are read together.
func (f *fetch) read() {
	slices.Sort(f.wanted)
	wanted := slices.Compact(f.wanted)
	for len(wanted) > 0 {
		first, n := wanted[0], 1
		for n < len(wanted) && int64(wanted[n]+1-first)*layout.LineBytes <= f.atOnce {
			n++
		}
		f.readRun(wanted[:n])
		wanted = wanted[n:]
	}
	f.wanted = f.wanted[:0]
}

// readRun reads sorted blocks, and the bytes between them, with one read.
func (f *fetch) readRun(blocks []uint64) {
	first := blocks[0]
	size := int(blocks[len(blocks)-1]+1-first) * layout.LineBytes
	f.buf = slices.Grow(f.buf[:0], size)[:size]
	good := 0
	if !f.failed {
		var err error // Err has it
		good, err = f.of.readAt(f.buf, layout.OffRegion+int64(first)*layout.LineBytes)
		f.failed = err != nil
	}
	for _, block := range blocks {
		f.blocks[block] = nil
		off := int(block-first) * layout.LineBytes
		if off+layout.LineBytes > good {
			continue
		}
		line := new(layout.Line)
		for i := range line {
			line[i] = binary.LittleEndian.Uint64(f.buf[off+8*i:])
		}
		f.blocks[block] = line
	}
}

// have reads lines, and reports whether that succeeded. After that, at returns their words.
func (f *fetch) have(numbers []uint64) bool {
	for range 2 {
		for _, line := range numbers {
			layout.LineFrom(f.of.table, f.at, line)
		}
		f.read()
	}
	return !f.missed
}
