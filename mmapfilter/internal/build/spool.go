package build

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A spool holds hashes, partitioned by their top bits: in memory while its budget lasts, then in
// unnamed files. Each goroutine has its own file, since writes to the same file wait for each
// other. The partition of a hash does not depend on the number of lines, so keys can be spooled
// before they are counted.
type spool struct {
	shift      uint // partition = hash >> shift
	chunkLen   int  // hashes that a collector collects for a partition
	stretchLen int  // hashes that a collector writes at once
	partition  []spoolPart
	total      atomic.Uint64

	room  atomic.Int64 // bytes left in the budget
	draft scratcher

	mu struct {
		sync.Mutex
		files []*osfile.Scratch
	}
}

// A scratcher makes the files of a spool.
type scratcher interface {
	Scratch() (*osfile.Scratch, error)
}

type spoolPart struct {
	mu     sync.Mutex
	chunks [][]uint64
	spans  []spoolSpan
	n      int // hashes in chunks and spans
}

// A spoolSpan is a chunk in a file.
type spoolSpan struct {
	file *osfile.Scratch
	off  int64
	n    int
	sum  uint64 // of the hashes
}

// errSpool is returned when a file of a spool does not hold what was written to it.
var errSpool = errors.New("a temporary file beside the filter does not hold what was written to it")

// read reads the chunk back. A system may fail to write a page after the write call has
// returned, and drop the page. A later read then returns a hole or old contents of the
// disk; only a sync would report the error.
func (span *spoolSpan) read(chunk []uint64) error {
	_, err := span.file.ReadAt(recovery.Bytes(chunk), span.off)
	if err != nil && err != io.EOF {
		return err
	}
	if err == nil && sumOf(chunk) == span.sum {
		return nil
	}
	if err := span.file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	return errSpool
}

func sumOf(hashes []uint64) (sum uint64) {
	for _, h := range hashes {
		sum += h
	}
	return sum
}

const (
	// maxChunkLen is 32 KiB of hashes, so long that reading chunks from all over a file costs little
	// more than reading the file in order.
	maxChunkLen = 4096
	// minChunkLen is 512 bytes of hashes. With fewer, the spoolSpan of 32 bytes and the work for each
	// chunk would be noticeable.
	minChunkLen = 64
	// maxStretchLen is 1 MiB of hashes, since the page cache takes a few long writes faster
	// than many short ones.
	maxStretchLen = 1 << 17

	// fewParts is the usual number of partitions: few, so that their chunks are long. Up to manyKeys,
	// the hashes of a partition, with room to sort them, stay in the cache of a core. For more keys
	// there are maxParts partitions.
	fewParts = 1024
	maxParts = 4 * fewParts
	manyKeys = 100e6
)

// spoolParts chooses the number of partitions for a capacity. A capacity of 0 means that it is unknown.
func spoolParts(capacity uint64) int {
	if capacity > manyKeys {
		return maxParts
	}
	return fewParts
}

// newSpool returns a spool with parts partitions (a power of two), or with fewer if the budget is small.
// Half of the budget is for the workers' open chunks, the other half for full ones. Whatever else
// collectors hold takes at most an eighth of the budget.
func newSpool(draft scratcher, workers int, budget int64, parts int) *spool {
	for parts > 1 && budget/2/int64(workers*parts*8) < minChunkLen {
		parts /= 2
	}
	s := &spool{shift: 64 - uint(bits.TrailingZeros(uint(parts))), partition: make([]spoolPart, parts), draft: draft}
	s.chunkLen = int(min(budget/2/int64(workers*parts*8), maxChunkLen)) / len(fewHashes{}) * len(fewHashes{})
	s.chunkLen = max(s.chunkLen, minChunkLen)
	s.stretchLen = max(s.chunkLen, int(min(budget/16/int64(workers*8), maxStretchLen)))
	s.room.Store(budget / 2)
	return s
}

func (s *spool) Parts() int { return len(s.partition) }

// prefixBits returns how many top bits are equal in the hashes of an aligned range of
// partitions. partitions is a power of two.
func (s *spool) prefixBits(partitions int) uint {
	return 64 - s.shift - uint(bits.TrailingZeros(uint(partitions)))
}

// Close frees the memory and the files of the spool. It does nothing if the spool is nil or
// closed.
func (s *spool) Close() {
	if s == nil {
		return
	}
	s.partition = nil
	for _, file := range s.mu.files {
		file.Close()
	}
	s.mu.files = nil
}

// A collector collects hashes for one goroutine.
type collector struct {
	s     *spool
	few   []fewHashes // the last hashes of each partition
	count []uint8     // hashes in few
	open  [][]uint64  // a chunk for each partition

	file    *osfile.Scratch // nil until the budget is used up
	stretch []uint64        // chunks to write to the file
	off     int64           // offset of the stretch in the file
}

// fewHashes is one cache line. Hashes go to a chunk eight at a time, because the ends of a thousand
// chunks are in a thousand pages, more than a core has translations for.
type fewHashes [8]uint64

