package mmapfilter

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// OpenBytes opens a filter that is in memory, for lookups. b has the bytes of a sealed or clean file:
// from an embed directive, a download, or a mapping that the caller has made. Lookups read b itself.
// Until the last lookup has ended, b must not change; only in a mapping may a writer in another
// process change the file. Lookups are as fast as in a file that [OpenReadOnly] has mapped. OpenBytes
// copies b only if it does not begin at a multiple of 8 bytes in memory, which can happen if b is a
// part of another slice.
//
// Methods that write return [ErrReadOnly]. Of the options, only Checked has an effect, and only if b is
// a mapping.
//
// The errors are [ErrCorrupt], [ErrVersion], and [ErrNeedsRecovery] if b is a copy of a file that was
// not closed, because a writer had it open or had died. OpenBytes does not know whether there is a log
// beside the file.
func OpenBytes(b []byte, opts *OpenOptions) (*Filter, error) { return openBytes("bytes", b, opts) }

// openBytes is OpenBytes with a name for the bytes, which errors use.
func openBytes(name string, b []byte, opts *OpenOptions) (*Filter, error) {
	o, _, err := openAtRest(name, b, int64(len(b)), opts)
	if err != nil {
		return nil, err
	}
	o.residency = ResidencyHeap
	words := b[layout.OffRuntime : layout.OffRegion+o.geometry.RegionBytes]
	if recovery.Address(words)%8 == 0 {
		o.data = b
	} else {
		aligned := recovery.Bytes(make([]uint64, len(words)/8))
		copy(aligned, words)
		words = aligned
	}
	o.view = layout.NewView(recovery.Words(words), o.geometry)
	return newFilter(o), nil
}

// OpenReaderAt opens a filter for lookups in a file that can only be read in parts, as in an object
// store: a sealed or clean file of size bytes (rule R7). It reads the first 32 KiB, with one read.
// After that, a lookup of an absent key makes at most 1.1 reads of 64 bytes on average (C4); nothing is
// kept. [Filter.ContainsBatch] reads its lines in the order of the file, and lines that are close to
// each other with one read: see [OpenOptions.ReadSize]. [Filter.Stats] reads 64 KiB of lines. Package
// httpfile has an io.ReaderAt for URLs.
//
// If a read fails or ends early, the answer is "maybe". In a batch, so are all answers that need further
// reads. [Filter.Err] returns the first such error; later lookups read again. If r no longer has the
// file that was opened, or if a writer has changed the file, Err returns [ErrSuperseded], and from then
// on every answer is "maybe". To notice this, the filter reads another 64 bytes at the end of each
// batch, once in 128 single lookups, and in Err. If a read fails with ErrSuperseded, the filter notices
// at once. So if Err returns nil, all answers before came from one file. If r has a method Weak() bool
// that returns true, the filter makes this check for each single "certainly not", which then takes two
// reads.
//
// Methods that write return [ErrReadOnly]. Close does not close r. Several goroutines may call r.ReadAt
// at the same time.
//
// The errors are those of [OpenBytes] and of r.
func OpenReaderAt(r io.ReaderAt, size int64, opts *OpenOptions) (*Filter, error) {
	return openReader(nameOf(r), r, size, opts)
}

// openReader is OpenReaderAt with a name for the reader, which errors use.
func openReader(name string, r io.ReaderAt, size int64, opts *OpenOptions) (*Filter, error) {
	head := make([]byte, min(max(size, 0), layout.OffRegion))
	if _, err := readFull(r, head, 0); err != nil {
		return nil, about("read", name, err)
	}
	o, slot, err := openAtRest(name, head, size, opts)
	if err != nil {
		return nil, err
	}
	words := recovery.Words(head[layout.OffRuntime:])
	o.view = layout.ViewOf(nil, words[layout.RuntimeWords:], words[:layout.RuntimeWords])
	o.lines = &lines{name: name, r: r, table: o.table, view: o.view, atOnce: defaultReadSize, every: checkEvery}
	if opts != nil && opts.ReadSize != 0 {
		o.lines.atOnce = opts.ReadSize
	}
	if r, ok := r.(interface{ Weak() bool }); ok && r.Weak() {
		o.lines.every = 1
	}
	spare := &o.lines.spare
	spare.off = int64(layout.SpareSlot(head, slot)) * layout.SuperblockBytes
	copy(spare.began[:], head[spare.off:])
	return newFilter(o), nil
}

