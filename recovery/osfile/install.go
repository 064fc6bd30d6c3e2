package osfile

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// DraftFrom returns a draft that gives another name to the filter file at path and to its
// NAME.hashes, if there is one. It keeps writers out of the file: if a writer has the file
// open, the error is [recovery.ErrLocked]. The caller must check in the head that the file is
// not live. Call Replace before Publish.
//
// Until Publish renames the file, the file and its hashes keep their names, and Discard leaves them
// alone.
func DraftFrom(path string) (*Draft, *Head, error) {
	if info, err := os.Lstat(path); err != nil {
		return nil, nil, err
	} else if !info.Mode().IsRegular() {
		return nil, nil, notRegular("open", path) // a link: the rename would leave the link without a file
	}
	path, err := realPath(path)
	if err != nil {
		return nil, nil, err
	}
	d := &Draft{from: path}
	if d.file, err = OpenLocked(path); err != nil {
		return nil, nil, err
	}
	d.check = func() error {
		if !sameFile(d.file, path) {
			return recovery.ErrChanging
		}
		return nil
	}
	lockDraft(d.file) // RemoveStale must not take it for a temporary file; on Windows it is locked already
	head, err := d.openFrom()
	if err != nil {
		return nil, nil, errors.Join(err, d.Discard())
	}
	return d, head, nil
}

// openFrom reads the head of the file, and opens and locks its hashes.
func (d *Draft) openFrom() (*Head, error) {
	f, head, err := OpenFile(d.from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d.is = head.Superblock
	if head.Superblock.State() == layout.Live {
		return head, nil
	}
	kept, err := OpenHashesOf(d.from, head.Superblock)
	if errors.Is(err, recovery.ErrHashes) && !errors.As(err, new(*os.PathError)) {
		return head, nil // the filter keeps no hashes, or has lost them
	}
	if err != nil {
		return nil, err
	}
	defer kept.File.Close()
	if d.hashes, err = os.OpenFile(kept.File.(hashFile).Name(), os.O_RDWR, 0); err == nil {
		err = lockDraft(d.hashes)
	}
	return head, err
}

// Replace makes Publish replace the file at path, as for a draft of [NewDraft]. In Publish the draft
// gets the owner, group and permission bits of that file.
func (d *Draft) Replace(path string) error {
	target, err := newPath(path)
	if err != nil {
		return err
	}
	if d.path = target; sameFile(d.file, target) {
		return &os.PathError{Op: "replace", Path: path, Err: errors.New("it is the new file itself")}
	}
	if err := d.lockOld(); err != nil {
		return err
	}
	if d.dir, err = openDir(filepath.Dir(target)); err == nil {
		RemoveStale(target)
	}
	return err
}
