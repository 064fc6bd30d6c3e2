package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Report says what [Verify] checked and found. Items and StashLen are valid only if Damage is
// empty.
type Report struct {
	FileBytes int64           `json:"file_bytes"`
	Sealed    bool            `json:"sealed"`    // every byte of the file is under a checksum or must be zero
	Chunks    int64           `json:"chunks"`    // chunks of 64 KiB that were checked against their checksums
	Items     uint64          `json:"keys"`      // items counted in the lines and in the stash
	StashLen  int             `json:"stash_len"` // stash entries in use
	Hashes    uint64          `json:"hashes"`    // keys that the kept hashes mean (K7), counting equal keys; Verify compared the items with these keys
	NotFound  uint64          `json:"not_found"` // keys among Hashes whose item a delete of an absent key took (C6); until a rebuild, lookups answer "certainly not"
	Strays    uint64          `json:"strays"`    // deletes of absent keys since the last rebuild that took an item of another key
	LeftOut   uint64          `json:"left_out"`  // InsertUniques in the history since the last rebuild that left their key out, since an item answered for it
	Waiting   uint64          `json:"waiting"`   // deletes that wait for the next rebuild
	HashesErr error           `json:"-"`         // why Verify compared no hashes although the filter should keep them; matches ErrNoHashes
	Damage    []*CorruptError `json:"-"`         // ordered by offset; at most 1,000 of them
}

// Verify reads a whole filter file and checks every rule of its format. In a sealed file it
// finds any changed byte. (If another copy is intact, it accepts a superblock copy that is all
// zero, or that a killed writer left without a checksum.) A file that was written to and closed
// without a seal has no checksums for its lines; Verify checks their structure and counts the
// items. If the filter keeps its hashes, Verify also looks each hash up, and compares the items
// with the hashes. This finds a changed bit in the lines of any file at rest. For many hashes
// Verify makes a temporary file, in the directory of os.TempDir.
//
// If the file is damaged, the error is the first entry of Report.Damage and matches
// [ErrCorrupt]. Other errors are those of [OpenReadOnly], [ErrBusy] if a writer has the file open or
// wrote to it meanwhile, or if the file was replaced, and the cause of a cancelled context. The Report
// says what was found before the error. Verify writes nothing, so for a file whose writer has died the
// error is [ErrNeedsRecovery].
//
// Verify calls progress, if there is one, with the bytes read so far and the total, from one goroutine
// at a time.
func Verify(ctx context.Context, path string, progress ...func(done, total int64)) (Report, error) {
	r, err := verifyFile(ctx, path, func(done, total int64) {
		for _, report := range progress {
			if report != nil {
				report(done, total)
			}
		}
	})
	if err != nil {
		return r, about("verify", path, err)
	}
	return r, nil
}

func verifyFile(ctx context.Context, path string, progress func(done, total int64)) (Report, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	return verifyOpen(ctx, f, head, path, path, progress)
}

// verifyOpen verifies the file at path, which is open. Unless hashes is "", verifyOpen also verifies
// the kept hashes of the filter at the path in hashes.
func verifyOpen(ctx context.Context, f *os.File, head *osfile.Head, path, hashes string, progress func(done, total int64)) (Report, error) {
	state := head.Superblock.State()
	r := Report{FileBytes: head.Size, Sealed: state == layout.Sealed}
	if state == layout.Live {
		return r, liveError(f, path, head)
	}
	data, release, err := osfile.Bytes(f, head.Size)
	if err != nil {
		return r, err
	}
	defer release()
	found, err := build.Verify(ctx, hashes, head, data, progress)
	r = Report(found)
	if busy := stillSame(f, head); busy != nil {
		return r, busy
	}
	if len(r.Damage) > 0 {
		if busy := stillNamed(path, head); busy != nil {
			return r, busy // the damage may be the epoch of a file that has been replaced (K4)
		}
	}
	if err == nil && len(r.Damage) > 0 {
		err = r.Damage[0]
	}
	return r, err
}

// liveError returns why a file whose state is live cannot be verified. If the writer has closed the file
// since its head was read, or has put another file in its place, the writer has not died.
func liveError(f *os.File, path string, head *osfile.Head) error {
	beforeAsking()
	if held, err := osfile.Locked(f); err != nil || held {
		return errors.Join(ErrBusy, err)
	}
	if err := stillSame(f, head); err != nil {
		return err
	}
	if err := stillNamed(path, head); err != nil {
		return err
	}
	return ErrNeedsRecovery
}

// stillNamed returns ErrBusy if the file whose head was read is not at path any more.
func stillNamed(path string, head *osfile.Head) error {
	if info, err := os.Stat(path); err != nil || !os.SameFile(info, head.Info) {
		return errors.Join(ErrBusy, err)
	}
	return nil
}

// stillSame returns ErrBusy if a writer changed the file since its head was read.
func stillSame(f io.ReaderAt, head *osfile.Head) error {
	var again [layout.OffRuntime]byte
	if _, err := f.ReadAt(again[:], 0); err == io.EOF {
		return nil // cut short: damage that has already been found
	} else if err != nil {
		return err
	}
	if !bytes.Equal(again[:], head.Raw[:]) {
		return ErrBusy
	}
	return nil
}
