package mmapfilter

import (
	"context"
	"iter"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Build makes a sealed filter from a sequence of keys and opens it as [OpenReadOnly] does. It ranges
// over keys once and retains none, so the sequence may reuse a key's memory once the next key is
// requested. If a filter exists at path, Build replaces it once the new one is complete and durable;
// readers of the old file get [ErrSuperseded]. The new file gets the owner, group and permissions of the
// old one; [Stats.Warning] names any of these that this process may not set. Build also replaces an
// empty file. It replaces any other regular file only with [Options.Overwrite], and never anything that
// is not a regular file, such as a device.
//
// If the old file keeps its hashes, or grows by itself, so does the new one. The new file takes over
// [Filter.DurableSeq] and [Filter.DurableOps] from the old one, so the keys must reflect all operations
// that these two count.
//
// The file depends only on the options and the keys, not on the order of the keys or the number
// of workers. (With [Options.KeepHashes] it also names its NAME.hashes, which is different each
// time.)
//
// If Build fails, it leaves nothing behind, and a file at path is unchanged. The exception is an error
// that says the new filter is complete. Then the filter is at path, but it could not be opened, may not
// survive a power loss, or is unknown to readers of the old file.
//
// Build returns the error that the sequence yielded; the cause of a cancelled context; an
// [*OptionError]; a [*ForeignError]; [ErrFewKeys]; [ErrLocked] if a writer has the file at path open;
// [ErrFull] if there are more keys than the given Capacity has room for, or if too many keys have more
// copies than their buckets hold (see [Options.Distinct]); or an error of the file system, such as a
// full disk.
//
// Build holds about [Options.MemoryBudget] bytes of hashes in memory, half of them in buffers, and up to
// a quarter more for items that find no room when their lines are filled. The rest goes to temporary
// files beside path: 8 bytes per key and, for a while, 8 bytes for each of these items. In Compact, few
// items find no room; in Packed and SemiSorted, whose lines are small, about a fifth of all.
//
// In addition, each worker sorts one partition of the hashes at a time, using 16 bytes per key. A
// partition holds 1 in 1,024 of the keys, or 1 in 4,096 if Capacity is above 100 million and
// MemoryBudget has 4 MiB for each worker. All copies of a key are in one partition. With Distinct, a
// worker drops extra copies as it reads the partition, using 64 MiB; without Distinct, each copy
// takes about 40 bytes. If there are many times more keys than Capacity, the hashes of each 512 KiB of
// lines are sorted together.
//
// All stages except the placement of the items that found no room go through the file from start to end.
// So in Compact the file may be larger than memory.
func Build(ctx context.Context, path string, opts *Options, keys iter.Seq2[[]byte, error]) (*Filter, error) {
	if err := opts.validate(); err != nil {
		return nil, about("build", path, err)
	}
	options, first := opts.withDefaults(), layout.Superblock{}
	replaced := superblockAt(path)
	if replaced != nil {
		options.keepAs(replaced)
		if replaced.UserSeq()|replaced.Operation() != 0 {
			first = *replaced
		}
	}
	c := options.building()
	c.First = first
	if replaced != nil {
		c.LastTime = max(c.LastTime, replaced.LastTime())
	}
	lost, err := build.FromKeys(ctx, path, c, keys)
	if err != nil {
		return nil, about("build", path, err)
	}
	f, err := OpenReadOnly(path, nil)
	if err != nil {
		return nil, &CompleteError{Path: path, But: "cannot be opened", Err: err}
	}
	o := f.open.Load()
	o.warning = joinWarnings(o.warning, lost)
	return f, nil
}

// superblockAt returns the newest superblock of the filter at path, or nil if no filter is there. If the
// writer of the filter has died, superblockAt recovers the filter first.
func superblockAt(path string) *layout.Superblock {
	for range 2 {
		f, head, err := osfile.OpenFile(path)
		if err != nil {
			return nil
		}
		f.Close()
		if head.Superblock.State() != layout.Live {
			return head.Superblock
		}
		if _, err := recoverFile(path, false, replayLog); err != nil {
			return head.Superblock // the build will report the error, or replace the file
		}
	}
	return nil
}