// openAtRest opens a file of size bytes that no writer has open. head has the first bytes of the file,
// or all of them; slot is the number of the superblock copy that counts.
func openAtRest(name string, head []byte, size int64, opts *OpenOptions) (o *openFile, slot int, err error) {
	if err := opts.Validate(); err != nil {
		return nil, 0, err
	}
	h, err := osfile.HeadOf(head, size)
	if err == nil && h.Superblock.State() == layout.Live {
		err = ErrNeedsRecovery
	}
	if err != nil {
		return nil, 0, about("open", name, err)
	}
	o = newOpenFile(name, h, opts.withDefaults())
	o.path = name
	return o, h.Slot, nil
}

// nameOf returns the name of a reader, for errors.
func nameOf(r io.ReaderAt) string {
	if r, ok := r.(interface{ Name() string }); ok { // as an *os.File has
		return r.Name()
	}
	return "reader"
}

// openIn opens a file of fsys, or of the file system of the machine if fsys is nil. Closing the
// filter closes the file. A file that has no ReadAt is read into memory.
func openIn(fsys fs.FS, name string, opts *OpenOptions) (*Filter, error) {
	if fsys == nil {
		return OpenReadOnly(name, opts)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		file.Close()
		return nil, about("open", name, err)
	}
	if r, ok := file.(io.ReaderAt); ok {
		f, err := openReader(name, r, info.Size(), opts)
		if err != nil {
			file.Close()
			return nil, err
		}
		f.open.Load().file = file
		return f, nil
	}
	all, err := io.ReadAll(file)
	file.Close()
	if err != nil {
		return nil, about("read", name, err)
	}
	return openBytes(name, all, opts)
}

// VerifyReaderAt is [Verify] for a file in an io.ReaderAt. It reads the whole file into memory. It
// does not compare kept hashes.
func VerifyReaderAt(ctx context.Context, r io.ReaderAt, size int64, progress ...func(done, total int64)) (Report, error) {
	report, err := verifyReader(ctx, r, max(size, 0), func(done int64) {
		for _, report := range progress {
			if report != nil {
				report(done, size)
			}
		}
	})
	if err != nil {
		return report, about("verify", nameOf(r), err)
	}
	return report, nil
}

func verifyReader(ctx context.Context, r io.ReaderAt, size int64, progress func(done int64)) (Report, error) {
	report := Report{FileBytes: size}
	if err := osfile.Fits(size); err != nil {
		return report, err
	}
	var head *osfile.Head
	var data []byte // it grows with what has been read, since the size may be wrong
	for off := int64(0); head == nil || off < size; off = int64(len(data)) {
		if err := context.Cause(ctx); err != nil {
			return report, err
		}
		n := int(min(size-off, verifyAtOnce))
		data = slices.Grow(data, n)[:len(data)+n]
		if _, err := readFull(r, data[off:], off); err != nil {
			return report, err
		}
		var err error
		if head == nil {
			if head, err = osfile.HeadOf(data, size); err == nil && head.Superblock.State() == layout.Live {
				err = ErrNeedsRecovery
			}
		}
		if err != nil {
			return report, err
		}
		progress(int64(len(data)))
	}
	found, err := build.Verify(ctx, "", head, data, func(int64, int64) {})
	if err := stillSame(r, head); err != nil {
		return Report(found), err
	}
	if err == nil && len(found.Damage) > 0 {
		err = found.Damage[0]
	}
	return Report(found), err
}

// verifyAtOnce is how many bytes VerifyReaderAt reads with one read.
const verifyAtOnce = 4 << 20
