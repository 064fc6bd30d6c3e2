package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Snapshot makes a sealed copy of the filter at path, as of one commit, while operations, checkpoints
// and rebuilds go on: none of them waits for it. Any process can make one.
//
// In a process that has the filter open for writing, the copy has all operations that were done before
// the call. In another process, it has the operations of the file that now has the name of the filter,
// up to its last commit or, if the filter keeps its hashes, up to its last checkpoint.
//
// If the filter keeps its hashes, the copy is built from them, with an item of its own for each key
// that the history means (K7). Two snapshots at the same position, and with the same
// [Filter.DurableSeq] and [Filter.DurableOps], have the same bytes. Snapshot returns the position;
// [Filter.Position] of the copy is the same, until its first operation. If the filter keeps no hashes,
// the copy has the bytes of a filter that was sealed at that commit, except for the superblocks and the
// runtime page, and the position is zero. Before Snapshot copies the lines of a sealed file, it
// compares them with their checksums.
//
// The copy keeps no hashes, so it does not grow; [Filter.SnapshotWithHashes] copies them too. The copy
// has its own UUID, so that neither file is ever opened with the log of the other. It has the seed,
// note, [Filter.DurableSeq] and [Filter.DurableOps] of the filter. It gets the permissions of the
// filter, less the umask.
//
// Snapshot replaces a filter at path, as [Build] does. If Snapshot fails, ctx is cancelled, or the
// process dies, a file at path stays as it was, and the filter is not affected. The errors are
// fs.ErrExist if the filter itself is at path; a [*ForeignError] if a file that is not a filter is at
// path, or if path has the name of a file beside the filter, such as its log; [ErrLocked] if a writer
// has the file at path open; [ErrNoHashes] if the filter has lost its hashes; [ErrNeedsRecovery] if it
// has no writer any more and has not been recovered; [ErrBusy] if the disk cannot keep up, so that in
// many attempts the log was overwritten before Snapshot had read it, or if the writer has failed;
// errors.ErrUnsupported if the filter was not opened from a path; [ErrCorrupt]; and those of
// [Filter.Checkpoint].
func (f *Filter) Snapshot(ctx context.Context, path string) (Position, error) {
	return f.snapshot(ctx, path, false)
}

// SnapshotWithHashes is like Snapshot, but the copy keeps the hashes too, in its own NAME.hashes. So the
// copy can be rebuilt, and it has [Options.AutoGrow], [Options.KeepChanges] and [Options.ExpireAfter] of
// the filter; its items are as old as those of the filter. The copy is at path once both files are
// complete. If the filter keeps no hashes, the error is [ErrNoHashes].
//
// The copy is a replica with hashes ([Filter.Apply]): it has a history of its own, and follows the
// history of the filter. Until its first operation of its own, [Filter.Position] is its position in the
// followed history, and its keys do not expire by themselves: the changes delete them. If it has had
// changes, its keys are taken as inserted at the time of this first operation, because the changes do
// not say which keys were inserted again.
func (f *Filter) SnapshotWithHashes(ctx context.Context, path string) (Position, error) {
	return f.snapshot(ctx, path, true)
}

func (f *Filter) snapshot(ctx context.Context, path string, hashes bool) (Position, error) {
	if f.open.Load() == nil { // of a Follower that waits, perhaps
		return Position{}, f.Err()
	}
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		var p Position
		o, least, err := f.snapshotted(ctx)
		if err == nil {
			err = checkTarget(o.path, path)
		}
		if err == nil {
			p, err = trySnapshot(ctx, o.path, path, least, hashes)
		}
		switch {
		case err == nil:
			return p, nil
		case !errors.Is(err, ErrBusy) && !errors.Is(err, ErrNoHashes) && !errors.Is(err, ErrNeedsRecovery) || tries == openTries:
			// The three errors above are tried again: another file may have taken the place of the file
			// that was found, or a writer may have closed it.
			return Position{}, about("snapshot", path, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond << tries):
		}
	}
}

