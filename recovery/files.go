package recovery

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// Files is the Volume of the operating system: a filter file and its logs,
// mapped. It has the lock of the filter file until it is closed.
type Files struct {
	path   string // with symbolic links followed
	dir    *os.File
	filter *mappedFile
}

// A mappedFile is a File of the operating system. The filter is mapped twice, for loads
// and for stores: a sync takes the right to store from every page that has it, and
// what lookups load from never had it, see leavePageTable.
type mappedFile struct {
	loads, stores *Mapping // one and the same for a log
	file          *os.File
	words, stored []uint64 // of loads and of stores
	sync          func(stores *Mapping, file *os.File) error
	kept          bool // loads is for someone else to unmap
}

func (f *mappedFile) Words() []uint64          { return f.words }
func (f *mappedFile) Store(word, value uint64) { atomic.StoreUint64(&f.stored[word], value) }
func (f *mappedFile) Prefetch(word uint64)     { layout.Prefetch(&f.stored[word]) }
func (f *mappedFile) Sync() error              { return f.sync(f.stores, f.file) }

func (f *mappedFile) Close() error {
	var err error
	if f.loads != f.stores {
		err = f.stores.Unmap()
	}
	if !f.kept {
		err = errors.Join(err, f.loads.Unmap())
	}
	return errors.Join(err, f.file.Close())
}

// A logFile is a mappedFile that nobody reads while it is written. Its words need
// no order then, and a store takes a cycle where one that others see in order
// takes 20, on amd64. Whatever order a processor keeps, the death of a process
// leaves the stores up to some instruction.
type logFile struct{ *mappedFile }

func (f logFile) Store(word, value uint64) { f.stored[word] = value }

// StoreRun is no copy, which has no order: the check of a record is its last word, and where
// the process dies before it, there is no record.
func (f logFile) StoreRun(word uint64, values []uint64) {
	for _, v := range values {
		f.stored[word] = v
		word++
	}
}

// syncFilter writes what the mapping holds, and then what the file holds, so
// that no system is asked to do both with one call.
func syncFilter(m *Mapping, f *os.File) error {
	if err := fault.At("msync"); err != nil {
		return err
	}
	m.leavePageTable()
	if err := m.Data.Flush(); err != nil {
		return os.NewSyscallError("msync", err)
	}
	return syncFile(f)
}

func syncFile(f *os.File) error {
	if err := fault.At("fsync"); err != nil {
		return err
	}
	return f.Sync()
}

