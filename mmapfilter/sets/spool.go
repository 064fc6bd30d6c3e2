package sets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/crc32"
	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// The parts of a spool; the package essay has them in tables.
const (
	spoolMagic  = "MMSPOOL1"
	blockMagic  = "MMSBLOCK"
	footerMagic = "MMSPOOLE"
	headBytes   = 64 // of the head of the spool, of a block, and of the foot
	entryBytes  = 8  // of the index, for each block

	// A block has blockBytes. With many shards it has fewer, so that one block for each shard takes
	// about openBytes together; but it has at least leastBytes, so that readers need not seek too
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
	bytes := min(max(openBytes/p.Shards, leastBytes), blockBytes)
	return (bytes - headBytes) / 8
}

// checkTask checks that the name of a task can be a file name.
func checkTask(task string) error {
	if task == "" || len(task) > longestTask || task[0] == '.' || task[0] == '-' || strings.Trim(task, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
		return fmt.Errorf("%q cannot name a task: it needs 1 to %d of the characters a-z, A-Z, 0-9, '.', '_', '-', and must not begin with one of the last two or '.'", task, longestTask)
	}
	return nil
}

// A head is the first 64 bytes of a spool, of a block, or of the foot.
type head [headBytes]byte

func (h *head) sign() {
	binary.LittleEndian.PutUint32(h[headBytes-4:], crc32.Checksum(h[:headBytes-4], castagnoli))
}

// isOf reports whether the head is intact and begins like begin.
func (h *head) isOf(begin head) bool {
	return string(h[:32]) == string(begin[:32]) && binary.LittleEndian.Uint32(h[headBytes-4:]) == crc32.Checksum(h[:headBytes-4], castagnoli)
}

func (p *Plan) head(magic, task string) (h head) {
	copy(h[:], magic)
	copy(h[8:24], p.id[:])
	binary.LittleEndian.PutUint64(h[24:], xxh3.HashString(task))
	return h
}

