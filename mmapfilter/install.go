package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Install moves the filter file at from, which another machine may have made, to the path to, and
// opens it there as [OpenReadOnly] does. It replaces the filter file at to, if there is one. Install
// verifies the new file (see [Verify]), makes it durable, and renames it, so both paths must be on one
// file system. If the new file has a NAME.hashes that belongs to it, Install moves that too, and then
// the history of [Options.KeepChanges]. It removes the NAME.hashes of the old file. Readers of the old
// file get [ErrSuperseded]. The new file gets the owner, group and permissions of the old one;
// [Stats.Warning] names any of these that this process may not set. The new file keeps its own sequence
// ([Filter.DurableSeq]). progress, if not nil, is called as [Verify] calls it.
//
// If Install fails, or the process dies, the file at to is the old file or the new one, and is whole.
// Before the rename, the new file is at from, with its hashes, and is unchanged except for its owner,
// group and permissions. If an error says that the new file is complete, the rename is done, but the new
// file may not survive a power loss, or readers of the old file do not know of it.
//
// The file at from must be sealed or clean. The errors are those of Verify for this file,
// [ErrNeedsRecovery] if its writer has died, [ErrApplying] if it is a replica that has only part
// of a set of changes, and [ErrLocked] if it has a writer; ErrLocked if the file at to has a writer;
// a [*ForeignError] if the file at to is not a filter (Install does not replace such a file); and
// those of the file system.
func Install(ctx context.Context, from, to string, progress func(done, total int64)) (*Filter, error) {
	if progress == nil {
		progress = func(done, total int64) {}
	}
	d, err := draftTo("install", from, to)
	if err != nil {
		return nil, err
	}
	if _, err := verifyFile(ctx, from, progress); err != nil {
		return nil, &OpError{Op: "install", Path: to, Err: about("read", from, errors.Join(err, d.Discard()))}
	}
	if err := publishFrom(d, from); err != nil {
		return nil, about("install", to, err)
	}
	f, err := OpenReadOnly(to, nil)
	if err != nil {
		return nil, &CompleteError{Path: to, But: "cannot be opened", Err: err}
	}
	o := f.open.Load()
	o.warning = joinWarnings(o.warning, d.Lost())
	return f, nil
}

// Rename is [Install] without Verify, for a file that the caller trusts. The time that it takes does not
// depend on the size of the file. It does not open the filter.
func Rename(from, to string) error {
	d, err := draftTo("rename", from, to)
	if err != nil {
		return err
	}
	if err := publishFrom(d, from); err != nil {
		return about("rename", to, err)
	}
	return nil
}

// draftTo returns a draft of the file at from, which Publish puts at the path to.
func draftTo(op, from, to string) (*osfile.Draft, error) {
	d, err := draftFrom(from)
	if err != nil {
		return nil, &OpError{Op: op, Path: to, Err: about("read", from, err)}
	}
	if err = d.Replace(to); err == nil {
		err = d.Guard()
	}
	if err != nil {
		return nil, about(op, to, errors.Join(err, d.Discard()))
	}
	return d, nil
}

func publishFrom(d *osfile.Draft, from string) error {
	err := d.Publish()
	if errors.Is(err, syscall.EXDEV) {
		return fmt.Errorf("%s is on another file system; copy it to the directory of the file that it replaces, and install the copy: %w", from, err)
	}
	return err
}

// draftFrom returns the draft of a file at rest.
func draftFrom(path string) (*osfile.Draft, error) {
	d, head, err := osfile.DraftFrom(path)
	if err != nil {
		return nil, err
	}
	switch {
	case head.Superblock.State() == layout.Live: // and no writer has the lock
		return nil, errors.Join(ErrNeedsRecovery, d.Discard())
	case head.Superblock.Kept().Applying(): // NAME.apply stays where it is
		return nil, errors.Join(ErrApplying, d.Discard())
	}
	return d, nil
}
