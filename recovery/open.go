package recovery

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Head is what opening a filter file reads, before any lookup. Its size is constant:
// opening costs the same for a file of any size.
type Head struct {
	Raw        [layout.OffRuntime]byte // the superblock slots
	Slot       int                     // the one of the newest superblock
	Superblock *layout.Superblock
	Geometry   layout.Geometry
	Size       int64 // of the file

	// Info describes the open file. On Windows, a FileInfo made from a path might be
	// asked for the identity of its file later, and then describe another file.
	Info fs.FileInfo
}

// OpenFile opens a filter file for reading and checks its superblocks and its size. It
// opens regular files only, so it never blocks on a pipe.
func OpenFile(path string) (*os.File, *Head, error) {
	for tries := 0; ; tries++ {
		f, h, err := openFile(path)
		if f == nil || err == nil {
			return f, h, err
		}
		// A log that is ahead of the superblock may be that of a writer who has
		// begun meanwhile, or of another file that is under the path now.
		again, readErr := readHead(f)
		same := readErr == nil && again.Raw == h.Raw && sameFile(f, path)
		f.Close()
		if same || tries == headTries {
			return nil, nil, err
		}
	}
}

// headTries bounds how often the superblocks of a file are read again because they changed
// meanwhile. A checkpoint changes them, and takes longer than reading them does.
const headTries = 10

// openFile is OpenFile, once. If only a log beside the file contradicts it, the file is
// returned with the error.
func openFile(path string) (*os.File, *Head, error) {
	// Looked at before it is opened: opening a pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular("open", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	h, err := readHead(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	afterHead()
	if h.Superblock.State() != layout.Live {
		err = checkLeftLog(path, h.Superblock)
	}
	return f, h, err
}

// afterHead lets a test start a writer.
var afterHead = func() {}

// checkLeftLog checks a superblock that says clean or sealed against a log that may lie
// beside the file (L2). Every generation starts at the same place, so one page of
// records suffices.
func checkLeftLog(path string, sb *layout.Superblock) error {
	if target, err := realPath(path); err == nil {
		path = target
	}
	for _, name := range []LogName{CurrentLog, NextLog} {
		if info, err := os.Stat(path + name.String()); err != nil || !info.Mode().IsRegular() {
			continue
		}
		log, err := os.Open(path + name.String())
		if err != nil {
			continue // one that this process may not read
		}
		words := make([]uint64, wal.FirstWord+wal.PageWords)
		_, err = log.ReadAt(Bytes(words), 0)
		log.Close()
		if err == nil && wal.LaterGeneration(words, sb) {
			return outdated(sb, name)
		}
	}
	return nil
}

func readHead(f *os.File) (*Head, error) {
	h := new(Head)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h.Size, h.Info = info.Size(), info
	n, err := f.ReadAt(h.Raw[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if h.Slot, h.Superblock, h.Geometry, err = layout.Newest(h.Raw[:n]); err != nil {
		return nil, err
	}
	return h, h.Superblock.CheckFileSize(h.Geometry, h.Size)
}

// readError returns the error for a read that met the end of a file, which was longer
// when it was opened, or err.
func readError(f *os.File, off int64, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if info, statErr := f.Stat(); statErr == nil {
		off = info.Size()
	}
	return &layout.CorruptError{Region: layout.RegionFile, Offset: off, Rule: "F6: the file was cut short while it was open"}
}