// snapshotted makes a checkpoint, if this process can. It returns the open file, and least, which is the
// lowest number that the position of a copy may have.
func (f *Filter) snapshotted(ctx context.Context) (o *openFile, least uint64, err error) {
	o, least, err = f.committed(ctx)
	if err == nil && o.work != nil {
		err = f.commit((*writer.Writer).Checkpoint) // also notices that another file is at the path
	}
	return o, least, err
}

// committed makes all operations so far durable, if this process can. It returns the open file and the
// number of its position, or an error if the file was not opened from a path.
func (f *Filter) committed(ctx context.Context) (o *openFile, number uint64, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, 0, err
	}
	o = f.open.Load()
	switch {
	case o == nil || f.closed.Load():
		return nil, 0, ErrClosed
	case o.unrecovered:
		return nil, 0, o.err()
	case o.work == nil && o.info == nil:
		return nil, 0, fmt.Errorf("%w: the filter was not opened from a path", errors.ErrUnsupported)
	case o.work == nil:
		return o, 0, nil
	}
	err = f.commit((*writer.Writer).Sync)
	return o, f.ownPosition().Number, err // before a checkpoint: commits go on
}

// checkTarget returns an error if path is the path of the filter or of a file beside it.
func checkTarget(filter, path string) error {
	if sameFile(filter, path) {
		return &fs.PathError{Op: "snapshot", Path: path, Err: fs.ErrExist}
	}
	own, err := filepath.EvalSymlinks(filter)
	if err != nil {
		return err
	}
	dir, base := filepath.Split(path)
	suffix, ok := strings.CutPrefix(base, filepath.Base(own))
	if !ok || !sameFile(filepath.Dir(own), filepath.Clean(dir)) {
		return nil
	}
	for _, its := range []string{".stash", ".hashes", ".past", ".apply", ".tmp-"} {
		if strings.HasPrefix(suffix, its) {
			return &ForeignError{Path: path, Is: "whose name belongs to the filter that is copied"}
		}
	}
	return nil
}

// trySnapshot returns ErrBusy if another attempt may succeed.
func trySnapshot(ctx context.Context, from, to string, least uint64, hashes bool) (Position, error) {
	f, head, err := osfile.OpenFile(from)
	if err != nil {
		return Position{}, err
	}
	defer f.Close()
	sb := head.Superblock
	if sb.State() == layout.Live {
		if served, err := osfile.Served(f); err != nil || !served {
			return Position{}, errors.Join(err, ErrNeedsRecovery)
		}
	}
	if !sb.KeepsHashes() && !hashes {
		return snapshotLines(ctx, from, to, f, head)
	}
	// A copy of the lines alone is not enough: a key may depend on the item of another key (K7).
	kept, err := osfile.OpenHashesOf(from, sb)
	if err != nil {
		return Position{}, err
	}
	at := sb.Kept().At
	if at.Number < least { // a rebuild has replaced the file after the checkpoint
		return Position{}, errors.Join(kept.File.Close(), ErrBusy)
	}
	return positionOf(sb.Descent(), at), snapshotHashes(ctx, to, head, kept, hashes)
}

// snapshotHashes builds a copy from kept hashes. If keep is set, the copy keeps the
// hashes, too.
func snapshotHashes(ctx context.Context, to string, head *osfile.Head, kept recovery.Kept, keep bool) error {
	defer kept.File.Close()
	sb := head.Superblock
	o, err := rebuilding(sb, 0, new(RebuildOptions))
	if err != nil {
		return err
	}
	o.Mode = head.Info.Mode().Perm()
	if !keep {
		o.KeepHashes, o.AutoGrow, o.KeepChanges, o.ExpireAfter = false, false, 0, 0
	}
	c := o.building()
	plan := c.Plan
	c.Capacity, c.Replica = 0, sb
	// Use no random number and no clock, since copies at one position must have equal bytes.
	c.Identity, c.Now, c.LastTime = identityOfCopy(sb), sb.LastTime(), sb.LastTime()
	c.Plan = func(items uint64) (build.Plan, error) {
		if items > sb.Capacity() {
			return plan(items)
		}
		same := newSuperblock(planOf(head.Geometry, sb.Capacity(), sb.DesignLoad(), sb.TargetRate()), o)
		return build.Plan{Geometry: head.Geometry, Superblock: same, Limit: build.Limit(&same, head.Geometry)}, nil
	}
	_, err = build.FromKept(ctx, to, c, []recovery.Kept{kept})
	return err
}

