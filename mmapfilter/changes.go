package mmapfilter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Classes say what a filter can tell apart: it has a class for each fingerprint in each line. Two
// filters have the same classes if their Classes are equal (compare them with ==). The zero value
// stands for whole hashes.
type Classes = changes.Classes

// ParseClasses returns the Classes with the given text.
func ParseClasses(text string) (Classes, error) { return changes.ParseClasses(text) }

// Classes returns the classes of a replica, for [Filter.ChangesFor] of the filter that it follows. A
// rebuild changes the classes of a filter. Classes returns zero after Close, and for a replica with
// hashes, which needs changes with whole hashes.
func (f *Filter) Classes() Classes {
	if o := f.open.Load(); o != nil && !o.newest().Follows() {
		return changes.ClassesOf(o.geometry)
	}
	return Classes{}
}

// Changes writes to w how the keys of the filter have changed since a position: for each hash, the
// difference in the number of its items, as the history means them (K7). The filter must keep its
// hashes. [Filter.Apply] applies these changes to a snapshot whose position is since. (If the filter is
// a replica with hashes, since is a position in its own history, as its Snapshot and Changes return it,
// not in the history that it follows.) Changes returns the position to which the changes lead. A key
// that was inserted and deleted in between is not written. A change takes 6 or 7 bytes, or fewer if
// there are many changes, however often its key has changed. Operations go on meanwhile.
//
// In a process that has the filter open for writing, the changes have everything that was done
// before the call. In any other process, they go up to the last checkpoint of the file that is now at
// the path of the filter.
//
// A position stays usable until a rebuild, and after it for [Options.KeepChanges]. The errors are
// [ErrChangesGone] if it is not usable any more; [ErrOtherDescent] if it is not in the history of this
// filter, because it is a position of another filter, or because one of the two filters was restored
// from a backup and has had other operations since; [ErrNoHashes]; [ErrBusy] in a process that reads the
// file, if the position is later than the last checkpoint; [ErrNeedsRecovery] if the filter has no
// writer any more and has not been recovered; errors.ErrUnsupported if the filter was not opened
// from a path; and those of w. After any error, what was written is incomplete, and Apply refuses it.
//
// Changes needs at most 130 MiB of memory. Operations that do not fit go to temporary files (in
// os.TempDir).
func (f *Filter) Changes(ctx context.Context, w io.Writer, since Position) (Position, error) {
	return f.ChangesFor(ctx, w, since, Classes{})
}

// ChangesFor is Changes for a replica with the given [Filter.Classes]. A change takes fewer bytes, about
// 2 at a rate of 1 % and 3 at a rate of 1e-4, but only filters with these classes can apply the changes.
// ChangesFor computes the change of each hash (K7), and then adds up the changes of each class.
func (f *Filter) ChangesFor(ctx context.Context, w io.Writer, since Position, replica Classes) (Position, error) {
	o := f.open.Load()
	if o == nil {
		return Position{}, f.Err()
	}
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	for tries := 0; ; tries++ {
		s, err := f.findChanges(ctx, since)
		if err == nil {
			to := positionOf(s.descent, s.to)
			err = errors.Join(s.write(ctx, w, since, replica), s.close())
			if err == nil {
				return to, nil
			}
			return Position{}, about("changes", o.path, err)
		}
		// Another file may have taken the place of the file that was found, or a writer may
		// have closed it.
		again := errors.Is(err, ErrBusy) || errors.Is(err, ErrNoHashes) || errors.Is(err, ErrNeedsRecovery) || err == writer.ErrMoved
		if !again || tries == openTries {
			return Position{}, about("changes", o.path, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond << tries):
		}
	}
}

// A changeSet is a set of changes that can be written.
type changeSet struct {
	*build.Changes
	descent uint64
	to      layout.Position
	userSeq uint64 // the user sequence at to
	ops     uint64 // operations after userSeq was set
	files   []recovery.Kept
}

func (s *changeSet) close() error {
	s.Changes.Close()
	return osfile.CloseHistory(s.files)
}

func (s *changeSet) write(ctx context.Context, to io.Writer, since Position, replica Classes) error {
	buffered := bufio.NewWriterSize(to, 1<<16)
	w, err := changes.NewWriter(buffered, changes.Header{
		Descent: s.descent, From: layout.Position{Number: since.Number, Chain: since.Chain}, To: s.to, Classes: replica,
		UserSeq: s.userSeq, Operations: s.ops,
	})
	if err == nil {
		err = s.Write(ctx, &s.files[0], w)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = buffered.Flush()
	}
	return err
}

// findChanges finds the changes since a position.
func (f *Filter) findChanges(ctx context.Context, since Position) (s *changeSet, err error) {
	o, _, err := f.committed(ctx)
	if err != nil {
		return nil, err
	}
	s = new(changeSet)
	defer func() {
		if err != nil && s.Changes != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var sb *layout.Superblock
	if o.work == nil {
		sb, err = s.beginAt(o.path, since)
	} else {
		err = o.work.Writer.Recent(func(r *recovery.Recent) error {
			sb = r.Superblock
			return s.beginWith(r, since)
		})
	}
	if err == nil {
		s.files, err = osfile.OpenHistory(o.path, sb, since.Number)
	}
	if err == nil {
		err = s.Read(ctx, s.files)
	}
	return s, err
}

// beginAt begins a set of changes that ends at the position in the superblock of the file at path.
func (s *changeSet) beginAt(path string, since Position) (*layout.Superblock, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sb := head.Superblock
	s.userSeq, s.ops = sb.UserSeq(), sb.Kept().Counted(sb.Operation())
	if sb.State() != layout.Live {
		return sb, s.begin(sb, sb.Kept().At, since)
	}
	if served, err := osfile.Served(f); err != nil || !served {
		return nil, errors.Join(err, ErrNeedsRecovery)
	}
	if since.Descent == sb.Descent() && since.Number > sb.Kept().At.Number {
		return nil, fmt.Errorf("%w: the position is later than the last checkpoint of the filter", ErrBusy)
	}
	return sb, s.begin(sb, sb.Kept().At, since)
}

// beginWith begins a set of changes that includes the operations that are only in the log.
func (s *changeSet) beginWith(r *recovery.Recent, since Position) error {
	if err := s.begin(r.Superblock, r.To, since); err != nil {
		return err
	}
	s.userSeq, s.ops = r.UserSeq, r.Operations
	at := r.Superblock.Kept().At
	for e := range r.All() {
		at = e.After
		s.AddRecent(e)
	}
	if at != r.To {
		return fmt.Errorf("the log has operations up to %d, but the history goes up to %d", at.Number, r.To.Number)
	}
	return nil
}

func (s *changeSet) begin(sb *layout.Superblock, to layout.Position, since Position) error {
	if err := recovery.CheckKept(sb); err != nil {
		return err
	}
	if since.Descent != sb.Descent() || since.Number > to.Number {
		return fmt.Errorf("the filter is at %v: %w", positionOf(sb.Descent(), to), ErrOtherDescent)
	}
	s.descent, s.to = sb.Descent(), to
	scratch := build.Beside(filepath.Join(os.TempDir(), "mmapfilter-changes"))
	s.Changes = build.NewChanges(scratch, layout.Position{Number: since.Number, Chain: since.Chain}, to)
	return nil
}
