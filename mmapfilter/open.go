package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// OpenReadOnly opens a filter for lookups. It needs only permission to read the file. It reads
// and checks the superblocks, 16 KiB; lookups read the rest page by page as they need it, and
// only [Verify] checks it. Another process may write to the file meanwhile: lookups see what it
// has committed (rule R1). If another file takes its place, Err returns [ErrSuperseded].
//
// OpenReadOnly writes in one case: if the writer of the file has died and this process may write
// to the file, it recovers the file first (rule R3). With [OpenOptions.NoRecover] it never
// writes.
//
// In WebAssembly (js and wasip1) and on 32-bit machines no file is mapped: OpenReadOnly reads the file
// into memory, as with [ResidencyHeap]. For a file of 2 GiB or more the error is
// errors.ErrUnsupported; calls that write return this error, too. [OpenReaderAt] reads a file of any
// size in parts.
//
// The errors are [ErrCorrupt]; [ErrVersion]; [ErrNeedsRecovery] if the writer has died and the
// file is not recovered; [ErrBusy] if ResidencyHeap is requested and the file has a writer or
// changed while it was copied; an [*OptionError]; and those of the file system, such as
// fs.ErrNotExist and fs.ErrPermission, or an error that says that path is not a regular file.
func OpenReadOnly(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	o, err := openReadOnly(path, opts)
	for tries := 0; errors.Is(err, ErrNeedsRecovery) && tries < openTries; tries++ {
		failed := makeServable(path, opts)
		held := new(LockedError)
		errors.As(failed, &held)
		if errors.Is(failed, ErrLocked) && !held.ReadLock { // another process is recovering the file, or already writes to it
			time.Sleep(time.Millisecond << tries)
			failed = nil
		}
		// Try again even after a failure: a writer may have closed the file between the
		// look at the superblock and the look at the lock.
		if o, err = openReadOnly(path, opts); failed != nil {
			if err != nil && !errors.Is(failed, ErrNeedsRecovery) {
				err = fmt.Errorf("%w: %w", err, failed)
			}
			break
		}
	}
	if errors.Is(err, ErrNeedsRecovery) && opts.ServeUnrecovered {
		o, err = openUnrecovered(path, opts)
	}
	if err != nil {
		return nil, about("open", path, err)
	}
	return newFilter(o), nil
}

// makeServable recovers the file at path. With NoRecover it only checks the lock: if
// another process has locked the file, and so may be about to recover it, the error is
// ErrLocked.
func makeServable(path string, opts *OpenOptions) error {
	if !opts.NoRecover {
		_, err := recoverFile(path, opts.RequireHashes, replayLog)
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch locked, err := osfile.Locked(f); {
	case err != nil:
		return err
	case locked:
		return ErrLocked
	}
	return ErrNeedsRecovery
}

// openUnrecovered opens a file whose writer has died, without a recovery. No lookup reads the file,
// since it may lack operations that are in the log and, after a power loss, any of its words may be old.
func openUnrecovered(path string, opts *OpenOptions) (*openFile, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if head.Superblock.State() != layout.Live { // recovered or closed meanwhile
		return openHead(f, head, opts)
	}
	o := newOpenFile(path, head, new(OpenOptions))
	o.unrecovered = true
	if !osfile.Maps {
		return o, o.copyFrom(f, head, opts)
	}
	m, err := osfile.Map(f, layout.OffRegion+head.Geometry.RegionBytes, false)
	if err != nil {
		return nil, err
	}
	if err := o.adopt(m, f, new(OpenOptions)); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

// openTries bounds how often a file is opened again because its writer seems to have died, since another
// process may be recovering it. The waits start at a millisecond, double, and add up to a second.
const openTries = 10

func newFilter(o *openFile) *Filter {
	filter := &Filter{hash: layout.NewHasher(o.superblock.Seed()), shard: o.superblock.Shard()}
	life, end := context.WithCancelCause(context.Background())
	filter.growth.life, filter.growth.end = life, func() { end(ErrClosed) }
	filter.growth.calls, filter.growth.endCalls = context.WithCancel(context.Background())
	filter.use(o)
	filter.beginExpiry(o)
	return filter
}

// use makes the filter use a file.
func (f *Filter) use(o *openFile) {
	f.open.Store(o)
	f.lookIn(o)
}

// lookIn makes lookups of single keys look in a file.
func (f *Filter) lookIn(o *openFile) {
	if o.unrecovered {
		f.answer(maybe, maybe)
		return
	}
	table := o.table
	if o.work != nil || o.checked || o.lines != nil {
		table = nil
	}
	own := layout.NewDirect(table, &o.view, &f.hash, o.contains)
	if f.shard.Count == 0 {
		f.answer(own, own)
		return
	}
	f.answer(layout.NewDirect(nil, nil, &f.hash, func(hash uint64) bool {
		local, ok := f.shard.Own(hash)
		return ok && o.contains(local)
	}), own)
}

func openReadOnly(path string, opts *OpenOptions) (*openFile, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return openHead(f, head, opts)
}

func openHead(f *os.File, head *osfile.Head, opts *OpenOptions) (*openFile, error) {
	if !osfile.Maps {
		heap := *opts
		heap.Residency, opts = ResidencyHeap, &heap
	}
	if head.Superblock.State() == layout.Live {
		if served, err := osfile.Served(f); err != nil || !served {
			return nil, errors.Join(ErrNeedsRecovery, err)
		}
		if opts.Residency == ResidencyHeap {
			return nil, ErrBusy // R5: a copy would mix several instants
		}
	}
	o := newOpenFile(f.Name(), head, opts)
	if opts.Residency == ResidencyHeap {
		return o, o.copyFrom(f, head, opts)
	}
	m, err := osfile.Map(f, layout.OffRegion+head.Geometry.RegionBytes, false)
	if err != nil {
		return nil, err
	}
	if err := o.adopt(m, f, opts); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

// copyFrom makes lookups read a copy of the file in the heap.
func (o *openFile) copyFrom(f *os.File, head *osfile.Head, opts *OpenOptions) error {
	words, err := osfile.ReadWords(f, head, opts.Progress)
	if err == nil {
		o.view = layout.NewView(words, head.Geometry)
	}
	return err
}

func newOpenFile(path string, head *osfile.Head, opts *OpenOptions) *openFile {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	table := layout.NewTable(head.Geometry)
	return &openFile{
		path:       path,
		table:      table,
		looks:      table,
		checked:    opts.Checked,
		residency:  opts.Residency,
		superblock: head.Superblock,
		info:       head.Info,
		geometry:   head.Geometry,
		fileBytes:  head.Size,
	}
}

// adopt makes lookups read a mapping of f, and unmaps it once o is garbage. If o has a writer, f is nil,
// and the writer's Work unmaps the file.
func (o *openFile) adopt(m *osfile.Mapping, f *os.File, opts *OpenOptions) error {
	sealed := o.work == nil && o.superblock.State() == layout.Sealed
	if err := o.makeResident(m, f, opts, sealed); err != nil {
		if fault := new(osfile.FaultError); errors.As(err, &fault) {
			err = build.Damage(o.geometry, fault)
		}
		return err
	}
	o.mapping, o.data = m, m.Data
	o.view = layout.NewView(recovery.Words(m.Data[layout.OffRuntime:layout.OffRegion+o.geometry.RegionBytes]), o.geometry)
	if o.work == nil {
		// Unmap only after the last lookup that may use the memory has let go of o.
		runtime.AddCleanup(o, func(m *osfile.Mapping) { m.Unmap() }, m)
	}
	return nil
}
