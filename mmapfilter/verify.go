package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Report says what [Verify] checked and found. Items and StashLen are valid only if Damage is
// empty.
type Report struct {
	FileBytes int64
	Sealed    bool            // every byte of the file is under a checksum or must be zero
	Chunks    int64           // chunks of 64 KiB that were checked against their checksums
	Items     uint64          // items counted in the lines and in the stash
	StashLen  int             // stash entries in use
	Hashes    uint64          // kept hashes (see Options.KeepHashes) that the table was held against
	HashesErr error           // why the table was not held against kept hashes, although the filter is to keep them; matches ErrNoHashes
	Damage    []*CorruptError // ordered by offset; at most 1,000 of them
}

// maxDamage bounds the list in a [Report].
const maxDamage = 1000

// Verify reads a whole filter file and checks every rule of its format. In a sealed file it
// finds any changed byte. (If another copy is intact, it accepts a superblock copy that is all
// zero, or that a killed writer left without a checksum.) A file that was written to and closed
// without a seal has no checksums for its lines; Verify checks their structure and counts the
// items. If the filter keeps its hashes, Verify also looks each of them up, and compares the items
// with them. That finds a changed bit in the lines of any file at rest, except an overflow bit that
// is set without need in Blocked, which makes no answer wrong. For many hashes it needs a temporary
// file, in the directory for such files.
//
// If the file is damaged, the error is the first entry of Report.Damage and matches
// [ErrCorrupt]. Other errors are those of [OpenReadOnly], [ErrBusy] if a writer has the file
// open or wrote to it meanwhile, and the cause of a cancelled context. The Report holds what was
// found up to then. Verify writes nothing, so for a file whose writer has died the error is
// [ErrNeedsRecovery].
func Verify(ctx context.Context, path string) (Report, error) {
	return VerifyProgress(ctx, path, func(done, total int64) {})
}

// VerifyProgress is [Verify] and calls progress, from one goroutine at a time, with the bytes
// read so far and the total.
func VerifyProgress(ctx context.Context, path string, progress func(done, total int64)) (Report, error) {
	r, err := verifyFile(ctx, path, progress)
	if err != nil {
		return r, about("verify", path, err)
	}
	return r, nil
}

func verifyFile(ctx context.Context, path string, progress func(done, total int64)) (Report, error) {
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	state := head.Superblock.State()
	r := Report{FileBytes: head.Size, Sealed: state == layout.Sealed}
	if state == layout.Live {
		return r, liveError(f, path, head)
	}
	m, err := recovery.Map(f, head.Size, false)
	if err != nil {
		return r, err
	}
	defer m.Unmap()
	v := &verification{report: &r, head: head, data: m.Data, progress: progress}
	err = v.run(ctx)
	if err == nil && len(r.Damage) == 0 && head.Superblock.KeepsHashes() {
		err = v.checkHashes(ctx, path)
	}
	slices.SortFunc(r.Damage, func(a, b *CorruptError) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	if busy := stillSame(f, head); busy != nil {
		return r, busy
	}
	if err == nil && len(r.Damage) > 0 {
		err = r.Damage[0]
	}
	return r, err
}

// liveError says why a file that is not closed cannot be verified. A writer that has closed the file
// since its head was read, or has put another file in its place, has not died.
func liveError(f *os.File, path string, head *recovery.Head) error {
	beforeAsking()
	if held, err := recovery.Locked(f); err != nil || held {
		return errors.Join(ErrBusy, err)
	}
	if err := stillSame(f, head); err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, head.Info) {
		return errors.Join(ErrBusy, err)
	}
	return ErrNeedsRecovery
}

// stillSame returns ErrBusy if a writer changed the file since its head was read.
func stillSame(f *os.File, head *recovery.Head) error {
	var again [layout.OffRuntime]byte
	if _, err := f.ReadAt(again[:], 0); err == io.EOF {
		return nil // cut short: damage that has already been found
	} else if err != nil {
		return err
	}
	if !bytes.Equal(again[:], head.Raw[:]) {
		return ErrBusy
	}
	return nil
}

// A verification is one Verify in progress.
type verification struct {
	report *Report
	head   *recovery.Head
	data   []byte // the mapped file

	progress func(done, total int64)
	mu       struct {
		sync.Mutex       // guards report.Damage as well
		read       int64 // bytes
	}
}

// advance reports that the bytes [from, to) of the file have been read.
func (v *verification) advance(from, to int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.read += to - from
	v.progress(v.mu.read, v.head.Geometry.OffTable-layout.OffRuntime)
}

