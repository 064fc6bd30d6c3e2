package sets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/crc32"
	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

const (
	spoolMagic = "MMSPOOL1" // the first bytes of a spool
	entryBytes = 12         // bytes in the index for each block

	// A block has blockBytes. With many shards it has fewer, so that one block for each shard takes
	// about openBytes in total. But it has at least leastBytes, so that readers need not seek too
	// often.
	blockBytes = 64 << 10
	leastBytes = 4 << 10
	openBytes  = 256 << 20

	spoolSuffix   = ".spool"
	receiptSuffix = ".task"
	taskFormat    = "mmapfilter task"
	longestTask   = 150
)

// blockHashes returns how many hashes a block has room for. It depends on the plan alone, so that the
// same keys give the same bytes everywhere.
func (p *Plan) blockHashes() int {
	return min(max(openBytes/p.Shards, leastBytes), blockBytes) / 8
}

// checkTask checks that the name of a task can be a file name.
func checkTask(task string) error {
	if task == "" || len(task) > longestTask || task[0] == '.' || task[0] == '-' || strings.Trim(task, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return fmt.Errorf("%q cannot name a task: it needs 1 to %d of the characters a-z, A-Z, 0-9, '.', '_', '-', and must not begin with '.' or '-'", task, longestTask)
	}
	return nil
}

// A Spool takes the hashes of the keys of one task, and keeps them in blocks; each block has hashes of
// one shard.
type Spool struct {
	plan  *Plan
	dir   string
	task  string
	out   *osfile.Output
	hash  layout.Hasher
	open  [][]uint64 // a block for each shard
	index []byte     // begins with spoolMagic
	keys  uint64
}

// NewSpool begins the spool of a task in a directory.
func NewSpool(p *Plan, dir, task string) (*Spool, error) {
	if err := checkTask(task); err != nil {
		return nil, err
	}
	return newSpool(p, filepath.Join(dir, task+spoolSuffix), dir, task)
}

func newSpool(p *Plan, path, dir, task string) (*Spool, error) {
	out, err := osfile.NewOutput(path, spoolMagic)
	if err != nil {
		return nil, err
	}
	s := &Spool{plan: p, dir: dir, task: task, out: out, hash: p.hasher(), open: make([][]uint64, p.Shards), index: []byte(spoolMagic)}
	if _, err := out.WriteString(spoolMagic); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// Add adds a key.
func (s *Spool) Add(key []byte) error { return s.AddHash(s.hash.Hash(key)) }

// AddHash adds a key by its [Plan.Hash].
func (s *Spool) AddHash(hash uint64) error {
	shard, _ := layout.ShardOf(hash, uint32(s.plan.Shards))
	block := append(s.open[shard], hash)
	s.open[shard] = block
	if len(block) < s.plan.blockHashes() {
		return nil
	}
	return s.put(int(shard))
}

// put writes the open block of a shard.
func (s *Spool) put(shard int) error {
	block := s.open[shard]
	if len(block) == 0 {
		return nil
	}
	hashes := recovery.Bytes(block)
	s.index = binary.LittleEndian.AppendUint32(s.index, uint32(shard))
	s.index = binary.LittleEndian.AppendUint32(s.index, uint32(len(block)))
	s.index = binary.LittleEndian.AppendUint32(s.index, crc32.Checksum(hashes, castagnoli))
	s.keys += uint64(len(block))
	s.open[shard] = block[:0]
	_, err := s.out.Write(hashes)
	return err
}

// A Receipt says that a task is done. It is a file beside the spool.
type Receipt struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Plan    string `json:"plan"`
	Task    string `json:"task"`
	Keys    uint64 `json:"keys"`   // keys that were read
	Bytes   int64  `json:"bytes"`  // of the spool
	Digest  Hex    `json:"digest"` // of the first bytes and the index of the spool
}

// Close makes the spool durable, and then the receipt. Doing a task again with the same keys in the
// same order leaves the same bytes. If the task was done before with other keys, Close returns an
// error, since otherwise the second of two tasks with one name would replace the first.
func (s *Spool) Close() (*Receipt, error) {
	r, err := s.close()
	if err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return r, nil
}

func (s *Spool) close() (*Receipt, error) {
	r, err := s.finish()
	if err != nil {
		return nil, err
	}
	done, err := s.doneBefore(r)
	if err != nil {
		return nil, err
	}
	if err := s.out.Publish(); err != nil {
		return nil, err
	}
	if done { // another process may have died while it wrote the same receipt
		osfile.RemoveStale(s.receipt())
		return r, nil
	}
	err = osfile.WriteNewFile(s.receipt(), begins(taskFormat), sign(encode(r)))
	if errors.Is(err, os.ErrExist) { // from another process, which may have died before it made the name durable
		if _, err = s.doneBefore(r); err == nil {
			err = osfile.SyncDir(s.dir)
		}
	}
	return r, err
}

