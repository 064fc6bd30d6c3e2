package writer

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Tap lists operations of a writer, in order: the operations that are in the history, or would be if
// the filter kept a history. The writer puts them in, and one other goroutine takes them out. If many
// operations wait, most of them are in a file.
type Tap struct {
	// Slow is how long each operation of the writer must wait, in nanoseconds. It is not 0 while
	// operations come faster than they are taken out.
	Slow atomic.Int64

	scratch func() (*osfile.Scratch, error) // creates the file
	begun   recovery.Count                  // the Count of the writer when the tap began

	mu     sync.Mutex
	count  recovery.Count // the Count of the writer after the last operation in the tap
	first  *tapChunk      // operations are taken from here
	queue  []*tapChunk    // the chunks after first; the last of them is last
	last   *tapChunk      // operations are put in here
	n      int            // operations that wait
	file   *osfile.Scratch
	size   int64 // of the file
	failed error
}

// A tapChunk is a run of operations.
type tapChunk struct {
	words []uint64 // hashes, and then the Op of each in two bits; nil if the chunk is in the file
	n     int
	at    int64  // offset in the file
	sum   uint64 // of words
	taken int
}

const (
	// tapOps is how many operations a chunk has. Their hashes are half a MiB, so that a system call for
	// each chunk costs little.
	tapOps = 1 << 16
	// tapWords is how many words a chunk has: its hashes, and the Ops, 32 in a word.
	tapWords = tapOps + tapOps/32
	// tapChunks is how many chunks wait in memory: a million operations, in 8.5 MiB. Unless a filter is
	// large, its rebuild ends before a million operations have come, and needs no file.
	tapChunks = 16
)

// NewTap returns an empty tap. scratch creates its file.
func NewTap(scratch func() (*osfile.Scratch, error)) *Tap {
	c := newTapChunk()
	return &Tap{scratch: scratch, first: c, last: c}
}

func newTapChunk() *tapChunk { return &tapChunk{words: make([]uint64, tapWords)} }

// counted is the Op of two entries that are not operations: instead of hashes they have a recovery.Count
// of the writer. They are in the tap where the Count does not follow from the number of operations,
// after a SyncAt or an operation that changed nothing.
const counted layout.Op = 0

// begin notes the Count of the writer. It is called once, before any operation.
func (t *Tap) begin(at recovery.Count) { t.begun, t.count = at, at }

// Begin puts inserts of hashes into the tap, before any operation of the writer. Counts do not
// include these inserts.
func (t *Tap) Begin(hashes []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range hashes {
		t.add(h, layout.Insert)
	}
	t.recount(t.begun)
}

// put puts in an operation. after is the Count of the writer after it.
func (t *Tap) put(hash uint64, op layout.Op, after recovery.Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := after
	if before.Operations--; before != t.count {
		t.recount(before)
	}
	t.count = after
	t.add(hash, op)
}

func (t *Tap) recount(c recovery.Count) {
	t.add(c.Seq, counted)
	t.add(c.Operations, counted)
}

func (t *Tap) add(hash uint64, op layout.Op) {
	if t.failed != nil {
		return
	}
	c := t.last
	c.words[c.n] = hash
	c.words[tapOps+c.n/32] |= uint64(op) << (c.n % 32 * 2)
	t.n++
	if c.n++; c.n < tapOps {
		return
	}
	t.last = newTapChunk()
	if t.queue = append(t.queue, t.last); len(t.queue) > tapChunks {
		t.failed = t.spill(t.queue[len(t.queue)-2])
	}
}

// spill writes a full chunk to the file.
func (t *Tap) spill(c *tapChunk) (err error) {
	if t.file == nil {
		if t.file, err = t.scratch(); err != nil {
			return err
		}
	}
	c.at, c.sum = t.size, sumOf(c.words)
	if _, err := t.file.WriteAt(recovery.Bytes(c.words), c.at); err != nil {
		return err
	}
	t.size += tapWords * 8
	c.words = nil
	return nil
}

// errTap is returned when the file of a tap does not hold what was written to it.
var errTap = errors.New("a temporary file beside the filter does not hold what was written to it")

// sumOf returns a checksum of words, which also depends on their order.
func sumOf(words []uint64) (sum uint64) {
	for _, w := range words {
		sum = sum*0x9E3779B97F4A7C15 + w
	}
	return sum
}

// Len returns how many operations wait in the tap.
func (t *Tap) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Take takes out operations, in order: most is their largest number, plus one if the two entries of a
// Count would be separated. It appends their hashes and their Ops to hashes and ops.
func (t *Tap) Take(hashes []uint64, ops []layout.Op, most int) ([]uint64, []layout.Op, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	half := false
	for ; (most > 0 || half) && t.n > 0 && t.failed == nil; most-- {
		c := t.first
		if c.taken == tapOps {
			t.first, t.queue = t.queue[0], t.queue[1:]
			c = t.first
		}
		if c.words == nil {
			c.words = make([]uint64, tapWords)
			if _, err := t.file.ReadAt(recovery.Bytes(c.words), c.at); err != nil {
				t.failed = err
				break
			}
			if sumOf(c.words) != c.sum { // the system may have failed to write a page
				t.failed = errors.Join(errTap, t.file.Sync())
				break
			}
		}
		hashes = append(hashes, c.words[c.taken])
		op := layout.Op(c.words[tapOps+c.taken/32] >> (c.taken % 32 * 2) & 3)
		ops, half = append(ops, op), op == counted && !half
		c.taken++
		t.n--
	}
	if t.failed != nil {
		return nil, nil, fmt.Errorf("keep the operations that come meanwhile: %w", t.failed)
	}
	return hashes, ops, nil
}

// drain takes out all operations and adds the deletes to deleted.
func (t *Tap) drain(deleted map[uint64]uint64) error {
	for t.Len() > 0 {
		hashes, ops, err := t.Take(nil, nil, tapOps)
		if err != nil {
			return err
		}
		for i, h := range hashes {
			if ops[i] == layout.Delete {
				deleted[h]++
			}
		}
	}
	return nil
}

// Close releases the file.
func (t *Tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}
