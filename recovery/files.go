package recovery

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// Files is the Volume of the operating system: a filter file and its logs, mapped. It
// holds the lock of the filter file until Close.
type Files struct {
	path   string // with symbolic links followed
	dir    *os.File
	filter *mappedFile
	hashes []*os.File // that were opened
}

// A mappedFile is a File of the operating system. The filter is mapped twice, for loads
// and for stores: a sync write-protects only the pages that are mapped for stores. See
// leavePageTable.
type mappedFile struct {
	loads, stores *Mapping // the same mapping for a log
	file          *os.File
	words, stored []uint64 // of loads and of stores
	sync          func(stores *Mapping, file *os.File) error
	kept          bool // Close must not unmap loads
}

func (f *mappedFile) Words() []uint64          { return f.words }
func (f *mappedFile) Store(word, value uint64) { atomic.StoreUint64(&f.stored[word], value) }
func (f *mappedFile) Prefetch(word uint64)     { kernel.Prefetch(&f.stored[word]) }
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

// A logFile is a mappedFile that is not read while it is written. So its stores are plain
// ones, which are much cheaper on amd64 than ordered stores. Whatever order the processor
// keeps, the death of a process leaves the stores up to some instruction.
type logFile struct{ *mappedFile }

func (f logFile) Store(word, value uint64) { f.stored[word] = value }

// StoreRun does not use copy, which guarantees no order: the last word of a record has its
// check and must be stored last, so that a record that is cut off has none.
func (f logFile) StoreRun(word uint64, values []uint64) {
	for _, v := range values {
		f.stored[word] = v
		word++
	}
}

