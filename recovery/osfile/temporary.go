package osfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// The name of a temporary file of path is the name of path, cut short if it is long, plus
//
//	.tmp-0123456789abcdef
//
// with 16 random digits. The process that created it holds a lock on it (lockDraft) as long as
// the process lives, so that other processes can tell whether a dead process has left the file.
const (
	temporaryMark   = ".tmp-"
	temporaryDigits = 16
	temporaryBase   = 200 // bytes kept of the name of path: a name has at most 255
)

// temporaryPrefix is the start of the names of all temporary files of path.
func temporaryPrefix(path string) string {
	dir, base := filepath.Split(path)
	if len(base) > temporaryBase {
		base = strings.ToValidUTF8(base[:temporaryBase], "")
	}
	return filepath.Join(dir, base) + temporaryMark
}

// RebuildPath returns the path of the file that a rebuild creates to replace the file at
// path. It exists from the beginning of the rebuild on, so EndRebuild can tell whether a
// dead process has left files.
func RebuildPath(path string) string { return path + temporaryMark + "rebuild" }

// BeginRebuild creates the empty file at RebuildPath. The caller has the lock of path.
func BeginRebuild(path string) error {
	if err := EndRebuild(path); err != nil {
		return err
	}
	f, err := os.OpenFile(RebuildPath(path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// EndRebuild removes what is left of a rebuild that did not end. The caller has the lock of path.
func EndRebuild(path string) error {
	rebuild := RebuildPath(path)
	if info, err := os.Lstat(rebuild); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.OpenFile(rebuild, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if lock(f) != nil { // somebody has it open: it is not left from a rebuild
		return nil
	}
	head := make([]byte, layout.OffRuntime)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 && !layout.IsFilter(head[:n]) {
		return nil // not from a rebuild either, which leaves an empty file or a whole filter
	}
	RemoveStale(rebuild)
	var errs []error
	for _, suffix := range []string{recovery.NextLog.String(), recovery.CurrentLog.String(), recovery.NextHashes.String(), recovery.CurrentHashes.String(), ""} {
		if err := os.Remove(rebuild + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// createBeside creates a temporary file of path and locks it. If locking fails, as on a file
// system without locks, no other process can lock the file and remove it by mistake either.
func createBeside(path string, mode fs.FileMode) (*os.File, error) {
	for {
		var nonce [temporaryDigits / 2]byte
		rand.Read(nonce[:])
		name := temporaryPrefix(path) + hex.EncodeToString(nonce[:])
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, err
		}
		afterCreate(name)
		err = lockDraft(f)
		if removed := err == nil && !sameFile(f, name); err != recovery.ErrLocked && !removed {
			return f, nil
		}
		f.Close() // RemoveStale of another process came first: the file is gone, or will be
	}
}

// afterCreate lets a test remove the file.
var afterCreate = func(name string) {}

// RemoveStale removes the temporary files of path whose process has died. All code that creates a
// file at path calls it. Files that it cannot remove do no harm.
func RemoveStale(path string) {
	prefix := temporaryPrefix(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		name := filepath.Join(filepath.Dir(path), e.Name())
		digits, ok := strings.CutPrefix(name, prefix)
		if !ok || len(digits) != temporaryDigits || strings.Trim(digits, "0123456789abcdef") != "" || !e.Type().IsRegular() {
			continue
		}
		if f, err := os.OpenFile(name, os.O_RDWR, 0); err == nil {
			stale := lockDraft(f) == nil && sameFile(f, name)
			if runtime.GOOS == "windows" { // which removes no open file
				f.Close()
			}
			if stale {
				os.Remove(name)
			}
			f.Close()
		}
	}
}