// A Spool takes the hashes of the keys of one task, and keeps them in blocks, each of one shard.
type Spool struct {
	plan   *Plan
	dir    string
	task   string
	out    *osfile.Output
	hash   layout.Hasher
	open   [][]uint64 // a block for each shard
	index  []byte
	digest xxh3.Hasher // of the heads of the blocks
	size   int64
	keys   uint64
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
	s := &Spool{plan: p, dir: dir, task: task, out: out, hash: p.hasher(), open: make([][]uint64, p.Shards), size: headBytes}
	h := p.head(spoolMagic, task)
	binary.LittleEndian.PutUint32(h[32:], uint32(p.Shards))
	binary.LittleEndian.PutUint32(h[36:], uint32(p.blockHashes()))
	h.sign()
	if _, err := out.Write(h[:]); err != nil {
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

// put writes the block of a shard.
func (s *Spool) put(shard int) error {
	block := s.open[shard]
	if len(block) == 0 {
		return nil
	}
	payload := recovery.Bytes(block)
	h := s.plan.head(blockMagic, s.task)
	binary.LittleEndian.PutUint32(h[32:], uint32(shard))
	binary.LittleEndian.PutUint32(h[36:], uint32(len(block)))
	binary.LittleEndian.PutUint64(h[40:], uint64(len(s.index)/entryBytes))
	binary.LittleEndian.PutUint32(h[48:], crc32.Checksum(payload, castagnoli))
	h.sign()
	s.digest.Write(h[:])
	if _, err := s.out.Write(h[:]); err != nil {
		return err
	}
	if _, err := s.out.Write(payload); err != nil {
		return err
	}
	s.index = binary.LittleEndian.AppendUint32(s.index, uint32(shard))
	s.index = binary.LittleEndian.AppendUint32(s.index, uint32(len(block)))
	s.size += int64(headBytes + len(payload))
	s.keys += uint64(len(block))
	s.open[shard] = block[:0]
	return nil
}

// A Receipt says that a task is done. It stands beside the spool.
type Receipt struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Plan    string `json:"plan"`
	Task    string `json:"task"`
	Keys    uint64 `json:"keys"`   // keys that were read
	Bytes   int64  `json:"bytes"`  // of the spool
	Digest  Hex    `json:"digest"` // of the heads of its blocks, which have the checksums of the rest
}

// Close makes the spool durable, and then the receipt. Doing a task again with the same keys in the
// same order leaves the same bytes. If the task was done before with other keys, that is an error: the
// second of two tasks with one name would replace the first.
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

// finish writes the open blocks, the index and the foot.
func (s *Spool) finish() (*Receipt, error) {
	for shard := range s.open {
		if err := s.put(shard); err != nil {
			return nil, err
		}
	}
	r := &Receipt{taskFormat, 1, s.plan.ID(), s.task, s.keys, s.size + int64(len(s.index)) + headBytes, Hex(s.digest.Sum64())}
	foot := s.plan.head(footerMagic, s.task)
	binary.LittleEndian.PutUint64(foot[32:], uint64(len(s.index)/entryBytes))
	binary.LittleEndian.PutUint64(foot[40:], s.keys)
	binary.LittleEndian.PutUint32(foot[48:], crc32.Checksum(s.index, castagnoli))
	binary.LittleEndian.PutUint64(foot[52:], uint64(r.Digest))
	foot.sign()
	if _, err := s.out.Write(s.index); err != nil {
		return nil, err
	}
	if _, err := s.out.Write(foot[:]); err != nil {
		return nil, err
	}
	return r, nil
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
	path string   // of the spool
	file *os.File // the spool itself, if it is open, or nil
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
		tasks = append(tasks, task{r, filepath.Join(dir, name+spoolSuffix), nil})
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

// A spoolReader reads the blocks of one shard.
type spoolReader struct {
	plan  *Plan
	task  task
	file  *os.File
	index []byte
}

func openSpool(p *Plan, t task) (*spoolReader, error) {
	r := &spoolReader{plan: p, task: t, file: t.file}
	var err error
	if r.file == nil {
		if r.file, err = os.Open(t.path); err != nil {
			return nil, err
		}
	}
	if err := r.readIndex(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *spoolReader) close() error {
	if r.file == r.task.file {
		return nil
	}
	return r.file.Close()
}

func (r *spoolReader) bad(format string, args ...any) error {
	return &FileError{r.task.path, "damaged: " + fmt.Sprintf(format, args...) + "; do the task again"}
}

func (r *spoolReader) readIndex() error {
	var first, foot head
	if err := r.read(first[:], 0); err != nil {
		return err
	}
	if !first.isOf(r.plan.head(spoolMagic, r.task.Task)) ||
		binary.LittleEndian.Uint32(first[32:]) != uint32(r.plan.Shards) || binary.LittleEndian.Uint32(first[36:]) != uint32(r.plan.blockHashes()) {
		return r.bad("its head is not that of task %s of the plan", r.task.Task)
	}
	if err := r.read(foot[:], r.task.Bytes-headBytes); err != nil {
		return err
	}
	blocks := binary.LittleEndian.Uint64(foot[32:])
	if !foot.isOf(r.plan.head(footerMagic, r.task.Task)) ||
		binary.LittleEndian.Uint64(foot[40:]) != r.task.Keys || binary.LittleEndian.Uint64(foot[52:]) != uint64(r.task.Digest) || blocks > uint64(r.task.Bytes)/entryBytes {
		return r.bad("its foot is not that of task %s with the %d keys of its receipt", r.task.Task, r.task.Keys)
	}
	r.index = make([]byte, blocks*entryBytes)
	if err := r.read(r.index, r.task.Bytes-headBytes-int64(len(r.index))); err != nil {
		return err
	}
	if crc32.Checksum(r.index, castagnoli) != binary.LittleEndian.Uint32(foot[48:]) {
		return r.bad("the checksum of its index is wrong")
	}
	return nil
}

func (r *spoolReader) read(b []byte, off int64) error {
	if off < 0 {
		return r.bad("it is too short")
	}
	_, err := r.file.ReadAt(b, off)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return r.bad("it ends at %d bytes", off)
	}
	return err
}

// blocks yields the hashes of each block of a shard. They are valid until the next one.
func (t task) blocks(p *Plan, shard int) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		r, err := openSpool(p, t)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.close()
		hashes := make([]uint64, headBytes/8+p.blockHashes())
		off := int64(headBytes)
		for i := range len(r.index) / entryBytes {
			entry := r.index[i*entryBytes:]
			in, n := int(binary.LittleEndian.Uint32(entry)), int(binary.LittleEndian.Uint32(entry[4:]))
			if n > p.blockHashes() {
				yield(nil, r.bad("block %d has %d hashes", i, n))
				return
			}
			block := hashes[:headBytes/8+n]
			if in == shard {
				if err := r.readBlock(block, off, shard, i); !yield(block[headBytes/8:], err) || err != nil {
					return
				}
			}
			off += int64(8 * len(block))
		}
	}
}

// readBlock reads the head and the hashes of a block of a shard.
func (r *spoolReader) readBlock(words []uint64, off int64, shard, number int) error {
	block := recovery.Bytes(words)
	if err := r.read(block, off); err != nil {
		return err
	}
	h, payload := head(block[:headBytes]), block[headBytes:]
	if !h.isOf(r.plan.head(blockMagic, r.task.Task)) ||
		binary.LittleEndian.Uint32(h[32:]) != uint32(shard) || binary.LittleEndian.Uint32(h[36:]) != uint32(len(payload)/8) ||
		binary.LittleEndian.Uint64(h[40:]) != uint64(number) || binary.LittleEndian.Uint32(h[48:]) != crc32.Checksum(payload, castagnoli) {
		return r.bad("block %d of shard %d, at %d bytes, is not what was written", number, shard, off)
	}
	return nil
}
