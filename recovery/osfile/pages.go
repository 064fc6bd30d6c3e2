package osfile

import (
	"errors"
	"io"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// ReadPages fills words with consecutive pages, from page number first on. It reads a file of the
// operating system in one call.
func ReadPages(f recovery.HashFile, first uint64, words []uint64) error {
	if f, ok := f.(hashFile); ok {
		n, err := f.ReadAt(recovery.Bytes(words), int64(first)*hashes.PageBytes)
		if errors.Is(err, io.EOF) {
			return hashes.Corrupt(first+uint64(n)/hashes.PageBytes, "the file ends before this page")
		}
		return err
	}
	for ; len(words) > 0; words = words[hashes.PageWords:] {
		if err := f.ReadPage(first, (*hashes.Page)(words)); err != nil {
			return err
		}
		first++
	}
	return nil
}

// WritePages is like ReadPages, but writes the pages.
func WritePages(f recovery.HashFile, first uint64, words []uint64) error {
	if f, ok := f.(hashFile); ok {
		if err := fault.At("write"); err != nil {
			return err
		}
		_, err := f.WriteAt(recovery.Bytes(words), int64(first)*hashes.PageBytes)
		return err
	}
	for ; len(words) > 0; words = words[hashes.PageWords:] {
		if err := f.WritePage(first, (*hashes.Page)(words)); err != nil {
			return err
		}
		first++
	}
	return nil
}

// BeginSync makes the system begin to write the file, and returns at once. The caller can do other work
// before it calls Sync, which waits for the end.
func BeginSync(f recovery.HashFile) {
	if f, ok := f.(hashFile); ok {
		beginSync(f.File)
	}
}
