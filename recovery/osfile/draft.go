package osfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A Draft is a filter file that does not have its name yet; see the package essay.
type Draft struct {
	Mapping // of the whole file, writable

	path string
	dir  *os.File // the directory of path
	file *os.File // locked from the start; see createBeside
	old  *os.File // the file at path, locked, or nil
	lost string   // see Lost

	hashes   *os.File     // the hashes of the filter, locked as file is, or nil
	hashesAt string       // the path that the hashes have now; see Discard
	dropped  bool         // the hashes of the old filter are named NAME.hashes.new; see nameHashes
	guarded  bool         // see Guard
	from     string       // the path of the file, if it existed before; see DraftFrom
	like     fs.FileInfo  // the file whose owner, group and permissions the new file gets; if nil, the old file
	mode     fs.FileMode  // permission bits that the new file may have, or 0 for all
	isNew    bool         // see DraftOptions.New
	check    func() error // see Rename

	is, replaces *layout.Superblock // of the file at from, and of the old file; nil if not known
}

// DraftOptions say what file a draft becomes.
type DraftOptions struct {
	// Mode has the permission bits of a new file, less the umask, as with os.OpenFile. A file that
	// replaces an old file gets only bits that the old file also has. 0 means 0666.
	Mode fs.FileMode
	// Like, if not "", is a file whose owner, group and permission bits the new file gets. Otherwise
	// it gets those of the old file.
	Like string
	// New says that no file may exist at the path. If one does, the error is fs.ErrExist.
	New bool
}