// identityOfCopy returns the identity of the NAME.hashes of a copy.
func identityOfCopy(sb *layout.Superblock) uint64 {
	h := xxh3.New()
	binary.Write(h, binary.LittleEndian, struct {
		Of      layout.Hashes
		Descent uint64
		At      layout.Position
	}{sb.Hashes(), sb.Descent(), sb.Kept().At})
	return h.Sum64()
}

// snapshotLines copies the stash and the lines of an open file, while its writer stores to them.
func snapshotLines(ctx context.Context, from, to string, f *os.File, head *osfile.Head) (p Position, err error) {
	if head.Superblock.State() == layout.Sealed { // compare it with its checksums, since the copy gets new ones
		if _, err := verifyOpen(ctx, f, head, from, "", verifying); err != nil {
			return p, err
		}
	}
	d, err := osfile.NewDraft(to, osfile.DraftOptions{Mode: head.Info.Mode().Perm()})
	if err != nil {
		return p, err
	}
	if err = d.Guard(); err == nil {
		err = d.Allocate(ctx, head.Geometry.SealedBytes)
	}
	if err == nil {
		d.AdviseLarge() // fewer faults, each of which may wait for the file system
		p, err = copyLines(ctx, from, f, head.Geometry, d)
	}
	if err != nil {
		return Position{}, errors.Join(err, d.Discard())
	}
	return p, d.Publish()
}

// copyLines turns a draft into a sealed copy of an open file.
func copyLines(ctx context.Context, from string, f *os.File, g layout.Geometry, d *osfile.Draft) (p Position, err error) {
	logs, err := osfile.LogsOf(from)
	if err != nil {
		return p, err
	}
	defer logs.Close()
	m, err := osfile.Map(f, layout.OffRegion+g.RegionBytes, false)
	if err != nil {
		return p, err
	}
	defer m.Unmap()
	var sb layout.Superblock
	fault := logs.Catch(func() {
		var c *recovery.Copy
		if c, err = recovery.NewCopy(recovery.Words(m.Data), recovery.Words(d.Data), logs); err == nil {
			sb, err = copyPieces(ctx, c, f)
		}
		if err == nil {
			err = build.SealCopy(ctx, runtime.GOMAXPROCS(0), d.Data, g, &sb)
		}
	}, m.Data, d.Data)
	if e := new(osfile.FaultError); errors.As(fault, &e) {
		err = e
		if e.Offset >= 0 {
			err = build.Damage(g, e)
		}
	}
	return positionOf(sb.Descent(), sb.Kept().At), err
}

// pieceWords is how many words are copied at a time: few, so that the log is read often.
const pieceWords = 1 << 20 / 8

// copyPieces does all steps of copying a file. After each step it lets other goroutines run.
func copyPieces(ctx context.Context, c *recovery.Copy, f *os.File) (sb layout.Superblock, err error) {
	more := true
	for ; err == nil && more; runtime.Gosched() {
		if err = context.Cause(ctx); err == nil {
			more, err = c.Step(pieceWords)
		}
	}
	if err == nil {
		sb, err = c.End()
	}
	if err != nil || !c.Followed() {
		return sb, err
	}
	served, err := osfile.Served(f)
	if err == nil && !served { // the writer has closed the file or died; a recovery may change the file meanwhile
		err = ErrBusy
	}
	return sb, err
}
