package osfile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Files is the Volume of the operating system: a filter file and its logs, mapped. It
// holds the lock of the filter file until Close.
type Files struct {
	// RequireHashes makes operations fail if their hashes cannot be kept. Such operations can
	// be tried again. Set RequireHashes before NewWriter.
	RequireHashes bool

	path   string // with symbolic links followed
	dir    *os.File
	filter *mappedFile
	hashes []*os.File // the files of hashes that were opened
}

// OpenFiles opens and locks the filter file at path, for writing. It creates no file.
// It fails with [recovery.ErrLocked] if another process has the lock, and with
// errors.ErrUnsupported on systems where files cannot be written.
//
// It allocates blocks for holes, which a copied file may have, because a store into a hole
// would be a fault if the disk is full.
func OpenFiles(path string) (*Files, error) {
	if err := CanWrite(); err != nil {
		return nil, err
	}
	path, err := realPath(path)
	if err != nil {
		return nil, err
	}
	f, err := OpenLocked(path)
	if err != nil {
		return nil, err
	}
	v, err := mapFiles(path, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

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
	filter := &mappedFile{loads: loads, stores: stores, file: f, words: recovery.Words(loads.Data), stored: recovery.Words(stores.Data), sync: syncFilter}
	v := &Files{path: path, dir: dir, filter: filter}
	// A mapping keeps the lock of its file. So unmap the mapping when the garbage collector
	// finds a writer that was not closed.
	runtime.AddCleanup(v, func(m *Mapping) { m.Unmap() }, stores)
	return v, nil
}

// OpenLocked opens the regular file at path for reading and writing. It locks the file until the file is
// closed. If another process replaces the file before it is locked, OpenLocked starts again.
func OpenLocked(path string) (*os.File, error) {
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

// Filter returns the filter file.
func (v *Files) Filter() recovery.File { return v.filter }

// Serve tells readers that the file needs no recovery. Call it after NewWriter returns.
func (v *Files) Serve() error { return serve(v.filter.file) }

// File returns the open filter file.
func (v *Files) File() *os.File { return v.filter.file }

// Mapping returns the mapping of the filter file that lookups load from.
func (v *Files) Mapping() *Mapping { return v.filter.loads }

// Catch is the function [Catch] for a function that uses the mapped files but no memory of its caller.
// The error is a *FaultError.
func (v *Files) Catch(f func(), failed func(error)) error {
	if fault := catch(f, failed, recovery.Bytes(v.filter.words), recovery.Bytes(v.filter.stored)); fault != nil {
		return fault
	}
	return nil
}

// Named returns ErrReplaced if another file, or no file, is at the path of the filter file.
func (v *Files) Named() error {
	if !sameFile(v.filter.file, v.path) {
		return fmt.Errorf("%s: %w", v.path, recovery.ErrReplaced)
	}
	return nil
}

// Whole returns ErrCorrupt if the filter file is shorter than its mapping.
func (v *Files) Whole() error {
	info, err := v.filter.file.Stat()
	if err != nil {
		return err
	}
	if size, mapped := info.Size(), int64(len(v.filter.words))*8; size < mapped {
		return fmt.Errorf("%s: %w", v.path, &layout.CorruptError{Region: layout.RegionFile, Offset: size, Rule: "F6", What: "the file was cut short while it was open"})
	}
	return nil
}

func (v *Files) logPath(name recovery.LogName) string { return v.path + name.String() }

// OpenLog opens and maps a log. If the file cannot be a log, the error is
// layout.ErrCorrupt.
func (v *Files) OpenLog(name recovery.LogName) (recovery.File, error) {
	f, err := os.OpenFile(v.logPath(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() < wal.MinBytes || info.Size() > wal.MaxBytes || info.Size()%wal.PageBytes != 0) {
		err = &layout.CorruptError{Region: layout.RegionLog, Offset: info.Size(), Rule: "L1", What: fmt.Sprintf("NAME%s has %d bytes: it was cut short or is not a log", name, info.Size())}
	}
	if err == nil {
		err = hasHeaders(f)
	}
	var log recovery.File
	if err == nil {
		log, err = mapLog(f, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return log, nil
}

// hasHeaders returns recovery.ErrUnusedLog if the headers of a log were never written.
func hasHeaders(f *os.File) error {
	head := make([]byte, wal.HeaderSlots*wal.PageBytes)
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	if len(bytes.Trim(head, "\x00")) == 0 {
		return recovery.ErrUnusedLog
	}
	return nil
}

// CreateLog creates, maps and syncs a log (W2). If something else has one of the names of a log, the
// error is a *ForeignError. CreateLog gives the log of another filter another name, even if it then
// finds no room for the new log. CreateLog writes every byte, so that a commit need not tell the
// file system which blocks have been written. It writes page by page, so that the page cache holds
// small pages. One long write would leave large pages, and each commit might write back a large page.
func (v *Files) CreateLog(bytes int64) (recovery.File, error) {
	h, err := readHead(v.filter.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v.path, err)
	}
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} { // which the new log is to replace
		path := v.logPath(name)
		if _, other, err := whatIs(path); err != nil {
			return nil, err
		} else if other {
			return nil, notALog(path)
		}
	}
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		if err := setAside(v.logPath(name), h.Superblock.UUID()); err != nil {
			return nil, err
		}
	}
	path := v.logPath(recovery.NextLog)
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

func (v *Files) fillLog(f *os.File, bytes int64) (recovery.File, error) {
	if err := allocate(context.Background(), f, bytes); err != nil {
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
	if err := rename(v.logPath(recovery.NextLog), v.logPath(recovery.CurrentLog)); err != nil {
		return err
	}
	return v.syncDir()
}

// RemoveLogs removes both logs and syncs the directory. If a file with the name of NextLog is not
// a log, it stays.
func (v *Files) RemoveLogs() error {
	for _, name := range []recovery.LogName{recovery.NextLog, recovery.CurrentLog} {
		if name == recovery.NextLog {
			if _, other, err := whatIs(v.logPath(name)); err == nil && other {
				continue
			}
		}
		if err := remove(v.logPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return v.syncDir()
}

// SyncNames syncs the directory.
func (v *Files) SyncNames() error { return v.syncDir() }

func (v *Files) syncDir() error { return syncDir(v.dir) }

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

func (v *Files) hashesPath(name recovery.HashesName) string { return v.path + name.String() }

// OpenHashes opens a file of hashes.
func (v *Files) OpenHashes(name recovery.HashesName) (recovery.HashFile, error) {
	f, err := openHashes(v.hashesPath(name), os.O_RDWR)
	if err != nil {
		return nil, err
	}
	v.hashes = append(v.hashes, f.(hashFile).File)
	return f, nil
}

// KeepHashes renames NextHashes to CurrentHashes and syncs the directory.
func (v *Files) KeepHashes() error {
	h, err := readHead(v.filter.file)
	if err != nil {
		return err
	}
	if err := replaceHashes(v.path, h.Superblock.KeepChanges() > 0); err != nil {
		return err
	}
	return v.syncDir()
}

// RemoveHashes removes a file of hashes.
func (v *Files) RemoveHashes(name recovery.HashesName) error {
	return removeIfThere(v.hashesPath(name))
}

// TakePlace renames the files of v. old must be a *Files, too, in the same directory.
func (v *Files) TakePlace(old recovery.Volume) (placed bool, err error) {
	to := old.(*Files).path
	h, err := readHead(v.filter.file)
	if err != nil {
		return false, err
	}
	names := [][2]string{
		{v.logPath(recovery.CurrentLog), to + recovery.NextLog.String()},
		{v.hashesPath(recovery.CurrentHashes), to + recovery.NextHashes.String()},
		{v.path, to},
	}
	err = removeIfThere(v.logPath(recovery.NextLog))
	for i, n := range names {
		if err == nil {
			err = rename(n[0], n[1])
		}
		if i == 1 && errors.Is(err, fs.ErrNotExist) {
			err = nil // v keeps no hashes
		}
	}
	if err != nil {
		for _, n := range names[:2] {
			err = errors.Join(err, removeIfThere(n[1]))
		}
		return false, err
	}
	v.path = to
	err = rename(v.logPath(recovery.NextLog), v.logPath(recovery.CurrentLog))
	if e := replaceHashes(to, h.Superblock.KeepChanges() > 0); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e) // without hashes in either filter, there is nothing to rename
	}
	return true, errors.Join(err, v.syncDir())
}

// RequiresHashes returns RequireHashes.
func (v *Files) RequiresHashes() bool { return v.RequireHashes }

// Path returns the path of the filter file, with symbolic links followed.
func (v *Files) Path() string { return v.path }