// syncFilter writes back the mapping, then the file, since not every system does both in
// one call.
func syncFilter(m *Mapping, f *os.File) error {
	if err := fault.At("msync"); err != nil {
		return err
	}
	m.leavePageTable(0, int64(len(m.Data)))
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

// OpenFiles opens and locks the filter file at path, for writing. It creates no file.
// It fails with [ErrLocked] if another process has the lock, and with
// errors.ErrUnsupported on systems where files cannot be written.
//
// It allocates blocks for holes in the file, as a copy may have: a store into a hole on a
// full disk would be a fault.
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

// noWriters is set on systems where a mapping and read and write may differ (OpenBSD)
// or where a mapped file cannot be renamed (Windows).
const noWriters = runtime.GOOS == "openbsd" || runtime.GOOS == "windows"

// realPath follows symbolic links and makes the path absolute, since the log is beside the
// file itself, whatever the working directory.
func realPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// newPath is realPath for a file that may not exist. A symbolic link whose target does
// not exist is followed to where the target would be.
func newPath(path string) (string, error) {
	for range maxLinks {
		if real, err := realPath(path); !errors.Is(err, fs.ErrNotExist) {
			return real, err
		}
		// Where ".." leads depends on the links before it, so no path is cleaned here.
		dir, base := filepath.Split(path)
		if dir == "" {
			dir = "."
		}
		real, err := realPath(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return filepath.Abs(path) // openDir will report what is missing
		}
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(filepath.Join(real, base))
		if err != nil { // not a link: the file itself is missing
			return filepath.Join(real, base), nil
		}
		if path = target; !filepath.IsAbs(target) {
			path = real + string(filepath.Separator) + target
		}
	}
	return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// maxLinks is how many links to a missing file are followed, as on Linux.
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
	// A mapping keeps the lock of its file, so unmap it when an unclosed writer is
	// collected.
	runtime.AddCleanup(v, func(m *Mapping) { m.Unmap() }, stores)
	return v, nil
}

// mapRandom is Map for a file that is written to, without read-ahead (R4).
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

// openLocked opens the regular file at path for reading and writing and locks it. It starts
// again if another process replaces the file before that.
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

// beforeLock lets a test replace the file.
var beforeLock = func() {}

// sameFile reports whether f is the file at path.
func sameFile(f *os.File, path string) bool {
	is, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(is, named)
}

// Filter returns the filter file.
func (v *Files) Filter() File { return v.filter }

// Serve tells readers that the file needs no recovery. Call it after NewWriter returns.
func (v *Files) Serve() error { return serve(v.filter.file) }

// File returns the open filter file.
func (v *Files) File() *os.File { return v.filter.file }

// Mapping returns the mapping of the filter file that lookups load from.
func (v *Files) Mapping() *Mapping { return v.filter.loads }

// Guard is [Guard] for a function that uses the mapped files but no memory of its caller.
// If f panics, Guard calls failed before it returns the fault or panics again.
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

// Named returns ErrReplaced if the filter file is not the one at its path.
func (v *Files) Named() error {
	if !sameFile(v.filter.file, v.path) {
		return fmt.Errorf("%s: %w", v.path, ErrReplaced)
	}
	return nil
}

func (v *Files) logPath(name LogName) string { return v.path + name.String() }

// OpenLog opens and maps a log. If the file cannot be a log, the error is
// layout.ErrCorrupt.
func (v *Files) OpenLog(name LogName) (File, error) {
	f, err := os.OpenFile(v.logPath(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() < wal.OldestBytes || info.Size() > wal.MaxBytes || info.Size()%wal.PageBytes != 0) {
		err = &layout.CorruptError{Region: layout.RegionLog, Offset: info.Size(), Rule: fmt.Sprintf("L1: %s has %d bytes: it was cut short or is not a log", v.logPath(name), info.Size())}
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

// CreateLog makes, maps and syncs a log. It writes every byte, so that a commit need not
// tell the file system which blocks have been written. It writes page by page, so that the
// page cache holds small pages: one long write would leave large pages, and each commit
// could write back a whole one.
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
	keepAccess(f, info) // a process that may write to the filter needs its log to recover it
	log, err := v.fillLog(f, bytes)
	if err != nil {
		f.Close()
		if e := os.Remove(path); e != nil {
			return nil, fmt.Errorf("%v; the unfinished log stays: %w", err, e) // not ErrNoRoom
		}
		return nil, err
	}
	return log, nil
}

// ofRoom turns an error of allocating a log into ErrNoRoom if there was no room. (Errors of
// a sync are never ErrNoRoom.)
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

// KeepLog renames NextLog to CurrentLog and syncs the directory.
func (v *Files) KeepLog() error {
	if err := rename(v.logPath(NextLog), v.logPath(CurrentLog)); err != nil {
		return err
	}
	return v.syncDir()
}

// RemoveLogs removes both logs and syncs the directory.
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

// renameNew is rename, but fails if the new name is taken.
func renameNew(from, to string) error {
	if err := fault.At("rename"); err != nil {
		return err
	}
	return renameNoReplace(from, to)
}

// linkNew is renameNew by way of a hard link, which is atomic too.
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

// SyncNames syncs the directory.
func (v *Files) SyncNames() error { return v.syncDir() }

func (v *Files) syncDir() error { return syncDir(v.dir) }

// syncDir makes the names in a directory durable. dir is nil on systems that need no call.
func syncDir(dir *os.File) error {
	if err := fault.At("syncdir"); err != nil {
		return err
	}
	if dir == nil {
		return nil
	}
	return dir.Sync()
}

// Random returns 64 bits of crypto/rand.
func (v *Files) Random() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Close unmaps and closes the files and releases the lock.
func (v *Files) Close() error {
	for _, f := range v.hashes {
		f.Close() // it may be closed already
	}
	err := errors.Join(unlock(v.filter.file), v.filter.Close())
	if v.dir != nil {
		err = errors.Join(err, v.dir.Close())
	}
	return err
}

// KeepMapping makes Close leave the mapping for loads in place. The caller of Mapping must
// unmap it.
func (v *Files) KeepMapping() { v.filter.kept = true }

// A hashFile is a HashFile of the operating system. It is not mapped: it is written to once and
// seldom read, and takes no memory of the process.
type hashFile struct{ *os.File }

func (f hashFile) Pages() (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()) / hashes.PageBytes, nil
}

func (f hashFile) ReadPage(number uint64, p *hashes.Page) error {
	_, err := f.ReadAt(Bytes(p[:]), int64(number)*hashes.PageBytes)
	if errors.Is(err, io.EOF) {
		return hashes.Corrupt(number, "the file ends before this page")
	}
	return err
}

func (f hashFile) WritePage(number uint64, p *hashes.Page) error {
	if err := fault.At("write"); err != nil {
		return err
	}
	_, err := f.WriteAt(Bytes(p[:]), int64(number)*hashes.PageBytes)
	return err
}

func (f hashFile) Truncate(pages uint64) error {
	if err := fault.At("truncate"); err != nil {
		return err
	}
	return f.File.Truncate(int64(pages) * hashes.PageBytes)
}

func (f hashFile) Sync() error { return syncFile(f.File) }

func (v *Files) hashesPath(name HashesName) string { return v.path + name.String() }

// OpenHashes opens a file of hashes.
func (v *Files) OpenHashes(name HashesName) (HashFile, error) {
	f, err := openHashes(v.hashesPath(name), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	v.hashes = append(v.hashes, f.(hashFile).File)
	return f, nil
}

func openHashes(path string, flags int) (HashFile, error) {
	info, err := os.Stat(path) // opening a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular("open", path)
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	return hashFile{f}, nil
}

// OpenHashesOf opens, for reading, the file of hashes that belongs to the filter at path with the
// given superblock. The error is ErrHashes.
func OpenHashesOf(path string, sb *layout.Superblock) (HashFile, error) {
	if !sb.KeepsHashes() {
		return nil, errNotKept
	}
	counted := sb.Hashes()
	if counted.Pages == 0 {
		return nil, errLost
	}
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	var first error
	for _, name := range []HashesName{CurrentHashes, NextHashes} {
		f, err := openHashes(path+name.String(), os.O_RDONLY)
		if err == nil {
			if _, _, err = EndOfHashes(f, counted); err == nil {
				return f, nil
			}
			f.Close()
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("%w: NAME.hashes: %w", ErrHashes, first)
}

// KeepHashes renames NextHashes to CurrentHashes and syncs the directory.
func (v *Files) KeepHashes() error {
	if err := rename(v.hashesPath(NextHashes), v.hashesPath(CurrentHashes)); err != nil {
		return err
	}
	return v.syncDir()
}

// RemoveHashes removes a file of hashes.
func (v *Files) RemoveHashes(name HashesName) error { return removeIfThere(v.hashesPath(name)) }

// TakePlace renames the files of v. Another volume must be one of Files, in the same directory.
func (v *Files) TakePlace(old Volume) (placed bool, err error) {
	to := old.(*Files).path
	names := [][2]string{
		{v.logPath(CurrentLog), to + NextLog.String()},
		{v.hashesPath(CurrentHashes), to + NextHashes.String()},
		{v.path, to},
	}
	err = removeIfThere(v.logPath(NextLog))
	for i, n := range names {
		if err == nil {
			err = rename(n[0], n[1])
		}
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			err = nil // it keeps no hashes
		}
	}
	if err != nil {
		for _, n := range names[:2] {
			err = errors.Join(err, removeIfThere(n[1]))
		}
		return false, err
	}
	v.path = to
	err = rename(v.logPath(NextLog), v.logPath(CurrentLog))
	if e := rename(v.hashesPath(NextHashes), v.hashesPath(CurrentHashes)); errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, removeIfThere(v.hashesPath(CurrentHashes)))
	} else {
		err = errors.Join(err, e)
	}
	return true, errors.Join(err, v.syncDir())
}

// Path returns the path of the filter file, with symbolic links followed.
func (v *Files) Path() string { return v.path }
