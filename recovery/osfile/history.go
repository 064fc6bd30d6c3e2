package osfile

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// mostParts limits how many files of a history are opened. It is more than any use needs, and less
// than a process may have open.
const mostParts = 256

// OpenHistory opens files of the history of the filter at path and returns them, the oldest first. The
// first has the operations after position since, and the last is the file that the superblock names. If
// since is before the base of the first, the file that had this position is gone. An error is ErrHashes.
func OpenHistory(path string, sb *layout.Superblock, since uint64) (files []recovery.Kept, err error) {
	defer func() {
		if err != nil {
			CloseHistory(files)
		}
	}()
	kept, err := OpenHashesOf(path, sb)
	if err != nil {
		return nil, err
	}
	files = []recovery.Kept{kept}
	for files[0].Header.At.Number > since && len(files) < mostParts {
		past, err := openReplaced(path, &files[0].Header)
		if errors.Is(err, fs.ErrNotExist) {
			return files, nil
		}
		if err != nil {
			return files, recovery.NoHashes(err)
		}
		files = slices.Insert(files, 0, past)
	}
	return files, nil
}

// openReplaced opens the file that the file with this header has replaced. If it is gone, or is damaged
// at its beginning or its end, the error is fs.ErrNotExist.
func openReplaced(path string, next *hashes.Header) (k recovery.Kept, err error) {
	if next.Before == (layout.Hashes{}) {
		return k, fs.ErrNotExist
	}
	if path, err = realPath(path); err != nil {
		return k, err
	}
	f, err := openPast(path, next.Before.Identity)
	if err != nil {
		return k, err
	}
	if k, err = recovery.PastHashes(f, next); err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, layout.ErrCorrupt) {
			err = fs.ErrNotExist
		}
	}
	return k, err
}

// CloseHistory closes the files.
func CloseHistory(files []recovery.Kept) (err error) {
	for i := range files {
		err = errors.Join(err, files[i].File.Close())
	}
	return err
}