// OpenFiles opens and locks the filter file under path, for writing. It creates
// nothing. It fails with [ErrLocked] where another process has the lock.
//
// The file gets blocks for holes that it may have, being a copy: a store into a
// hole of a full disk would be a fault.
func OpenFiles(path string) (*Files, error) {
	if noWriters {
		return nil, fmt.Errorf("open for writing on %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	f, err := openLocked(path)
	if err != nil {
		return nil, err
	}
	v, err := mapFiles(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

// noWriters is where a mapping and what calls read and write are not the same
// (OpenBSD), and where a file that is mapped cannot be renamed (Windows).
const noWriters = runtime.GOOS == "openbsd" || runtime.GOOS == "windows"

// realPath follows symbolic links, and does not depend on the working directory:
// the log is beside the file itself, wherever the process goes.
func realPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// newPath is realPath for a file that may not exist. A symbolic link whose target does
// not exist is followed to where it would be.
func newPath(path string) (string, error) {
	for range maxLinks {
		if real, err := realPath(path); !errors.Is(err, fs.ErrNotExist) {
			return real, err
		}
		// What ".." leads to depends on links before it, so no path is cleaned here.
		dir, base := filepath.Split(path)
		if dir == "" {
			dir = "."
		}
		real, err := realPath(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Abs(path) // for openDir to say what is missing
		}
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(filepath.Join(real, base))
		if err != nil { // no link: the file itself is missing
			return filepath.Join(real, base), nil
		}
		if path = target; !filepath.IsAbs(target) {
			path = real + string(filepath.Separator) + target
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// maxLinks is how many links to a missing file are followed: as many as Linux follows.
const maxLinks = 40

func mapFiles(path string, f *os.File) (*Files, error) {
	head, err := readHead(f)
	if err != nil {
		return nil, err
	}
	if err := allocateAgain(f, head.Geometry.SealedBytes); err != nil {
		return nil, fmt.Errorf("allocate %s: %w", path, err)
	}
	loads, err := mapRandom(f, head.Geometry.SealedBytes, false)
	if err != nil {
		return nil, err
	}
	stores, err := mapRandom(f, head.Geometry.SealedBytes, true)
	if err != nil {
		return nil, errors.Join(err, loads.Unmap())
	}
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return nil, errors.Join(err, loads.Unmap(), stores.Unmap())
	}
	filter := &mappedFile{loads: loads, stores: stores, file: f, words: Words(loads.Data), stored: Words(stores.Data), sync: syncFilter}
	v := &Files{path: path, dir: dir, filter: filter}
	// A mapping keeps the lock of its file: that of a writer whom nobody closed goes with
	// the garbage, as the file does.
	runtime.AddCleanup(v, func(m *Mapping) { m.Unmap() }, stores)
	return v, nil
}

// mapRandom is Map for a file that is written: it is not read ahead (R4).
func mapRandom(f *os.File, size int64, writable bool) (*Mapping, error) {
	m, err := Map(f, size, writable)
	if err != nil {
		return nil, err
	}
	if err := m.AdviseRandom(); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return m, nil
}

// openLocked opens the regular file under path for reading and writing, and
// takes its lock. Another process may put a new file there before the lock is
// taken; it would then be on one that nobody can find, so it is taken again.
func openLocked(path string) (*os.File, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, notRegular("open", path)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		beforeLock()
		if err := lock(f); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
		if sameFile(f, path) {
			return f, nil
		}
		f.Close()
	}
}

// beforeLock is where a test has another process replace the file.
var beforeLock = func() {}

// sameFile reports whether f is what stands under path.
func sameFile(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(is, named)
}

func (v *Files) Filter() File { return v.filter }

// Serve says to readers that the file needs no recovery: NewWriter has returned.
func (v *Files) Serve() error { return serve(v.filter.file) }

// File is the filter file of the operating system.
func (v *Files) File() *os.File { return v.filter.file }

// Mapping is that of the filter file for loads.
func (v *Files) Mapping() *Mapping { return v.filter.loads }

// Guard is [Guard] for an f that touches the mapped files, and no memory of a caller.
// Whatever panic ends f, it calls failed first.
func (v *Files) Guard(f func(), failed func(error)) (fault *FaultError) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			fault = faultOf(r, Bytes(v.filter.words), Bytes(v.filter.stored))
			if fault == nil {
				failed(fmt.Errorf("panic: %v", r))
				panic(r)
			}
			failed(fault)
		}
	}(debug.SetPanicOnFault(true))
	f()
	return nil
}

func (v *Files) Named() error {
	if !sameFile(v.filter.file, v.path) {
		return fmt.Errorf("%s: %w", v.path, ErrReplaced)
	}
	return nil
}

func (v *Files) logPath(name LogName) string { return v.path + name.String() }

func (v *Files) OpenLog(name LogName) (File, error) {
	f, err := os.OpenFile(v.logPath(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() < wal.MinBytes || info.Size() > wal.MaxBytes || info.Size()%wal.PageBytes != 0) {
		err = &layout.CorruptError{Region: layout.RegionLog, Offset: info.Size(), Rule: fmt.Sprintf("L1: %s has %d bytes: it was cut short, or is no log", v.logPath(name), info.Size())}
	}
	var log File
	if err == nil {
		log, err = mapLog(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return log, nil
}

func mapLog(f *os.File, size int64) (File, error) {
	m, err := mapRandom(f, size, true)
	if err != nil {
		return nil, err
	}
	words := Words(m.Data)
	return logFile{&mappedFile{loads: m, stores: m, file: f, words: words, stored: words, sync: syncLog}}, nil
}

// CreateLog writes every byte, so that a commit need not tell the file system
// which blocks have been written to; and a page at a time, so that the pages of
// the cache are small ones. A log in large ones, as a long write leaves them,
// writes up to 1 MiB in every commit, measured on ext4.
func (v *Files) CreateLog(bytes int64) (File, error) {
	path := v.logPath(NextLog)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	info, err := v.filter.file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, ofRoom(err)
	}
	keepAccess(f, info) // who may recover the filter needs its log
	log, err := v.fillLog(f, bytes)
	if err != nil {
		f.Close()
		if e := os.Remove(path); e != nil {
			return nil, fmt.Errorf("%v; and it stays: %w", err, e) // not ErrNoRoom
		}
		return nil, err
	}
	return log, nil
}

// ofRoom makes the error of a log that could not get its blocks ErrNoRoom if that is for
// want of room. (Of a sync it never is.)
func ofRoom(err error) error {
	for _, room := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, room) {
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
	return err
}

func (v *Files) fillLog(f *os.File, bytes int64) (File, error) {
	if err := allocate(f, bytes); err != nil {
		return nil, ofRoom(err)
	}
	if err := writeZeros(f, bytes, wal.PageBytes); err != nil {
		return nil, ofRoom(err)
	}
	if err := syncFile(f); err != nil {
		return nil, err
	}
	if err := v.syncDir(); err != nil {
		return nil, err
	}
	return mapLog(f, bytes)
}

func (v *Files) KeepLog() error {
	if err := rename(v.logPath(NextLog), v.logPath(CurrentLog)); err != nil {
		return err
	}
	return v.syncDir()
}

func (v *Files) RemoveLogs() error {
	for _, name := range []LogName{NextLog, CurrentLog} {
		if err := remove(v.logPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return v.syncDir()
}

func rename(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// renameNew is rename where nothing may stand under the new name.
func renameNew(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	return renameNoReplace(from, to)
}

// linkNew does it with a second name for the file, which is atomic too.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

func remove(path string) error {
	if err := fault.At("remove"); err != nil {
		return err
	}
	return os.Remove(path)
}

func (v *Files) syncDir() error { return syncDir(v.dir) }

// syncDir makes the names in a directory durable; nil stands for one on a system
// that needs no call for it.
func syncDir(dir *os.File) error {
	if err := fault.At("syncdir"); err != nil {
		return err
	}
	if dir == nil {
		return nil
	}
	return dir.Sync()
}

func (v *Files) Random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Close ends the mapping and the lock.
func (v *Files) Close() error {
	err := errors.Join(unlock(v.filter.file), v.filter.Close())
	if v.dir != nil {
		err = errors.Join(err, v.dir.Close())
	}
	return err
}

// KeepMapping makes Close leave the mapping for loads alone: it is for
// whoever uses it to unmap.
func (v *Files) KeepMapping() { v.filter.kept = true }
