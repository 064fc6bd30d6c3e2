package osfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

func occupied(path, by string) error { return &recovery.ForeignError{Path: path, Is: by} }

// A CompleteError says that a new file is in its place, and complete, but that something failed
// afterwards.
type CompleteError struct {
	Path string
	But  string // the consequence of Err, such as "may not survive a power loss"
	Err  error
}

func (e *CompleteError) Error() string {
	return fmt.Sprintf("%s is complete, but %s: %v", e.Path, e.But, e.Err)
}

func (e *CompleteError) Unwrap() error { return e.Err }

// foreign returns a *ForeignError if a new filter at a path would destroy a file that does not
// belong to the filter old, which is at the path now. old is nil if no file is at the path.
//
// Files that a killed process may have left are no reason to refuse: a log of zeros; a log beside a
// filter, even if it belongs to an earlier filter; NAME.hashes.new; and a NAME.hashes that
// NAME.hashes.new was to replace.
func foreign(path string, old *os.File) error {
	var sb *layout.Superblock // nil if no filter, or a damaged one, is at the path
	n := 0
	if old != nil {
		head := make([]byte, layout.OffRuntime)
		var err error
		if n, err = old.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n > 0 && !layout.IsFilter(head[:n]) {
			return occupied(path, "which is not a filter")
		}
		if h, err := readHead(old); err == nil {
			sb = h.Superblock
		}
	}
	// alone reports whether no filter is at the path. Then the log and the hashes beside the path
	// belong to a filter elsewhere.
	alone := func() bool {
		if old != nil {
			return n == 0
		}
		return !there(path) // a filter that has appeared meanwhile was there before its log and its hashes
	}
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		if err := foreignLog(path+name.String(), sb, alone); err != nil {
			return err
		}
	}
	if err := foreignPast(path, alone); err != nil {
		return err
	}
	for _, name := range []recovery.HashesName{recovery.NextHashes, recovery.CurrentHashes} {
		if err := foreignHashes(path, name, sb, alone); err != nil {
			return err
		}
	}
	return nil
}

// whatIs reports whether the file at a path is a log, or something else. A file of zeros, which a
// killed process may have left, is neither.
func whatIs(path string) (log, other bool, err error) {
	head, err := readStart(path, wal.HeaderSlots*wal.PageBytes)
	if err != nil || len(bytes.Trim(head, "\x00")) == 0 {
		return false, false, err
	}
	log = wal.IsLog(recovery.Words(head))
	return log, !log, nil
}

func notALog(path string) error {
	return occupied(path, "which is not the log of a filter")
}

func foreignLog(path string, sb *layout.Superblock, alone func() bool) error {
	log, other, err := whatIs(path)
	switch {
	case err != nil:
		return err
	case log && sb == nil && alone():
		return occupied(path, "the log of a filter that is not there: it may have another name now")
	case other && (sb == nil && alone() || sb != nil && sb.State() != layout.Live):
		return notALog(path)
	}
	return nil
}

// setAside renames a log that belongs neither to the file with this UUID nor to that file after its
// next operation. The new name is the path and the first digits of the UUID in the log, and a number
// if a file of that name exists. The filter of the log may have been moved without the log, and
// still needs it.
func setAside(path string, uuid [16]byte) error {
	head, err := readStart(path, wal.HeaderSlots*wal.PageBytes)
	other, ok := wal.Foreign(recovery.Words(head), uuid)
	if err != nil || !ok {
		return nil
	}
	to := fmt.Sprintf("%s.%x", path, other[:4])
	for i := 1; ; i++ {
		if err := renameNew(path, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		if one, err := os.Stat(to); err == nil {
			if two, err := os.Stat(path); err == nil && os.SameFile(one, two) {
				return os.Remove(path) // a process died after it had linked the log to this name
			}
		}
		to = fmt.Sprintf("%s.%x.%d", path, other[:4], i)
	}
}

func foreignHashes(filter string, name recovery.HashesName, sb *layout.Superblock, alone func() bool) error {
	path := filter + name.String()
	head, err := readStart(path, hashes.PageBytes)
	if err != nil || len(head) == 0 {
		return err
	}
	identity, ok := hashes.IdentityOf(recovery.Words(head))
	if name == recovery.NextHashes { // a draft or a rebuild has left it, or it belongs to sb (K3)
		if !ok {
			return occupied(path, "which is not a file of hashes")
		}
		return nil
	}
	switch {
	case sb == nil && alone():
		return occupied(path, "the hashes of a filter that is not there: it may have another name now")
	case sb == nil || sb.KeepsHashes() && (!ok || identity == sb.Hashes().Identity || sb.Hashes() == layout.Hashes{}):
		return nil // the filter's own hashes, intact or damaged; or those that it had before DiscardLog
	}
	if sb.KeepsHashes() {
		head, err := readStart(filter+recovery.NextHashes.String(), hashes.PageBytes)
		if next, ok := hashes.IdentityOf(recovery.Words(head)); err != nil || ok && next == sb.Hashes().Identity {
			return err // K3: the old NAME.hashes has not been replaced yet
		}
	}
	return occupied(path, "the hashes of another filter, or from another time")
}

// Replaceable returns a *ForeignError if the file at a path is not empty and does not begin with
// begins.
func Replaceable(path, begins string) error {
	head, err := readStart(path, int64(len(begins)))
	if err == nil && len(head) > 0 && !bytes.HasPrefix(head, []byte(begins)) {
		return occupied(path, "which is another kind of file")
	}
	return err
}

// readStart reads the first bytes of a file, rounded up to whole words. If there is no file, it
// returns none.
func readStart(path string, bytes int64) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, occupied(path, "which is not a regular file")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // its process has renamed it
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	words := make([]uint64, (min(bytes, info.Size())+7)/8)
	_, err = f.ReadAt(recovery.Bytes(words), 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return recovery.Bytes(words), err
}
