package recovery

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

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
		return &layout.CorruptError{Region: layout.RegionHashes, Offset: int64(number) * hashes.PageBytes, Rule: "K1: the file ends before this page"}
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
	return openHashes(v.hashesPath(name), os.O_RDWR)
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

// OpenHashesOf opens, for reading, the file of hashes that belongs to a filter at rest, which is
// not open for writing. It returns the superblock of the filter too. The error is ErrHashes.
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
func (v *Files) RemoveHashes(name HashesName) error { return remove(v.hashesPath(name)) }

// Now returns the time of the system.
func (v *Files) Now() uint64 { return uint64(time.Now().UnixNano()) }
