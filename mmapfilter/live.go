package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Recovery says what opening a file for writing found, and did.
type Recovery = recovery.Recovery

// Create makes an empty filter under path, and opens it as [Open] does. Its
// Capacity must be given. It fails with fs.ErrExist where there is a file.
// Whatever it fails with, it has left nothing behind; unless the error says that
// the new filter is complete, but could not be opened, or may not survive a power
// loss.
func Create(path string, opts *Options) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, about("create", path, err)
	}
	o := opts.withDefaults()
	if o.Capacity == 0 {
		return nil, about("create", path, optionError("Capacity", "an empty filter has no keys to be counted; say how many it is for"))
	}
	if opts == nil || opts.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if err := createFile(path, o); err != nil {
		return nil, about("create", path, err)
	}
	f, err := Open(path, &OpenOptions{CommitInterval: o.CommitInterval, LogBytes: o.LogBytes})
	if err != nil {
		return nil, fmt.Errorf("the new filter is complete: %w", err)
	}
	return f, nil
}

func createFile(path string, o Options) error {
	plan, err := o.plan(o.Capacity)
	if err != nil {
		return err
	}
	return createPlanned(path, plan, o)
}

func createPlanned(path string, plan Plan, o Options) error {
	draft, err := recovery.NewDraftOf(path)
	if err != nil {
		return err
	}
	if err := draft.Allocate(plan.geometry.SealedBytes); err != nil {
		return errors.Join(err, draft.Discard())
	}
	sb := newSuperblock(plan, o)
	sb.SetState(layout.Clean)
	sb.SetUUID(randomUUID())
	sb.Sign()
	if fault := recovery.Guard(draft.Data, func() { putCopies(draft.Data, &sb) }); fault != nil {
		return errors.Join(fault, draft.Discard())
	}
	return draft.PublishNew()
}

func randomUUID() (uuid [16]byte) {
	var h [2]uint64
	for i := range h {
		h[i] = rand.Uint64()
		for j := range 8 {
			uuid[8*i+j] = byte(h[i] >> (8 * j))
		}
	}
	return uuid
}

// Open opens a filter for reading and writing. One process at a time can; any
// number of others read it meanwhile. It takes a constant time, whatever the
// size of the file, and creates nothing: the log, NAME.stash, comes with the
// first operation, and goes with [Filter.Close]. The first operation on a sealed file that
// is in memory takes about 0.1 s for each GiB of it, see rule R4.
//
// Where a writer died, its file is recovered first, see [Filter.Recovery].
//
// The file is mapped twice, for lookups and for what is written: the resident set of this
// process (Rss) may have its pages twice, its share of the memory (Pss) has them once.
//
// The errors are those of [OpenReadOnly], save that [ErrNeedsRecovery] does not
// come, and [ErrLocked] where another process has the file open for writing.
func Open(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if opts.Residency == ResidencyHeap {
		return nil, optionError("Residency", "a copy in the heap cannot be written to")
	}
	o, err := openLive(path, opts)
	if err != nil {
		return nil, about("open", path, err)
	}
	return newFilter(o), nil
}

func openLive(path string, opts *OpenOptions) (o *openFile, err error) {
	files, err := recovery.OpenFiles(path)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() {
		if !done { // also in a panic
			err = errors.Join(err, files.Close())
		}
	}()
	var w *writer
	var found *Recovery
	fault := files.Guard(func() { w, found, err = newWriter(files, opts.LogBytes) }, func(error) {})
	if fault != nil {
		err = fault
	}
	if err == nil {
		err = files.Serve()
	}
	if err != nil {
		return nil, err
	}
	sb := *w.log.Superblock()
	o = newOpenFile(files.File().Name(), &recovery.Head{Superblock: &sb, Geometry: w.log.Geometry(), Size: w.log.Geometry().SealedBytes}, opts)
	o.warning = recovery.Warning(files.File())
	o.live = &live{file: o, writer: w, found: *found, files: files}
	o.live.interval = opts.CommitInterval
	if o.live.interval == 0 {
		o.live.interval = DefaultCommitInterval
	}
	if err := o.adopt(files.Mapping(), opts); err != nil {
		return nil, err
	}
	files.KeepMapping() // adopted
	w.behind, w.unsealing = o.live.behind, o.live.unsealing
	done = true
	return o, nil
}

// Recover does what [Open] does first: it takes the lock and, if a writer died,
// replays its log and leaves a clean file. What it found is in the Recovery. The
// errors are those of Open; a file that is damaged is left as it is.
func Recover(path string) (Recovery, error) {
	return recoverWith(path, replayLog)
}

