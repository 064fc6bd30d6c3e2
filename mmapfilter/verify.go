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
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Report says what [Verify] looked at and what it found.
type Report struct {
	FileBytes int64
	Sealed    bool            // every byte of the file is under a checksum or must be zero
	Chunks    int64           // chunks of 64 KiB that were held against their checksums
	Items     uint64          // keys counted in the lines and in the stash
	StashLen  int             // stash entries in use
	Damage    []*CorruptError // in the order of the file; of more, any 1,000
}

// maxDamage bounds the list in a [Report].
const maxDamage = 1000

// Verify reads all of a filter file and checks every rule of its format. Of a
// sealed file it finds any change of a byte (a superblock copy may be all zero, or
// one that a killed writer left without its checksum, if another one is intact). A
// file that was written to and closed has no checksums of its lines: there it checks
// their structure and counts the keys.
//
// The error of a damaged file is the first entry of Report.Damage and matches
// [ErrCorrupt]. The other errors are those of [OpenReadOnly], [ErrBusy] where
// the file was written to at the same time, and the cause of a context that
// was cancelled. The Report holds what was found until then.
func Verify(ctx context.Context, path string) (Report, error) {
	return VerifyProgress(ctx, path, func(done, total int64) {})
}

// VerifyProgress is [Verify], and calls progress as it goes on, from one
// goroutine at a time, with the bytes read so far and in all.
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
		return r, liveError(f)
	}
	m, err := recovery.Map(f, head.Size, false)
	if err != nil {
		return r, err
	}
	defer m.Unmap()
	v := &verification{report: &r, head: head, data: m.Data, progress: progress}
	err = v.run(ctx)
	slices.SortFunc(r.Damage, func(a, b *CorruptError) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	if busy := stillSame(f, head); busy != nil {
		return r, busy
	}
	if err == nil && len(r.Damage) > 0 {
		err = r.Damage[0]
	}
	return r, err
}

// liveError says why a file that is not closed cannot be verified.
func liveError(f *os.File) error {
	if held, err := recovery.Locked(f); err != nil || held {
		return errors.Join(ErrBusy, err)
	}
	return ErrNeedsRecovery
}

// stillSame reports whether someone wrote to the file since its head was read.
func stillSame(f *os.File, head *recovery.Head) error {
	var again [layout.OffRuntime]byte
	if _, err := f.ReadAt(again[:], 0); err == io.EOF {
		return nil // cut short: that is damage, and has been found
	} else if err != nil {
		return err
	}
	if !bytes.Equal(again[:], head.Raw[:]) {
		return ErrBusy
	}
	return nil
}

// A verification is one Verify under way.
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

// advance reports that more bytes have been read.
func (v *verification) advance(bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.read += bytes
	v.progress(v.mu.read, v.head.Geometry.OffTable-layout.OffRuntime)
}

func (v *verification) damaged(e *CorruptError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Damage) < maxDamage {
		v.report.Damage = append(v.report.Damage, e)
	}
}

// run checks the parts of the file, and then, where nothing is damaged, that
// together they hold as many keys as the superblock says.
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
				Rule: fmt.Sprintf("F13: the length is %d, the lines hold %d keys and the stash %d", sb.Length(), inLines, inStash)})
		}
	})
	return nil
}

// checkTail checks what comes after the region, and gives the table of
// checksums, or none where the table itself is damaged.
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

// checkPieces holds every chunk against its checksum in the table, if there is
// one, and every line against what a line can be; it counts the keys in them.
func (v *verification) checkPieces(ctx context.Context, table []byte) (items uint64, err error) {
	g := v.head.Geometry
	t := layout.NewTable(g)
	region := recovery.Words(v.data[layout.OffRegion : layout.OffRegion+g.RegionBytes])
	pieces := newPieces(g)
	var inLines, chunks atomic.Int64
	var broken atomic.Pointer[CorruptError] // a line that cannot be, where checksums found nothing
	run := func(i int) error {
		first, end := pieces.chunks(i)
		defer v.advance(pieces.bytes(i))
		for c := first; c < end && len(table) > 0; c++ {
			chunks.Add(1)
			if e := layout.CheckChunk(g, c, g.ChunkOf(v.data, c), layout.Checksum(table, c)); e != nil {
				v.damaged(e)
			}
		}
		from, to := pieces.lines(i)
		n, line, err := t.CheckLines(region, from, to)
		inLines.Add(int64(n))
		if err != nil {
			broken.CompareAndSwap(nil, &CorruptError{Region: layout.RegionBuckets, Offset: g.LineOffset(line),
				Rule: fmt.Sprintf("F10: line %d: %v", line, err)})
		}
		return nil
	}
	err = forEach(ctx, runtime.GOMAXPROCS(0), pieces.n, v.data, func() (func(int) error, func() error) {
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

// guarded runs f on the mapped file; a fault is damage.
func (v *verification) guarded(f func()) {
	if fault := recovery.Guard(v.data, f); fault != nil {
		v.damaged(corruption(v.head.Geometry, fault))
	}
}
