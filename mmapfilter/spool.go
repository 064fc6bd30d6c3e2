package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A spool holds hashes, partitioned by their top bits: in memory while its budget
// lasts, then in files without a name. Each goroutine that writes has a file of its
// own, since writes to one file wait for each other. The partition of a hash does not
// depend on the number of lines, so keys can be spooled before they are counted.
type spool struct {
	shift     uint // partition = hash >> shift
	chunkLen  int  // hashes that a writer collects for a partition
	blockLen  int  // hashes that it writes at once
	partition []spoolPart
	total     atomic.Uint64

	room  atomic.Int64 // bytes of the budget that are left
	draft *recovery.Draft

	mu struct {
		sync.Mutex
		files []*recovery.Scratch
	}
}

type spoolPart struct {
	mu     sync.Mutex
	chunks [][]uint64
	spans  []spoolSpan
	n      int // hashes in chunks and spans
}

// A spoolSpan is a chunk in a file.
type spoolSpan struct {
	file *recovery.Scratch
	off  int64
	n    int
	sum  uint64 // of the hashes
}

// errSpool is returned when a file of a spool does not hold what was written to it.
var errSpool = errors.New("a temporary file beside the filter does not hold what was written to it")

// read reads the chunk back. A system may fail to write a page after the call that
// wrote to it has returned, and then drop the page: reading it back gives a hole or old
// contents of the disk. The file reports that error at its next sync.
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

// sumOf returns the sum of hashes.
func sumOf(hashes []uint64) (sum uint64) {
	for _, h := range hashes {
		sum += h
	}
	return sum
}

const (
	// maxChunkLen is 32 KiB of hashes: long enough that reading chunks back
	// from all over a file costs little more than reading it in order.
	maxChunkLen = 4096
	minChunkLen = 64
	maxParts    = 4096
)

// spoolParts chooses the number of partitions: enough that one of them, with room to
// sort it, is small; few enough that their chunks are long.
func spoolParts(capacity uint64) int {
	if capacity > 100e6 {
		return maxParts
	}
	return maxParts / 4
}

// newSpool makes a spool of at most parts partitions, a power of two, or of fewer if
// the budget is small. Half of the budget is for the chunks that each worker has open,
// the other half for full ones. Everything else that a writer has is at most an eighth.
func newSpool(draft *recovery.Draft, workers int, budget int64, parts int) *spool {
	for parts > 1 && budget/2/int64(workers*parts*8) < minChunkLen {
		parts /= 2
	}
	s := &spool{shift: 64, partition: make([]spoolPart, parts), draft: draft}
	for n := parts; n > 1; n /= 2 {
		s.shift--
	}
	s.chunkLen = int(min(budget/2/int64(workers*parts*8), maxChunkLen)) / len(fewHashes{}) * len(fewHashes{})
	s.chunkLen = max(s.chunkLen, minChunkLen)
	s.blockLen = max(s.chunkLen, int(min(budget/16/int64(workers*8), maxBlockLen)))
	s.room.Store(budget / 2)
	return s
}

func (s *spool) parts() int    { return len(s.partition) }
func (s *spool) count() uint64 { return s.total.Load() }

// prefixBits returns how many top bits are equal in the hashes of that many partitions,
// a power of two, if they form an aligned range.
func (s *spool) prefixBits(partitions int) uint {
	bits := 64 - s.shift
	for ; partitions > 1; partitions /= 2 {
		bits--
	}
	return bits
}

// close frees the memory and the files of the spool. It does nothing for a nil spool or
// one that is closed.
func (s *spool) close() {
	if s == nil {
		return
	}
	s.partition = nil
	for _, file := range s.mu.files {
		file.Close()
	}
	s.mu.files = nil
}

// A spoolWriter collects hashes for one goroutine.
type spoolWriter struct {
	s     *spool
	few   []fewHashes // the last ones for each partition
	count []uint8     // of them
	open  [][]uint64  // a chunk for each partition

	file  *recovery.Scratch // nil until the budget is used up
	block []uint64          // chunks on the way to it
	off   int64             // of the block in it
}