// doneBefore reports whether the task has been done before with the keys of r. If it has been done
// with other keys, doneBefore returns an error.
func (s *Spool) doneBefore(r *Receipt) (bool, error) {
	before, err := readReceipt(s.plan, s.dir, s.task)
	damaged := new(FileError)
	switch {
	case err == nil && before.Digest != r.Digest:
		return false, &FileError{s.receipt(), fmt.Sprintf("task %s was done before, with %d keys that are not the same; remove this file to do it again with others", s.task, before.Keys)}
	case errors.As(err, &damaged):
		return false, &FileError{damaged.Path, damaged.Reason + "; remove this file to do the task"}
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	return err == nil, err
}

// finish writes the open blocks and the index.
func (s *Spool) finish() (*Receipt, error) {
	for shard := range s.open {
		if err := s.put(shard); err != nil {
			return nil, err
		}
	}
	if _, err := s.out.Write(s.index[len(spoolMagic):]); err != nil {
		return nil, err
	}
	return &Receipt{taskFormat, 1, s.plan.ID(), s.task, s.keys, int64(len(s.index)) + int64(8*s.keys), Hex(xxh3.Hash(s.index))}, nil
}

func (s *Spool) receipt() string { return filepath.Join(s.dir, s.task+receiptSuffix) }

// Discard removes a spool that has not been closed.
func (s *Spool) Discard() error { return s.out.Discard() }

// readReceipt reads the receipt of a task of the plan.
func readReceipt(p *Plan, dir, task string) (*Receipt, error) {
	path, r := filepath.Join(dir, task+receiptSuffix), new(Receipt)
	if _, err := readSigned(path, taskFormat, r); err != nil {
		return nil, err
	}
	if r.Plan != p.ID() {
		return nil, &FileError{path, fmt.Sprintf("of plan %s, not %s", r.Plan, p.ID())}
	}
	if r.Task != task {
		return nil, &FileError{path, fmt.Sprintf("a copy of the receipt of task %s", r.Task)}
	}
	return r, nil
}

// A task is a spool that is complete.
type task struct {
	*Receipt
	path string // of the spool
}

// readTasks finds the tasks in a directory, in the order of their names. Each must have its spool
// and its receipt.
func readTasks(p *Plan, dir string) ([]task, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var tasks []task
	spools := make(map[string]bool)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), spoolSuffix); ok {
			spools[name] = true
		}
		name, ok := strings.CutSuffix(e.Name(), receiptSuffix)
		if !ok {
			continue
		}
		r, err := readReceipt(p, dir, name)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, task{r, filepath.Join(dir, name+spoolSuffix)})
	}
	for _, t := range tasks {
		if !spools[t.Task] {
			return nil, &FileError{t.path, "missing, though its task was done; do the task again"}
		}
		delete(spools, t.Task)
		info, err := os.Stat(t.path)
		if err != nil {
			return nil, err
		}
		if info.Size() != t.Bytes {
			return nil, &FileError{t.path, fmt.Sprintf("%d bytes, but its receipt says %d; do the task again", info.Size(), t.Bytes)}
		}
	}
	for name := range spools {
		return nil, &FileError{filepath.Join(dir, name+spoolSuffix), "without a receipt: a copy, or the task has not ended"}
	}
	if len(tasks) == 0 {
		return nil, &FileError{dir, "no task has been done"}
	}
	return tasks, nil
}

// allTasks returns a hash of all receipts.
func allTasks(tasks []task) Hex {
	h := xxh3.New()
	for _, t := range tasks {
		h.Write(encode(t.Receipt))
	}
	return Hex(h.Sum64())
}

func (t task) bad(format string, args ...any) error {
	return &FileError{t.path, "damaged: " + fmt.Sprintf(format, args...) + "; do the task again"}
}

// open opens the spool, and reads its index.
func (t task) open() (f *os.File, index []byte, err error) {
	size := t.Bytes - int64(8*t.Keys) // of the index, and of the bytes before the first block
	if size < int64(len(spoolMagic)) || size > t.Bytes || (size-int64(len(spoolMagic)))%entryBytes != 0 {
		return nil, nil, t.bad("it cannot have the %d keys of its receipt", t.Keys)
	}
	if f, err = os.Open(t.path); err != nil {
		return nil, nil, err
	}
	index = make([]byte, size)
	err = t.read(f, index[:len(spoolMagic)], 0)
	if err == nil {
		err = t.read(f, index[len(spoolMagic):], t.Bytes-size+int64(len(spoolMagic)))
	}
	if err == nil && xxh3.Hash(index) != uint64(t.Digest) {
		err = t.bad("its index is not that of its receipt")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, index[len(spoolMagic):], nil
}

func (t task) read(f *os.File, b []byte, off int64) error {
	_, err := f.ReadAt(b, off)
	if err == io.EOF {
		return t.bad("it ends before byte %d", off+int64(len(b)))
	}
	return err
}

// blocks yields the hashes of each block of a shard. The hashes are valid until the next block.
func (t task) blocks(p *Plan, shard int) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		f, index, err := t.open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		hashes := make([]uint64, p.blockHashes())
		off := int64(len(spoolMagic))
		for entry := range slices.Chunk(index, entryBytes) {
			n := binary.LittleEndian.Uint32(entry[4:])
			if binary.LittleEndian.Uint32(entry) == uint32(shard) {
				block := hashes[:min(int(n), len(hashes))]
				err := t.read(f, recovery.Bytes(block), off)
				if err == nil && crc32.Checksum(recovery.Bytes(block), castagnoli) != binary.LittleEndian.Uint32(entry[8:]) {
					err = t.bad("the checksum of the %d hashes at %d bytes is wrong", n, off)
				}
				if !yield(block, err) || err != nil {
					return
				}
			}
			off += 8 * int64(n)
		}
	}
}
