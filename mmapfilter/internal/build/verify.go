package build

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Verify checks a file that nobody writes to, and that is mapped as data. Unless path is "", it also
// checks the hashes that the filter at the path has kept. It calls progress, from one goroutine at a
// time, with the bytes read so far and the total. If the error is not nil, the Report says what was
// found before the error.
func Verify(ctx context.Context, path string, head *osfile.Head, data []byte, progress func(done, total int64)) (Report, error) {
	v := &verification{head: head, data: data, progress: progress}
	v.report.FileBytes, v.report.Sealed = head.Size, head.Superblock.State() == layout.Sealed
	err := v.run(ctx)
	if err == nil && len(v.report.Damage) == 0 && path != "" && head.Superblock.KeepsHashes() {
		err = v.checkHashes(ctx, path)
	}
	slices.SortFunc(v.report.Damage, func(a, b *layout.CorruptError) int { return cmp.Compare(a.Offset, b.Offset) })
	return v.report, err
}

// A Report says what was checked and found. Items and StashLen are valid only if Damage is empty.
type Report struct {
	FileBytes int64
	Sealed    bool
	Chunks    int64 // chunks that were checked against their checksums
	Items     uint64
	StashLen  int    // entries in use
	Hashes    uint64 // items of the history
	NotFound  uint64 // of those, keys that lookups do not find: a delete of an absent key took their item
	Strays    uint64 // deletes of absent keys, since the base, that took an item of another key
	LeftOut   uint64 // as the superblock says
	Waiting   uint64
	HashesErr error                  // why the kept hashes were not checked
	Damage    []*layout.CorruptError // ordered by offset; at most maxDamage of them
}

// maxDamage bounds the list in a Report.
const maxDamage = 1000

// A verification is one Verify in progress.
type verification struct {
	report Report
	head   *osfile.Head
	data   []byte // the mapped file

	progress func(done, total int64)
	mu       struct {
		sync.Mutex       // guards report.Damage as well
		read       int64 // bytes
	}
}

// Damage describes a fault in a mapped file as damage at the place of the fault.
func Damage(g layout.Geometry, fault *osfile.FaultError) *layout.CorruptError {
	return &layout.CorruptError{Region: g.RegionAt(fault.Offset), Offset: fault.Offset, Rule: "F6", What: fault.Error()}
}

// advance reports that the bytes [from, to) of the file have been read.
func (v *verification) advance(from, to int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.read += to - from
	v.progress(v.mu.read, v.head.Geometry.OffTable-layout.OffRuntime)
}

func (v *verification) damaged(e *layout.CorruptError) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.report.Damage) < maxDamage {
		v.report.Damage = append(v.report.Damage, e)
	}
}

// run checks superblocks, tail, chunks and lines. If none is damaged, it checks the padding, the
// stash, and whether lines and stash together hold as many items as the superblock says.
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
				v.damaged(&layout.CorruptError{Region: layout.RegionBuckets, Offset: off, Rule: "F10", What: "padding after the last line is not zero"})
				return
			}
		}
		view := viewOf(v.data, g)
		entries, inStash, err := layout.CheckStash(layout.NewTable(g), &view)
		v.report.StashLen, v.report.Items = entries, inLines+inStash
		if e, ok := err.(*layout.CorruptError); ok {
			v.damaged(e)
		} else if e := checkCount(sb, inLines, inStash); e != nil {
			e.Offset = int64(v.head.Slot * layout.SuperblockBytes)
			v.damaged(e)
		}
	})
	return nil
}

// checkTail checks the file from the table of checksums on, and returns this table, or nil if the
// table itself is damaged.
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
	view, pieces := viewOf(v.data, g), newPieces(g)
	var inLines, chunks atomic.Int64
	var broken atomic.Pointer[layout.CorruptError] // a line that breaks a rule, in case checksums find nothing
	err = Parallel(ctx, runtime.GOMAXPROCS(0), pieces.n, v.data, func(_ context.Context, _, i int) error {
		first, end := pieces.chunks(i)
		defer v.advance(pieces.bytes(i))
		for c := first; c < end && len(table) > 0; c++ {
			chunks.Add(1)
			if e := layout.CheckChunk(g, c, g.ChunkOf(v.data, c), layout.Checksum(table, c)); e != nil {
				v.damaged(e)
			}
		}
		from, to := pieces.lines(i)
		n, err := layout.CheckLines(g, t, view.Region, from, to)
		inLines.Add(int64(n))
		if e, ok := err.(*layout.CorruptError); ok {
			broken.CompareAndSwap(nil, e)
		}
		return nil
	})
	if fault, ok := err.(*osfile.FaultError); ok {
		v.damaged(Damage(g, fault))
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
	if fault := osfile.Catch(v.data, f); fault != nil {
		v.damaged(Damage(v.head.Geometry, fault))
	}
}