// DiscardLog is [Recover] where the log is lost, damaged, or another file's: it leaves a
// clean file of what the filter file has by itself. Where the log is good, it is
// Recover, and discards nothing.
//
// What is lost cannot be known, so use it only where the keys cannot be had again. Any
// key may be answered "certainly not" from then on, synced or not: most likely those that
// were inserted since the last checkpoint, and after a power loss those that were moved
// since. Keys that were deleted may be "maybe". [Filter.DurableSeq] is that of the last
// checkpoint, and DurableOps may count operations that are lost. The log, if there is
// one under its name, is removed, also one of another file.
//
// The error is [ErrCorrupt] where a line is not one, which a power loss can leave too; the
// file is left as it is then, and has to be built from its keys.
func DiscardLog(path string) (Recovery, error) {
	return recoverWith(path, recovery.DiscardLog)
}

func recoverWith(path string, recover func(recovery.Volume) (*Recovery, error)) (Recovery, error) {
	found, err := recoverFile(path, recover)
	if err != nil {
		return Recovery{}, about("recover", path, err)
	}
	return *found, nil
}

func replayLog(vol recovery.Volume) (*Recovery, error) {
	_, found, err := recovery.NewWriter(vol)
	return found, err
}

func recoverFile(path string, recover func(recovery.Volume) (*Recovery, error)) (found *Recovery, err error) {
	files, err := recovery.OpenFiles(path)
	if err != nil {
		return nil, err
	}
	fault := files.Guard(func() { found, err = recover(files) }, func(error) {})
	if fault != nil {
		err = fault
	}
	return found, errors.Join(err, files.Close())
}

// live is what a filter that is open for writing has beside its mapping.
type live struct {
	file     *openFile // so that the mapping lives as long as work in the background
	writer   *writer
	found    Recovery
	files    *recovery.Files // for guard
	interval time.Duration

	background struct {
		sync.WaitGroup
		sync.Mutex
		timer         *time.Timer // to the next commit, or nil
		checkpointing bool
		closed        bool
	}
}

// behind commits after the interval, and checkpoints, in the background. It is
// called under the writer's lock.
func (l *live) behind(need int) {
	b := &l.background
	b.Lock()
	defer b.Unlock()
	if b.closed {
		return
	}
	if b.timer == nil && l.interval > 0 {
		b.Add(1)
		b.timer = time.AfterFunc(l.interval, func() {
			defer b.Done()
			b.Lock()
			b.timer = nil
			b.Unlock()
			l.guard(func() error { return l.writer.sync(false, 0) })
		})
	}
	if need > 0 && !b.checkpointing {
		b.checkpointing = true
		b.Add(1)
		go func() {
			defer b.Done()
			l.guard(func() error { return l.writer.checkpointFor(need) })
			b.Lock()
			b.checkpointing = false
			b.Unlock()
		}()
	}
}

// unsealing has the system hold the file in small pages from now on (R4): as long as nothing
// is stored to it, that can be had. What was in memory is read again in the background. It is
// called under the writer's lock.
func (l *live) unsealing() {
	b := &l.background
	b.Lock()
	defer b.Unlock()
	if b.closed || !l.files.ShrinkPages() {
		return
	}
	b.Add(1)
	go func() {
		defer b.Done()
		l.files.Mapping().Populate(true, func(int64, int64) bool {
			b.Lock()
			defer b.Unlock()
			return !b.closed
		})
	}()
}

// guard runs f; a fault in a mapped file, from a disk that failed, poisons the
// writer (W8), and so does a panic, which leaves something half done.
func (l *live) guard(f func() error) (err error) {
	log := l.writer.log
	if l.files.Guard(func() { err = f() }, func(cause error) { log.Fail(cause) }) != nil {
		err = log.Err()
	}
	runtime.KeepAlive(l)
	return err
}

func (l *live) close() error {
	b := &l.background
	b.Lock()
	b.closed = true
	if b.timer != nil && b.timer.Stop() {
		b.Done()
	}
	b.Unlock()
	b.Wait()
	err := l.guard(l.writer.clean)
	l.writer.released.Store(true)
	l.writer.mu.Lock() // Stats may be under way
	defer l.writer.mu.Unlock()
	return errors.Join(err, l.writer.log.Close())
}

// superblock is a copy of the newest one.
func (l *live) superblock() *layout.Superblock {
	l.writer.mu.Lock()
	defer l.writer.mu.Unlock()
	sb := *l.writer.log.Superblock()
	return &sb
}

