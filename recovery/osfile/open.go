package osfile

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Head is the part of a filter file that opening reads. Its size is constant, so opening
// costs the same for a file of any size.
type Head struct {
	Raw        [layout.OffRuntime]byte // the superblock slots
	Slot       int                     // slot of the newest superblock
	Superblock *layout.Superblock
	Geometry   layout.Geometry
	Size       int64 // of the file

	// Info describes the open file. It does not come from the path: on Windows, a FileInfo
	// from a path looks up the identity of its file later, and might find another file.
	Info fs.FileInfo
}

// OpenFile opens a filter file for reading and checks its superblocks and size. It opens
// only regular files, so it never blocks on a pipe.
func OpenFile(path string) (*os.File, *Head, error) {
	for tries := 0; ; tries++ {
		f, h, err := openFile(path)
		if f == nil || err == nil {
			return f, h, err
		}
		// A log that is ahead of the superblock may belong to a writer that has begun
		// meanwhile, or to another file that is at the path now.
		again, readErr := readHead(f)
		same := readErr == nil && again.Raw == h.Raw && sameFile(f, path)
		f.Close()
		if same || tries == headTries {
			return nil, nil, err
		}
	}
}

// headTries bounds how often OpenFile retries because the superblocks changed meanwhile.
// A checkpoint changes them, and takes longer than reading them does.
const headTries = 10

// openFile is one try of OpenFile. If the file is fine and only a log beside it contradicts
// the superblock, openFile returns the open file with the error.
func openFile(path string) (*os.File, *Head, error) {
	// Check before opening: opening a pipe would wait for a writer.
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

// checkLeftLog checks a clean or sealed superblock against a log that may be beside the
// file (L2). A generation starts at the beginning of a half, so the first page of each half
// is enough.
func checkLeftLog(path string, sb *layout.Superblock) error {
	if target, err := realPath(path); err == nil {
		path = target
	}
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		info, err := os.Stat(path + name.String())
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		log, err := os.Open(path + name.String())
		if err != nil {
			continue // a log that this process may not read
		}
		words := make([]uint64, wal.FirstWord+2*wal.PageWords)
		first, second := words[:wal.FirstWord+wal.PageWords], words[wal.FirstWord+wal.PageWords:]
		_, err = log.ReadAt(recovery.Bytes(first), 0)
		if err == nil {
			half, _ := wal.Half(uint64(info.Size())/8, 1)
			_, err = log.ReadAt(recovery.Bytes(second), int64(half)*8)
		}
		log.Close()
		if err == nil && wal.LaterGeneration(words, sb) {
			return recovery.Outdated(sb, name)
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
	return h.check(n)
}

// HeadOf returns the head of a file from its first bytes and its size.
func HeadOf(first []byte, size int64) (*Head, error) {
	h := &Head{Size: size}
	return h.check(copy(h.Raw[:], first))
}

// check checks a head of which n bytes have been read.
func (h *Head) check(n int) (_ *Head, err error) {
	if h.Slot, h.Superblock, h.Geometry, err = layout.Newest(h.Raw[:n]); err != nil {
		return nil, err
	}
	return h, h.Superblock.CheckFileSize(h.Geometry, h.Size)
}

// readError returns err. But if err says that the file ended early, the file has been cut
// short since it was opened, and readError returns a corruption error.
func readError(f *os.File, off int64, err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if info, statErr := f.Stat(); statErr == nil {
		off = info.Size()
	}
	return &layout.CorruptError{Region: layout.RegionFile, Offset: off, Rule: "F6", What: "the file was cut short while it was open"}
}
