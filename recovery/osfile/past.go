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

// The files of hashes that a filter had before its NAME.hashes (see recovery, K8): the last one is
// NAME.past, and an older one is that with its identity, of 16 digits:
//
//	NAME.past.0123456789abcdef
const pastSuffix = ".past"

func olderPast(path string, identity uint64) string {
	return fmt.Sprintf("%s%s.%016x", path, pastSuffix, identity)
}

// identityAt returns the identity of the file of hashes at a path, if that is one.
func identityAt(path string) (identity uint64, ok bool) {
	head, err := readStart(path, hashes.PageBytes)
	if err != nil {
		return 0, false
	}
	return hashes.IdentityOf(recovery.Words(head))
}

// replaceHashes renames NAME.hashes.new to NAME.hashes. If keep is set, the file that had this name gets
// the name NAME.past first. A process may die between any two steps; the next one goes on.
func replaceHashes(path string, keep bool) error {
	next, current := path+recovery.NextHashes.String(), path+recovery.CurrentHashes.String()
	identity, ok := identityAt(current)
	if keep && ok && there(next) {
		to := path + pastSuffix
		if older, ok := identityAt(to); ok {
			err := rename(to, olderPast(path, older))
			if err != nil && !errors.Is(err, syscall.ENAMETOOLONG) { // then it is not kept
				return err
			}
		} else if there(to) { // somebody's file
			to = olderPast(path, identity)
		}
		now := time.Now()
		os.Chtimes(current, now, now) // it is kept from now on, also if nobody has written to it for long
		if err := rename(current, to); err != nil {
			return err
		}
	}
	return rename(next, current)
}

// ForgetPast removes the files that NAME.hashes of the filter at path has replaced, if that was longer
// ago than a time. The caller has the lock of the filter. Files that it cannot remove do no harm.
func ForgetPast(path string, kept time.Duration) {
	newest := path + pastSuffix
	if !there(newest) { // then there is no older one
		return
	}
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		digits, ok := strings.CutPrefix(name, newest+".")
		if ok && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == "" {
			forget(name, kept)
		}
	}
	forget(newest, kept)
}

// forget removes a file of hashes unless it is young: replaceHashes has noted when it was replaced. If
// that was not allowed, its time is that of the last operation, which was written to it later than it
// was committed: so no position that was the last one within the time is lost.
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

// openPast opens the file that NAME.hashes of the filter at path has replaced, or an older one, by its
// identity. A writer may be giving it its next name: it has the first of these names first.
func openPast(path string, identity uint64) (recovery.HashFile, error) {
	for _, name := range []string{path + recovery.CurrentHashes.String(), path + pastSuffix, olderPast(path, identity)} {
		if is, ok := identityAt(name); !ok || is != identity {
			continue
		}
		f, err := openHashes(name, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has got its next name
		}
		if err != nil {
			return nil, err
		}
		p := new(hashes.Page)
		if f.ReadPage(0, p) == nil {
			if is, ok := hashes.IdentityOf(p[:]); ok && is == identity { // it is still the one
				return f, nil
			}
		}
		f.Close()
	}
	return nil, fs.ErrNotExist
}