// stats fills in what only the writer knows.
func (l *live) stats(s *Stats) {
	w := l.writer
	w.mu.Lock()
	s.LogBytes, _ = w.log.LogBytes()
	if cause := w.log.Cramped(); cause != nil {
		s.Warning = joinWarnings(s.Warning, fmt.Sprintf("the log keeps its size: %v", cause))
	}
	s.StashLen, s.Pending = w.mu.stashLen, w.mu.pending
	w.mu.Unlock()
	s.Len = w.length.Load()
	s.DurableSeq, _, _ = w.log.Durable()
	s.Commits, s.Checkpoints = w.log.Counts()
	s.LongestStall = time.Duration(w.longestStall.Load())
	s.WriterAlive = w.log.Err() == nil
}

// write gives what a mutation works on.
func (f *Filter) write() (*openFile, error) {
	o := f.open.Load()
	switch {
	case o == nil && !(f.waiting && !f.closed.Load()):
		return nil, ErrClosed
	case o == nil || o.live == nil:
		return nil, ErrReadOnly
	}
	return o, nil
}

// Insert puts a key in. When it returns nil the key is found from then on, by
// this process at once and by others after the next commit; it survives the
// death of the process (C2), and after the next [Filter.Sync] or commit the loss
// of power (C1). Equal keys count (C7).
//
// The errors are [ErrFull], where there is no room for the key and nothing has
// changed, [ErrReadOnly], [ErrClosed] and [ErrFailed].
func (f *Filter) Insert(key []byte) error { return f.InsertHash(f.hash.Hash(key)) }

// InsertString is Insert for a key in a string.
func (f *Filter) InsertString(key string) error {
	return f.InsertHash(f.hash.HashString(key))
}

// InsertHash is Insert for a key whose [Filter.Hash] is known. Other numbers must
// be as well mixed as a hash; a sequence that is not fills few lines, and finds
// the filter full.
func (f *Filter) InsertHash(hash uint64) error {
	o, err := f.write()
	if err != nil {
		return err
	}
	o.live.writer.prefetchHome(hash)
	return o.live.guard(func() error { return o.live.writer.insert(hash) })
}