func (v *verification) damaged(e *CorruptError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Damage) < maxDamage {
		v.report.Damage = append(v.report.Damage, e)
	}
}

// run checks the parts of the file. If nothing is damaged, it then checks whether together they
// hold as many items as the superblock says.
func (v *verification) run(ctx context.Context) error {
	g, sb := v.head.Geometry, v.head.Superblock
	table := v.data[g.OffTable:g.OffTable]
	if v.report.Sealed {
		for _, e := range layout.CheckSlots(v.head.Raw[:], sb) {
			v.damaged(e)
		}
		table = v.checkTail()
	}
	inLines, err := v.checkPieces(ctx, table)
	if err != nil || len(v.report.Damage) > 0 {
		return err
	}
	v.guarded(func() {
		for off := layout.OffRegion + g.RegionBytes; off < g.OffTable; off++ {
			if v.data[off] != 0 {
				v.damaged(&CorruptError{Region: layout.RegionBuckets, Offset: off, Rule: "F10: padding after the last line is not zero"})
				return
			}
		}
		view := layout.NewView(recovery.Words(v.data[layout.OffRuntime:layout.OffRegion+g.RegionBytes]), g)
		entries, inStash, err := layout.CheckStash(layout.NewTable(g), &view)
		v.report.StashLen, v.report.Items = entries, inLines+inStash
		if e, ok := err.(*CorruptError); ok {
			v.damaged(e)
		} else if v.report.Items != sb.Length() {
			v.damaged(&CorruptError{Region: layout.RegionSuperblock, Offset: int64(v.head.Slot * layout.SuperblockBytes),
				Rule: fmt.Sprintf("F13: the superblock says %d items, but the lines hold %d and the stash %d", sb.Length(), inLines, inStash)})
		}
	})
	return nil
}

// checkTail checks what follows the region and returns the table of checksums, or nil
// if the table itself is damaged.
func (v *verification) checkTail() (table []byte) {
	g := v.head.Geometry
	v.guarded(func() {
		tail := v.data[g.OffTable:]
		table = tail[:4*g.Chunks]
		if e := layout.CheckTail(v.head.Superblock, g, tail); e != nil {
			v.damaged(e)
			if e.Region == layout.RegionChecksums {
				table = nil
			}
		}
	})
	return table
}

// checkPieces checks every chunk against its checksum in the table, if there is one,
// and every line against the rules for lines. It counts the items in the lines.
func (v *verification) checkPieces(ctx context.Context, table []byte) (items uint64, err error) {
	g := v.head.Geometry
	t := layout.NewTable(g)
	region := recovery.Words(v.data[layout.OffRegion : layout.OffRegion+g.RegionBytes])
	pieces := sweep.NewPieces(g)
	var inLines, chunks atomic.Int64
	var broken atomic.Pointer[CorruptError] // a line that breaks a rule, in case checksums find nothing
	run := func(i int) error {
		first, end := pieces.Chunks(i)
		defer v.advance(pieces.Bytes(i))
		for c := first; c < end && len(table) > 0; c++ {
			chunks.Add(1)
			if e := layout.CheckChunk(g, c, g.ChunkOf(v.data, c), layout.Checksum(table, c)); e != nil {
				v.damaged(e)
			}
		}
		from, to := pieces.Lines(i)
		n, line, err := layout.CheckLines(t, region, from, to)
		inLines.Add(int64(n))
		if err != nil {
			broken.CompareAndSwap(nil, &CorruptError{Region: layout.RegionBuckets, Offset: g.LineOffset(line),
				Rule: err.Error()})
		}
		return nil
	}
	err = sweep.Each(ctx, runtime.GOMAXPROCS(0), pieces.N(), v.data, func() (func(int) error, func() error) {
		return run, func() error { return nil }
	})
	if fault, ok := err.(*recovery.FaultError); ok {
		v.damaged(corruption(g, fault))
		err = nil
	}
	v.report.Chunks = chunks.Load()
	if e := broken.Load(); e != nil && len(v.report.Damage) == 0 {
		v.damaged(e)
	}
	return uint64(inLines.Load()), err
}

// guarded runs f on the mapped file and records a fault as damage.
func (v *verification) guarded(f func()) {
	if fault := recovery.Catch(v.data, f); fault != nil {
		v.damaged(corruption(v.head.Geometry, fault))
	}
}