// maxBlockLen is 1 MiB of hashes. A page cache takes 1 MiB in a third of the time that it
// takes for 64 times 16 KiB (ext4, Linux 6.18).
const maxBlockLen = 1 << 17

// fewHashes is one line of a cache. The ends of some thousand chunks are in as many pages,
// and a core has to look for each: with 8 hashes at a time, to hash and spool keys takes 21
// ns each instead of 25; and one less where it then asks for the next 64 bytes of the chunk.
type fewHashes [8]uint64

func (s *spool) writer() *spoolWriter {
	n := len(s.partition)
	return &spoolWriter{s: s, few: make([]fewHashes, n), count: make([]uint8, n), open: make([][]uint64, n)}
}

func (w *spoolWriter) add(h uint64) error {
	p := h >> w.s.shift
	n := w.count[p]
	w.few[p][n%uint8(len(fewHashes{}))] = h
	if w.count[p] = n + 1; int(n+1) < len(fewHashes{}) {
		return nil
	}
	return w.addFew(p)
}

// addFew moves the last hashes of a partition to its open chunk and hands that over
// when it is full.
func (w *spoolWriter) addFew(p uint64) error {
	few := w.few[p][:w.count[p]]
	w.count[p] = 0
	chunk := w.open[p]
	if len(chunk)+len(few) > cap(chunk) {
		chunk = w.grow(chunk)
	}
	chunk = append(chunk, few...)
	if n := len(chunk); n < cap(chunk) { // where the next ones go
		kernel.Prefetch(&chunk[:n+1][n])
	}
	if w.open[p] = chunk; len(chunk) < w.s.chunkLen {
		return nil
	}
	return w.put(p)
}

// grow makes room in a chunk that will have chunkLen hashes in the end. It allocates
// all of them at once only if the chunk is likely to get them, so that no more is
// allocated than the budget counts.
func (w *spoolWriter) grow(chunk []uint64) []uint64 {
	n := min(minChunkLen, w.s.chunkLen)
	if len(chunk) > 0 {
		n = w.s.chunkLen
	}
	return append(make([]uint64, 0, n), chunk...)
}

// flush hands over what has been added so far. The writer is not used after it.
func (w *spoolWriter) flush() error {
	for p := range uint64(len(w.open)) {
		if err := w.addFew(p); err != nil {
			return err
		}
		if err := w.put(p); err != nil {
			return err
		}
	}
	return w.writeBlock()
}

// put hands the open chunk of a partition to the spool.
func (w *spoolWriter) put(p uint64) error {
	chunk := w.open[p]
	if len(chunk) == 0 {
		return nil
	}
	s, part := w.s, &w.s.partition[p]
	s.total.Add(uint64(len(chunk)))
	bytes := int64(cap(chunk) * 8)
	if s.room.Add(-bytes) >= 0 {
		part.mu.Lock()
		defer part.mu.Unlock()
		part.chunks = append(part.chunks, chunk)
		part.n += len(chunk)
		w.open[p] = nil
		return nil
	}
	s.room.Add(bytes)
	if len(w.block)+len(chunk) > cap(w.block) {
		if err := w.nextBlock(); err != nil {
			return err
		}
	}
	off := w.off + int64(8*len(w.block))
	w.block = append(w.block, chunk...)
	part.mu.Lock()
	defer part.mu.Unlock()
	part.spans = append(part.spans, spoolSpan{w.file, off, len(chunk), sumOf(chunk)})
	part.n += len(chunk)
	w.open[p] = chunk[:0]
	return nil
}

// nextBlock writes the block to the file, which it makes if needed, and starts another
// block.
func (w *spoolWriter) nextBlock() (err error) {
	if w.file == nil {
		if w.file, err = w.s.newFile(); err == nil {
			w.block = make([]uint64, 0, w.s.blockLen)
		}
		return err
	}
	if err := w.writeBlock(); err != nil {
		return err
	}
	w.off += int64(8 * len(w.block))
	w.block = w.block[:0]
	return nil
}