// InsertBatch inserts keys in their order, up to the first that gives an error.
// It gives the number of those before it. It is faster than as many calls of
// Insert, and neither more durable nor less.
func (f *Filter) InsertBatch(keys [][]byte) (n int, err error) {
	o, err := f.write()
	if err != nil {
		return 0, err
	}
	var hashes, following [insertBlock]uint64
	next := f.hashKeys(keys, &following)
	for n < len(keys) {
		block := hashes[:copy(hashes[:], next)]
		next = f.hashKeys(keys[n+len(block):], &following)
		err := o.live.guard(func() error { return o.live.writer.insertAll(block, next, &n) })
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// hashKeys hashes the first insertBlock keys, or all if there are fewer.
func (f *Filter) hashKeys(keys [][]byte, to *[insertBlock]uint64) (hashes []uint64) {
	keys = keys[:min(insertBlock, len(keys))]
	for i, key := range keys {
		to[i] = f.hash.Hash(key)
	}
	return to[:len(keys)]
}

// InsertUnique puts a key in unless a lookup says that it may be there already;
// added is false then. Both are one step: of several goroutines that insert one
// key, one adds it. A key that is refused because of a false positive counts for
// nothing later: do not use it together with Delete.
func (f *Filter) InsertUnique(key []byte) (added bool, err error) {
	o, err := f.write()
	if err != nil {
		return false, err
	}
	hash := f.hash.Hash(key)
	o.live.writer.prefetchHome(hash)
	err = o.live.guard(func() (err error) {
		added, err = o.live.writer.insertUnique(hash)
		return err
	})
	return added, err
}

// Delete takes a key out that has been inserted. It reports false, and changes
// nothing, where the key is certainly not there.
//
// Deleting a key that was never inserted, where the filter says "maybe" of it,
// takes away the fingerprint of another key, which may then be answered
// "certainly not" (C6). No filter of fingerprints can tell. The errors are
// those of [Filter.Insert] without ErrFull.
func (f *Filter) Delete(key []byte) (bool, error) { return f.DeleteHash(f.hash.Hash(key)) }

// DeleteString is Delete for a key in a string.
func (f *Filter) DeleteString(key string) (bool, error) {
	return f.DeleteHash(f.hash.HashString(key))
}

// DeleteHash is Delete for a key whose [Filter.Hash] is known.
func (f *Filter) DeleteHash(hash uint64) (deleted bool, err error) {
	o, err := f.write()
	if err != nil {
		return false, err
	}
	o.live.writer.prefetchHome(hash)
	err = o.live.guard(func() (err error) {
		deleted, err = o.live.writer.delete(hash)
		return err
	})
	return deleted, err
}

// Sync makes everything that was done before it durable, and visible to other
// processes (W3). After an error, which is [ErrFailed] from then on, the file
// has to be opened again; nothing that an earlier Sync returned nil for is lost.
func (f *Filter) Sync() error {
	return f.commit(func(w *writer) error { return w.sync(false, 0) })
}

// SyncAt is Sync, and notes a number of the caller's choice with it, such as a
// position in the stream that the keys come from. [Filter.DurableSeq] gives it
// back, also after a crash.
func (f *Filter) SyncAt(seq uint64) error {
	return f.commit(func(w *writer) error { return w.sync(true, seq) })
}

func (f *Filter) commit(sync func(*writer) error) error {
	o, err := f.write()
	if err != nil {
		return err
	}
	return o.live.guard(func() error { return sync(o.live.writer) })
}

// DurableSeq gives the number of the last [Filter.SyncAt] that is durable; 0
// where there was none, and after Close.
func (f *Filter) DurableSeq() uint64 {
	seq, _ := f.durable()
	return seq
}

// DurableOps gives how many operations since that SyncAt are durable. A client
// that continues after a crash repeats what it did since the SyncAt of number
// DurableSeq, without the first DurableOps operations; then none is lost and
// none is done twice. An operation is a call of Insert, InsertUnique, Delete or
// their kin, or a key of InsertBatch, that returned no error or [ErrFull],
// whether it changed anything or not. (Where the last operations before a crash
// changed nothing, they may not be counted. To repeat them does no harm.)
func (f *Filter) DurableOps() uint64 {
	_, ops := f.durable()
	return ops
}

func (f *Filter) durable() (seq, ops uint64) {
	o := f.open.Load()
	if o == nil {
		return 0, 0
	}
	if o.live == nil {
		sb := o.newest()
		return sb.UserSeq(), sb.Operation()
	}
	seq, ops, _ = o.live.writer.log.Durable()
	return seq, ops
}

// Recovery gives what opening the file for writing found, and did. It is zero
// for a filter opened for reading, and after Close.
func (f *Filter) Recovery() Recovery {
	if o, err := f.write(); err == nil {
		return o.live.found
	}
	return Recovery{}
}

// Checkpoint is Sync, and makes the filter file hold everything by itself, so
// that the log begins again, and a recovery has little to do. It is done by
// itself when the log is full. It takes as long as it takes to write what has
// changed to the disk; operations wait for the last part of it. The context is
// looked at before it begins.
func (f *Filter) Checkpoint(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return f.commit((*writer).checkpoint)
}

// Count gives the number of items of the class of a key: those that have the
// same lines, the same buckets and the same fingerprint. It is at least the
// number of times that the key is in the filter, and more only where another
// key has the same fingerprint there (C7). Where it cannot tell, it is
// math.MaxUint64, the bound that always holds: after Close, after a fault, and where
// the writer, in another process, moves these items all the time.
func (f *Filter) Count(key []byte) uint64 {
	o := f.open.Load()
	if o == nil || o.unknown() {
		return unknownCount
	}
	hash := f.hash.Hash(key)
	n := uint64(unknownCount)
	if o.live != nil {
		o.live.guard(func() error { n = o.live.writer.count(hash); return nil })
	} else {
		o.guard(func() { n = o.count(hash) })
	}
	runtime.KeepAlive(o)
	return n
}

const unknownCount = math.MaxUint64

// count is countBeside for the words of the mapping.
func (o *openFile) count(hash uint64) uint64 { return countBeside(o.table, o.view.At, hash) }

// countBeside counts the items of the class of a hash in words that come from anywhere: at
// gives the word of a file with that number, as for Table.Lookup. It counts again while a
// writer takes something away from where it looks, as a lookup looks again (R2).
func countBeside(t layout.Table, at func(word uint64) uint64, hash uint64) uint64 {
	it := t.Split(hash)
	counters := []uint64{layout.WordRuntime + layout.RuntimeEpoch, layout.WordRuntime + layout.RuntimeStashCounter}
	for _, line := range []uint64{it.Line, t.Alternate(it).Line} {
		first, n := t.Words(line)
		for _, word := range []uint64{first, first + uint64(n) - 1} {
			counters = append(counters, layout.WordRuntime+layout.CounterOf(layout.WordRegion+word))
		}
	}
	sum := func() (sum, odd uint64) { // counters only go up
		for _, c := range counters {
			v := at(c)
			sum, odd = sum+v, odd|v&1
		}
		return sum, odd
	}
	load := func(line uint64, l *layout.Line) (first, n uint64) {
		word, words := t.Words(line)
		first = layout.WordRegion + word
		for i := range l[:words] {
			l[i] = at(first + uint64(i))
		}
		return first, uint64(words)
	}
	for range countTries {
		before, odd := sum()
		n := countItems(t, load, at, it)
		if after, _ := sum(); after == before && odd == 0 {
			return n
		}
	}
	return unknownCount
}

// countTries is as many as a lookup has.
const countTries = 8