// NewDraft creates an empty file that will replace the file at path, if there is one. It
// takes the writer lock of the old file, and fails with [recovery.ErrLocked] if another process
// has this lock. The new file gets the owner, group and permission bits of the old file, as far
// as this process may set them (see Lost). NewDraft follows a symbolic link, even to a file that
// does not exist.
//
// It removes temporary files that dead processes left for the same path.
func NewDraft(path string, o DraftOptions) (_ *Draft, err error) {
	if err := canMake(); err != nil {
		return nil, err
	}
	d := &Draft{mode: o.Mode, isNew: o.New}
	if o.Like != "" {
		if d.like, err = os.Stat(o.Like); err != nil {
			return nil, err
		}
	}
	if d.path, err = newPath(path); err != nil {
		return nil, err
	}
	if !o.New {
		err = d.lockOld()
	} else if _, e := os.Stat(d.path); e == nil {
		err = &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	if err != nil {
		return nil, err
	}
	// Open the directory now: after the rename it is too late to find out that it cannot
	// be opened.
	if d.dir, err = openDir(filepath.Dir(d.path)); err == nil {
		RemoveStale(d.path)
		mode := cmp.Or(d.mode, 0o666)
		if d.old != nil || d.like != nil {
			mode = 0o600 // closed to users that may not read the old file
		}
		d.file, err = createBeside(d.path, mode)
	}
	if err == nil && (d.old != nil || d.like != nil) {
		err = d.keepAccess()
	}
	if err != nil {
		return nil, errors.Join(err, d.Discard())
	}
	return d, nil
}

// keepAccess gives the draft the owner, group and permissions of the file DraftOptions.Like, or
// else of the old file.
func (d *Draft) keepAccess() (err error) {
	info := d.like
	if info == nil {
		if info, err = d.old.Stat(); err != nil {
			return err
		}
	}
	if d.mode != 0 {
		info = narrowed{info, d.mode}
	}
	d.lost, err = keepAccess(d.file, info)
	return err
}

// Guard checks, now and again in Publish, that the draft destroys no file but the filter at its path
// and the files of this filter. Otherwise the error is a *ForeignError. An empty file may be
// replaced, since nothing is lost.
func (d *Draft) Guard() error {
	d.guarded = true
	if d.from != "" { // leave removes the files beside its first name
		if err := foreign(d.from, d.file); err != nil {
			return err
		}
	}
	return foreign(d.path, d.old)
}

// A narrowed is the FileInfo of a file, less the permissions that mode lacks.
type narrowed struct {
	fs.FileInfo
	mode fs.FileMode
}

func (n narrowed) Mode() fs.FileMode { return n.FileInfo.Mode() & n.mode }

// Rename gives the draft another name, in the same directory. It is for a draft that replaces no file.
// If a file has the new name by the time of Publish, Publish locks this file. Publish also calls check,
// and fails if check fails.
func (d *Draft) Rename(name string, check func() error) {
	d.path, d.check = filepath.Join(filepath.Dir(d.path), name), check
}

// Lost describes the owner or group of the old file that this process may not give to the
// new file. It returns "" if the new file has both.
func (d *Draft) Lost() string { return d.lost }

// lockOld locks the regular file at the path of the draft, if there is one. If its writer
// died, lockOld recovers the file first, since readers need it until it is replaced.
func (d *Draft) lockOld() error {
	recoverOld(d.path)
	for {
		if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		old, err := OpenLocked(d.path)
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

// recoverOld recovers the file at path if its writer died. It ignores errors, since a file
// that cannot be recovered may still be replaced.
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
	files.Catch(func() { recovery.NewWriter(files) }, func(error) {})
}

// Allocate extends the file to size zero bytes, allocates all its blocks, and maps it. On Linux, it
// checks between steps that take long whether ctx is cancelled.
func (d *Draft) Allocate(ctx context.Context, size int64) error {
	if err := allocate(ctx, d.file, size); err != nil {
		return &fs.PathError{Op: fmt.Sprintf("allocate %d bytes for", size), Path: d.path, Err: err}
	}
	m, err := Map(d.file, size, true)
	if err != nil {
		return err
	}
	d.Mapping = *m
	return nil
}

// CreateHashes creates the empty NAME.hashes of the draft. The hashes get their name when the
// draft gets its name; by then their pages are durable.
func (d *Draft) CreateHashes() (recovery.HashFile, error) {
	info, err := d.file.Stat()
	if err != nil {
		return nil, err
	}
	if d.hashes, err = createBeside(d.path, 0o600); err != nil {
		return nil, err
	}
	d.hashesAt = d.hashes.Name()
	keepAccess(d.hashes, info) // a process that may write to the filter must be able to write to its hashes, too
	return hashFile{d.hashes}, nil
}

// EmptyHashes is CreateHashes for a filter without items. It returns what SetHashes must put
// into the superblock.
func (d *Draft) EmptyHashes(identity uint64) (layout.Hashes, error) {
	f, err := d.CreateHashes()
	if err != nil {
		return layout.Hashes{}, err
	}
	_, tail, err := hashes.NewBase(hashes.Header{Identity: identity}, f.WritePages).End()
	return layout.Hashes{Identity: identity, Pages: tail.Number, Check: tail.Before}, err
}

// nameHashes gives the hashes of the draft the name NAME.hashes.new before the filter gets the name
// NAME. Otherwise a kill in between would leave the new filter without hashes. The hashes of the old
// filter keep their name. But if the new filter keeps no hashes, nameHashes renames those of the old
// filter to NAME.hashes.new, where the old filter finds them too (K3). If the process then dies before
// keepHashes has removed them, this name shows that they belong to no filter. If the hashes of
// another draft of the same path have the name NAME.hashes.new, nameHashes waits until that draft is
// published or discarded.
func (d *Draft) nameHashes() error {
	next, from := d.path+recovery.NextHashes.String(), d.path+recovery.CurrentHashes.String()
	if d.hashes != nil {
		from = d.hashes.Name()
	} else if !there(from) {
		return nil
	}
	give := renameNew
	if d.hashes != nil && d.from != "" {
		give = link // the hashes keep their first name as long as the filter does
	}
	for {
		err := give(from, next)
		if errors.Is(err, fs.ErrExist) && d.hashes != nil && sameFile(d.hashes, next) {
			err = nil // a process that died has renamed them
		}
		if err == nil {
			d.hashesAt, d.dropped = next, d.hashes == nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := d.freeHashes(next); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// freeHashes frees the name NAME.hashes.new if a dead process has left a file there. If the file
// belongs to the filter at the path, freeHashes renames it to NAME.hashes, as the dead process was
// about to do; otherwise it removes the file.
func (d *Draft) freeHashes(next string) error {
	f, err := os.OpenFile(next, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if errors.Is(lockDraft(f), recovery.ErrLocked) || !sameFile(f, next) {
		return nil // the temporary file belongs to a draft whose process lives
	}
	belongs, past := false, false
	if filter, head, err := OpenFile(d.path); err == nil {
		filter.Close()
		_, err := recovery.EndOfHashes(hashFile{f}, head.Superblock)
		belongs, past = err == nil && head.Superblock.KeepsHashes(), head.Superblock.KeepChanges() > 0
	}
	if runtime.GOOS == "windows" { // which neither renames nor removes an open file
		f.Close()
	}
	if belongs {
		return replaceHashes(d.path, past)
	}
	return removeIfThere(next)
}

// keepHashes replaces the hashes of the old filter, or removes them. It also removes the older files
// of hashes (NAME.past), which belong only to the old filter.
func (d *Draft) keepHashes() error {
	ForgetPast(d.path, 0)
	switch {
	case d.hashes != nil:
		return rename(d.path+recovery.NextHashes.String(), d.path+recovery.CurrentHashes.String())
	case d.dropped:
		return removeIfThere(d.hashesAt)
	}
	if next := d.path + recovery.NextHashes.String(); there(next) { // a dead process has left it
		return d.freeHashes(next)
	}
	return nil
}

// Publish makes the file durable and renames it to its path, which may replace an old file.
// The draft cannot be used afterwards. If Publish fails, the file at the path is unchanged,
// unless the error says that the new file is complete. Then the new file is at the path, but
// may not survive a power loss, or readers of the old file have not been told (K4).
func (d *Draft) Publish() error {
	err := d.prepare()
	give := rename
	if d.isNew {
		give = renameNew
	} else if err == nil && d.old == nil {
		err = d.lockOld() // a file has appeared, which may have a writer
	}
	d.noteOld()
	if err == nil && d.guarded {
		err = d.Guard()
	}
	if err == nil && d.check != nil {
		err = d.check()
	}
	if err == nil {
		d.letGo()
		err = d.nameHashes()
	}
	if err != nil {
		return errors.Join(err, d.Discard())
	}
	if err := give(d.file.Name(), d.path); err != nil {
		return errors.Join(err, d.Discard())
	}
	// Remove the logs of the replaced file, and its set of changes. If one of them stays, it does
	// no harm: the UUID of a log shows that it belongs to another file, and no commit names the
	// check of the set.
	for _, name := range []recovery.LogName{recovery.NextLog, recovery.CurrentLog} {
		err = errors.Join(err, removeLog(d.path+name.String(), d.replaces))
	}
	if err = errors.Join(err, removeSet(d.path), d.keepHashes(), syncDir(d.dir), d.leave()); err != nil {
		err = &CompleteError{d.path, "may not survive a power loss", err}
	}
	if d.old != nil {
		if e := Supersede(d.old); e != nil {
			err = errors.Join(err, &CompleteError{d.path, "is not known to readers of the file that it replaces (K4)", e})
		}
	}
	return errors.Join(err, d.release())
}

// letGo closes the files on Windows, which can neither rename nor replace an open file. So the locks
// end here.
func (d *Draft) letGo() {
	if runtime.GOOS != "windows" {
		return
	}
	for _, f := range []*os.File{d.file, d.hashes, d.old} {
		if f != nil {
			f.Close() // durable, or about to be replaced: no error matters
		}
	}
	d.old = nil
}

// noteOld notes the superblock of the old file, whose logs Publish removes.
func (d *Draft) noteOld() {
	if d.old == nil {
		return
	}
	if h, _ := readHead(d.old); h != nil { // it may have been cut short
		d.replaces = h.Superblock
	}
}

// removeLog removes a log. of is the superblock of the filter whose log it should be, or nil. If of is
// not nil and the log belongs to another filter, removeLog sets the log aside instead.
func removeLog(path string, of *layout.Superblock) error {
	if of != nil {
		if err := setAside(path, of.UUID()); err != nil {
			return err
		}
	}
	return removeIfThere(path)
}

// leave removes the files that a renamed filter has left beside its old name.
func (d *Draft) leave() error {
	if d.from == "" {
		return nil
	}
	var errs []error
	for _, name := range []recovery.LogName{recovery.NextLog, recovery.CurrentLog} {
		errs = append(errs, removeLog(d.from+name.String(), d.is))
	}
	var left []string
	if d.hashes != nil {
		left = []string{recovery.NextHashes.String(), recovery.CurrentHashes.String()}
	}
	for _, suffix := range left {
		errs = append(errs, removeIfThere(d.from+suffix))
	}
	movePast(d.from, d.path)
	if dir := filepath.Dir(d.from); dir != filepath.Dir(d.path) {
		errs = append(errs, SyncDir(dir))
	}
	return errors.Join(errs...)
}

// Supersede tells the readers of a file that another file has its place (K4), if the file is a filter
// and has no name any more. Call it once the directory is synced: until then, a power loss may give the
// file its name back.
func Supersede(old *os.File) error {
	if noWriters || !nameless(old) {
		return nil
	}
	head := make([]byte, layout.OffStash)
	if _, err := old.ReadAt(head, 0); errors.Is(err, io.EOF) {
		return nil // too short for a filter
	} else if err != nil {
		return err
	}
	if _, _, _, err := layout.Newest(head[:layout.OffRuntime]); err != nil {
		return nil // not a filter, or a filter of a newer version
	}
	if err := fault.At("write"); err != nil {
		return err
	}
	_, err := old.WriteAt(recovery.Bytes([]uint64{layout.Superseded}), layout.OffRuntime+8*layout.RuntimeEpoch)
	return err
}

// prepare does everything that comes before the rename.
func (d *Draft) prepare() error {
	if d.from != "" {
		if err := d.takeAccess(); err != nil {
			return err
		}
	}
	if d.hashes != nil {
		if err := syncFile(d.hashes); err != nil {
			return err
		}
	}
	if d.from != "" {
		if err := syncFile(d.file); err != nil {
			return err
		}
	} else if err := errors.Join(syncFilter(&d.Mapping, d.file), d.Unmap()); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return nil // lockDraft has taken the writer lock, which ends in letGo
	}
	// Keep writers out of the new file until the logs of the old file are gone.
	return lock(d.file)
}

// takeAccess gives the draft and its hashes the owner, group and permissions of the old file.
func (d *Draft) takeAccess() error {
	if d.old != nil {
		if err := d.keepAccess(); err != nil {
			return err
		}
	}
	info, err := d.file.Stat()
	if err == nil && d.hashes != nil {
		keepAccess(d.hashes, info) // as in CreateHashes
	}
	return err
}

// Discard removes the draft. The file at the path is unchanged.
func (d *Draft) Discard() error {
	var errs []error
	if d.Data != nil {
		errs = append(errs, d.Unmap())
	}
	if d.file != nil && d.from == "" {
		d.file.Close() // closed already, or about to be removed: no error matters
		// Another process may take the file for a stale one, and remove it.
		if err := os.Remove(d.file.Name()); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	switch {
	case d.dropped:
		errs = append(errs, rename(d.hashesAt, d.path+recovery.CurrentHashes.String()))
	case d.hashesAt != "":
		errs = append(errs, removeIfThere(d.hashesAt))
	}
	errs = append(errs, d.release())
	return errors.Join(errs...)
}

// release closes the files that the draft has open, and releases the lock. Closing the file is not
// enough: a child process that is just starting has the file open, too, until it runs its program.
func (d *Draft) release() error {
	var errs []error
	if d.file != nil {
		unlock(d.file) // it may have no lock, or be closed
		d.file.Close() // closed already, or durable: no error matters
	}
	if d.hashes != nil {
		d.hashes.Close() // no error matters here either
	}
	for _, f := range []**os.File{&d.old, &d.dir} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}

// A Scratch is a file beside a draft, for data that need not outlive the draft. Where the
// system allows, a scratch has no name, so nothing is left of it however the process ends.
type Scratch struct{ *os.File }

// Scratch creates an empty scratch file.
func (d *Draft) Scratch() (*Scratch, error) { return ScratchBeside(d.path) }

// ScratchBeside creates an empty scratch file beside the file at path.
func ScratchBeside(path string) (*Scratch, error) {
	f, err := createBeside(path, 0o600)
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // fails on Windows while the file is open
	return &Scratch{f}, nil
}

// WriteAt is os.File.WriteAt.
func (s *Scratch) WriteAt(data []byte, off int64) (int, error) {
	if err := fault.At("write"); err != nil {
		return 0, err
	}
	return s.File.WriteAt(data, off)
}

// Close closes the file, which removes it.
func (s *Scratch) Close() error {
	err := s.File.Close()
	if rm := os.Remove(s.Name()); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return rm
	}
	return err
}