func (w *spoolWriter) writeBlock() error {
	if len(w.block) == 0 {
		return nil
	}
	_, err := w.file.WriteAt(recovery.Bytes(w.block), w.off)
	return err
}

// newFile makes a file that is closed with the spool.
func (s *spool) newFile() (*recovery.Scratch, error) {
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

// each calls f for every chunk of the partitions [from, to). If drop is set, it frees
// the chunks in memory.
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

// A keyBatch carries keys to a worker: the hashes of short keys, which are hashed as
// fast as copied, and copies of the others.
type keyBatch struct {
	hashes []uint64
	bytes  []byte
	ends   []int // of the keys in bytes
}

func (b *keyBatch) n() int { return len(b.hashes) + len(b.ends) }

// maxShort is the longest length of a short key.
const maxShort = 16

const (
	batchKeys  = 4096
	batchBytes = 256 << 10
)

// spool hashes and partitions the keys of the sequence. The sequence runs in the
// calling goroutine; the workers hash long keys and partition the hashes.
func (b *builder) spool(ctx context.Context, keys iter.Seq2[[]byte, error]) error {
	workers := b.options.Workers
	full := make(chan *keyBatch, workers)
	empty := make(chan *keyBatch, 2*workers+1)
	for range cap(empty) {
		empty <- new(keyBatch)
	}
	var stop atomic.Bool // set by a cancelled context or a worker that failed
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()

	var group sync.WaitGroup
	errs := make([]error, workers+1)
	for i := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = b.hashBatches(full, empty, &stop)
		}()
	}
	errs[workers] = func() error {
		defer group.Wait() // whatever the sequence does: a panic of it included
		defer close(full)
		return b.sendBatches(keys, full, empty, &stop)
	}()
	for _, err := range errs {
		if err != nil && err != errStopped {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errs[workers]
}

// errStopped is returned when spooling stops early; another error says why.
var errStopped = errors.New("stopped before all keys were read")

// sendBatches ranges over the sequence and sends its keys to the workers.
func (b *builder) sendBatches(keys iter.Seq2[[]byte, error], full chan<- *keyBatch, empty <-chan *keyBatch, stop *atomic.Bool) error {
	batch, hash := <-empty, layout.NewHasher(b.options.Seed)
	for key, err := range keys {
		if err != nil {
			return err
		}
		if stop.Load() {
			return errStopped
		}
		b.came++
		if len(key) <= maxShort {
			batch.hashes = append(batch.hashes, hash.Hash(key))
		} else {
			batch.bytes = append(batch.bytes, key...)
			batch.ends = append(batch.ends, len(batch.bytes))
		}
		if batch.n() == batchKeys || len(batch.bytes) >= batchBytes {
			b.report("hash", uint64(batch.n()), b.options.Capacity)
			full <- batch
			batch = <-empty
		}
	}
	b.report("hash", uint64(batch.n()), b.options.Capacity)
	full <- batch
	return nil
}

// hashBatches hashes and spools the keys of batches. After an error it goes on taking
// batches, so that sendBatches never waits for a worker that is gone.
func (b *builder) hashBatches(full <-chan *keyBatch, empty chan<- *keyBatch, stop *atomic.Bool) (err error) {
	w, hash := b.homes.writer(), layout.NewHasher(b.options.Seed)
	for batch := range full {
		start := 0
		for _, end := range batch.ends {
			batch.hashes = append(batch.hashes, hash.Hash(batch.bytes[start:end]))
			start = end
		}
		for _, h := range batch.hashes {
			if err != nil {
				break
			}
			if err = w.add(h); err != nil {
				stop.Store(true)
			}
		}
		batch.hashes, batch.bytes, batch.ends = batch.hashes[:0], batch.bytes[:0], batch.ends[:0]
		if cap(batch.bytes) > 4*batchBytes {
			batch.bytes = nil // a very long key: not to be kept for each worker
		}
		empty <- batch
	}
	if err != nil {
		return err
	}
	return w.flush()
}