// collector returns a collector, or nil if s is nil.
func (s *spool) collector() *collector {
	if s == nil {
		return nil
	}
	n := len(s.partition)
	return &collector{s: s, few: make([]fewHashes, n), count: make([]uint8, n), open: make([][]uint64, n)}
}

func (c *collector) add(h uint64) error { return c.addTo(h>>c.s.shift, h) }

// addTo adds a word to a partition.
func (c *collector) addTo(p, word uint64) error {
	n := c.count[p]
	c.few[p][n%uint8(len(fewHashes{}))] = word
	if c.count[p] = n + 1; int(n+1) < len(fewHashes{}) {
		return nil
	}
	return c.addFew(p)
}

// addFew moves the last hashes of a partition to its open chunk and hands the chunk over when it
// is full.
func (c *collector) addFew(p uint64) error {
	few := c.few[p][:c.count[p]]
	c.count[p] = 0
	chunk := c.open[p]
	if len(chunk)+len(few) > cap(chunk) {
		chunk = c.makeRoom(chunk)
	}
	chunk = append(chunk, few...)
	if n := len(chunk); n < cap(chunk) { // the next hashes go here
		kernel.Prefetch(&chunk[:n+1][n])
	}
	if c.open[p] = chunk; len(chunk) < c.s.chunkLen {
		return nil
	}
	return c.put(p)
}

// makeRoom makes room in a chunk that will have up to chunkLen hashes. It allocates room for chunkLen
// hashes only if the chunk is likely to fill up, so that it does not allocate more than the budget
// allows.
func (c *collector) makeRoom(chunk []uint64) []uint64 {
	n := min(minChunkLen, c.s.chunkLen)
	if len(chunk) > 0 {
		n = c.s.chunkLen
	}
	return append(make([]uint64, 0, n), chunk...)
}

// flush hands over all words that have been added. Do not use the collector afterwards. c may be nil.
func (c *collector) flush() error {
	if c == nil {
		return nil
	}
	for p := range uint64(len(c.open)) {
		if err := c.addFew(p); err != nil {
			return err
		}
		if err := c.put(p); err != nil {
			return err
		}
	}
	return c.writeStretch()
}

// put hands the open chunk of a partition to the spool.
func (c *collector) put(p uint64) error {
	chunk := c.open[p]
	if len(chunk) == 0 {
		return nil
	}
	s, part := c.s, &c.s.partition[p]
	s.total.Add(uint64(len(chunk)))
	bytes := int64(cap(chunk) * 8)
	if s.room.Add(-bytes) >= 0 {
		part.mu.Lock()
		defer part.mu.Unlock()
		part.chunks = append(part.chunks, chunk)
		part.n += len(chunk)
		c.open[p] = nil
		return nil
	}
	s.room.Add(bytes)
	if len(c.stretch)+len(chunk) > cap(c.stretch) {
		if err := c.nextStretch(); err != nil {
			return err
		}
	}
	off := c.off + int64(8*len(c.stretch))
	c.stretch = append(c.stretch, chunk...)
	part.mu.Lock()
	defer part.mu.Unlock()
	part.spans = append(part.spans, spoolSpan{c.file, off, len(chunk), sumOf(chunk)})
	part.n += len(chunk)
	c.open[p] = chunk[:0]
	return nil
}

// nextStretch writes the stretch to the file, which it creates if needed, and starts another stretch.
func (c *collector) nextStretch() (err error) {
	if c.file == nil {
		if c.file, err = c.s.newFile(); err == nil {
			c.stretch = make([]uint64, 0, c.s.stretchLen)
		}
		return err
	}
	if err := c.writeStretch(); err != nil {
		return err
	}
	c.off += int64(8 * len(c.stretch))
	c.stretch = c.stretch[:0]
	return nil
}

func (c *collector) writeStretch() error {
	if len(c.stretch) == 0 {
		return nil
	}
	_, err := c.file.WriteAt(recovery.Bytes(c.stretch), c.off)
	return err
}

// newFile creates a file. Close closes it.
func (s *spool) newFile() (*osfile.Scratch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := s.draft.Scratch()
	if err == nil {
		s.mu.files = append(s.mu.files, file)
	}
	return file, err
}

// size returns the number of hashes in the partitions [from, to).
func (s *spool) size(from, to int) (n int) {
	for i := from; i < to; i++ {
		n += s.partition[i].n
	}
	return n
}

// each calls f for every chunk of the partitions [from, to). If drop is set, it frees the chunks
// in memory.
func (s *spool) each(from, to int, drop bool, f func(chunk []uint64)) error {
	var buffer []uint64
	for i := from; i < to; i++ {
		part := &s.partition[i]
		for _, chunk := range part.chunks {
			f(chunk)
		}
		if drop {
			part.chunks = nil
		}
		for _, span := range part.spans {
			if cap(buffer) < span.n {
				buffer = make([]uint64, s.chunkLen)
			}
			chunk := buffer[:span.n]
			if err := span.read(chunk); err != nil {
				return err
			}
			f(chunk)
		}
	}
	return nil
}
