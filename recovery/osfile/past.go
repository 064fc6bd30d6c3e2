package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// The names of the files of hashes that a filter had before its NAME.hashes (see recovery, K8):
// the newest of them is NAME.past, and the name of an older one ends with the 16 digits of its
// identity:
//
//	NAME.past.0123456789abcdef
const pastSuffix = ".past"

func olderPast(path string, identity uint64) string {
	return fmt.Sprintf("%s%s.%016x", path, pastSuffix, identity)
}

// identityAt returns the identity of the file of hashes at a path. It reports false for
// any other file.
func identityAt(path string) (identity uint64, ok bool) {
	head, err := readStart(path, hashes.PageBytes)
	if err != nil {
		return 0, false
	}
	return hashes.IdentityOf(recovery.Words(head))
}

// replaceHashes renames NAME.hashes.new to NAME.hashes. If keep is set, the file that had this name gets
// the name NAME.past first. A process may die between any two steps; the next process goes on.
func replaceHashes(path string, keep bool) error {
	next, current := path+recovery.NextHashes.String(), path+recovery.CurrentHashes.String()
	identity, ok := identityAt(current)
	if keep && ok && there(next) {
		to := path + pastSuffix
		if older, ok := identityAt(to); ok {
			err := rename(to, olderPast(path, older))
			if err != nil && !errors.Is(err, syscall.ENAMETOOLONG) { // with too long a name, the older file is lost
				return err
			}
		} else if there(to) { // the file at NAME.past is not a file of hashes: it stays
			to = olderPast(path, identity)
		}
		now := time.Now()
		os.Chtimes(current, now, now) // ForgetPast counts from now on, not from the last write
		if err := rename(current, to); err != nil {
			return err
		}
	}
	return rename(next, current)
}

// ForgetPast removes the former files of hashes of the filter at path that were replaced longer ago
// than kept. The caller has the lock of the filter. Files that ForgetPast cannot remove do no harm.
func ForgetPast(path string, kept time.Duration) {
	for _, name := range pastOf(path) {
		forget(name, kept)
	}
}

// movePast renames the former files of hashes of a filter that was renamed: the path from at the
// beginning of their names becomes the path to. Files that movePast cannot rename do no harm.
func movePast(from, to string) {
	for _, name := range pastOf(from) {
		if _, ok := identityAt(name); ok {
			rename(name, to+strings.TrimPrefix(name, from))
		}
	}
}

// PastBytes returns the size of the former files of hashes of the filter at path.
func PastBytes(path string) (size int64) {
	for _, name := range pastOf(path) {
		info, err := os.Lstat(name)
		if _, ok := identityAt(name); err == nil && ok {
			size += info.Size()
		}
	}
	return size
}

// pastOf returns the paths of the former files of hashes of the filter at path, the oldest ones
// first.
func pastOf(path string) (names []string) {
	newest := path + pastSuffix
	if !there(newest) { // without this file, there is no older one
		return nil
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		digits, ok := strings.CutPrefix(name, newest+".")
		if ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == "" {
			names = append(names, name)
		}
	}
	return append(names, newest)
}

// forget removes a file of hashes that was replaced longer ago than kept. Its modification time, which
// replaceHashes has set, says when it was replaced. If replaceHashes could not set this time, it is
// the time at which the last operation was written to the file. This is not earlier than the commit of
// the operation, so a position stays usable for at least the time kept after it was the newest.
func forget(name string, kept time.Duration) {
	info, err := os.Lstat(name)
	if err != nil || kept > 0 && time.Since(info.ModTime()) < kept {
		return
	}
	if _, ok := identityAt(name); ok && info.Mode().IsRegular() {
		os.Remove(name)
	}
}

// foreignPast is foreign for NAME.past.
func foreignPast(path string, alone func() bool) error {
	if _, ok := identityAt(path + pastSuffix); ok && alone() {
		return occupied(path+pastSuffix, "the former hashes of a filter that is not there: it may have another name now")
	}
	return nil
}

// openPast opens a former file of hashes of the filter at path, by its identity. A writer may rename
// the file meanwhile, so openPast tries its possible names in the order in which the file gets them.
func openPast(path string, identity uint64) (recovery.HashFile, error) {
	for _, name := range []string{path + recovery.CurrentHashes.String(), path + pastSuffix, olderPast(path, identity)} {
		if is, ok := identityAt(name); !ok || is != identity {
			continue
		}
		f, err := openHashes(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has been renamed: try the next name
		}
		if err != nil {
			return nil, err
		}
		p := new(hashes.Page)
		if f.ReadPages(0, p[:]) == nil {
			if is, ok := hashes.IdentityOf(p[:]); ok && is == identity { // the name has not gone to another file meanwhile
				return f, nil
			}
		}
		f.Close()
	}
	return nil, fs.ErrNotExist
}
