package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A Draft is a filter file that has no name yet: see the package essay.
type Draft struct {
	Mapping // of the whole file, writable

	path string
	dir  *os.File // the directory of path
	file *os.File // locked from the start, see createBeside
	old  *os.File // what stands under path, locked, or nil
	lost string   // see Lost
}

// NewDraft makes an empty file that will stand under path. It takes the writer
// lock of a file that stands there now, and fails with [ErrLocked] where
// another process holds it. The new file has the owner, the group and the permission
// bits of the old one, as far as this process may give them, see Lost. A symbolic link
// is followed, also to where nothing stands: what it leads to is replaced.
//
// It removes temporary files for the same path that a process left when it died.
func NewDraft(path string) (*Draft, error) {
	return newDraft(path, (*Draft).lockOld)
}

// NewDraftOf is NewDraft for a path under which nothing stands; where something
// does, it fails with fs.ErrExist. It ends with PublishNew.
func NewDraftOf(path string) (*Draft, error) {
	if _, err := os.Stat(path); err == nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return newDraft(path, func(*Draft) error { return nil })
}

func newDraft(path string, lockOld func(*Draft) error) (*Draft, error) {
	target, err := newPath(path)
	if err != nil {
		return nil, err
	}
	d := &Draft{path: target}
	if err := lockOld(d); err != nil {
		return nil, err
	}
	// The directory is opened now, since after the rename it is too late to
	// find out that it cannot be.
	if d.dir, err = openDir(filepath.Dir(d.path)); err == nil {
		removeStale(d.path)
		mode := fs.FileMode(0o666)
		if d.old != nil {
			mode = 0o600 // nobody reads it who may not read the old one
		}
		d.file, err = createBeside(d.path, mode)
	}
	if err == nil && d.old != nil {
		err = d.keepAccess()
	}
	if err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	return d, nil
}

// keepAccess gives the draft the owner, group and permissions of the old file.
func (d *Draft) keepAccess() error {
	info, err := d.old.Stat()
	if err != nil {
		return err
	}
	d.lost, err = keepAccess(d.file, info)
	return err
}

// Lost says what of the owner and the group of the old file the new one does not have,
// since this process may not give it; "" where that is nothing.
func (d *Draft) Lost() string { return d.lost }

// lockOld locks the regular file that stands under the path of the draft, if
// there is one. If a writer of it died, it is recovered first: its readers need it
// until it is replaced.
func (d *Draft) lockOld() error {
	recoverOld(d.path)
	for {
		if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		old, err := openLocked(d.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("replace %s: %w", d.path, err)
		}
		d.old = old
		return nil
	}
}

// recoverOld recovers the file under path if its writer died. One that cannot be
// recovered may be replaced all the same.
func recoverOld(path string) {
	f, h, err := OpenFile(path)
	if err != nil {
		return
	}
	f.Close()
	if h.Superblock.State() != layout.Live {
		return
	}
	files, err := OpenFiles(path)
	if err != nil {
		return
	}
	defer files.Close()
	files.Guard(func() { NewWriter(files) }, func(error) {})
}

// Allocate gives the file its size, all of it zero bytes with a block on the
// disk, and maps it.
func (d *Draft) Allocate(size int64) error {
	if err := allocate(d.file, size); err != nil {
		return fmt.Errorf("allocate %d bytes for %s: %w", size, d.path, err)
	}
	m, err := Map(d.file, size, true)
	if err != nil {
		return err
	}
	d.Mapping = *m
	return nil
}

// PublishNew is Publish where no file may stand under the path; where one does,
// it fails with fs.ErrExist.
func (d *Draft) PublishNew() error {
	return d.publish(func() error { return nil }, renameNew)
}

// Publish makes the file durable and puts it under its path, in place of an
// older one. Whatever it returns, the draft is used up; where it returns an
// error, what stood under the path is as it was, save for an error that says
// that the directory could not be synced.
func (d *Draft) Publish() error { return d.publish(d.lockLate, rename) }

func (d *Draft) publish(lockLate func() error, rename func(from, to string) error) error {
	err := d.prepare()
	if err == nil {
		err = lockLate()
	}
	if err != nil {
		return errors.Join(err, d.Discard())
	}
	if err := rename(d.file.Name(), d.path); err != nil {
		return errors.Join(err, d.Discard())
	}
	// The logs of a file that was replaced belong to nobody. One that stays is
	// seen to be foreign.
	for _, name := range []LogName{NextLog, CurrentLog} {
		e := remove(d.path + name.String())
		if e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, syscall.ENAMETOOLONG) { // no log has such a name
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, syncDir(d.dir)); err != nil {
		err = fmt.Errorf("%s is complete, but may not survive a power loss: %w", d.path, err)
	}
	return errors.Join(err, d.release())
}

// prepare does all that comes before the rename.
func (d *Draft) prepare() error {
	if err := syncFilter(&d.Mapping, d.file); err != nil {
		return err
	}
	if err := d.Unmap(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // which renames no open file
		return d.file.Close()
	}
	// Nobody writes to the new file before the logs of the old one are gone.
	return lock(d.file)
}

// lockLate locks a file that has come to stand under the path since the draft was
// begun: it may have a writer.
func (d *Draft) lockLate() error {
	if d.old == nil {
		if err := d.lockOld(); err != nil {
			return err
		}
	}
	if runtime.GOOS == "windows" && d.old != nil {
		// It replaces no open file: there, the lock ends here.
		err := d.old.Close()
		d.old = nil
		return err
	}
	return nil
}

// Discard removes the file; what stood under the path is as it was.
func (d *Draft) Discard() error {
	var errs []error
	if d.Data != nil {
		errs = append(errs, d.Unmap())
	}
	if d.file != nil {
		d.file.Close() // a second close, or of a file that is about to go: no error that matters
		errs = append(errs, os.Remove(d.file.Name()))
	}
	errs = append(errs, d.release())
	return errors.Join(errs...)
}

// release closes what the draft has open beside its own file, and so ends the
// lock.
func (d *Draft) release() error {
	var errs []error
	if d.file != nil {
		d.file.Close() // a second close on Windows, or of a file that is durable: no error that matters
	}
	for _, f := range []**os.File{&d.old, &d.dir} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}

// notRegular is the error for a path that names something else than a file
// of bytes: a directory, a pipe, a device.
func notRegular(op, path string) error {
	return &fs.PathError{Op: op, Path: path, Err: errors.New("not a regular file")}
}

// A Scratch is a file beside a draft for data that need not outlive it. It has
// no name from the start where the system allows that, so that nothing is left
// of it however the process ends.
type Scratch struct{ *os.File }

// Scratch makes an empty scratch file.
func (d *Draft) Scratch() (*Scratch, error) {
	f, err := createBeside(d.path, 0o600)
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // fails on Windows while the file is open
	return &Scratch{f}, nil
}

// WriteAt is that of the file.
func (s *Scratch) WriteAt(data []byte, off int64) (int, error) {
	if err := fault.At("write"); err != nil {
		return 0, err
	}
	return s.File.WriteAt(data, off)
}

// Close ends the file.
func (s *Scratch) Close() error {
	err := s.File.Close()
	if rm := os.Remove(s.Name()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return rm
	}
	return err
}
