package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/builder"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Merge makes a sealed filter at path with the items of other filters, from the hashes that these
// have kept (K6): all items or, with [Options.Distinct], one of each group of equal ones. The inputs
// must have the same seed, which the new filter gets. They stay as they are; one of them may be at
// path and is then replaced, as [Build] does it. The items keep their ages.
//
// A Capacity of 0 means the number of items; a FalsePositiveRate of 0, without FingerprintBits, the
// smallest of the inputs' rates; and an empty Normalisation that of the first input. The same
// options and inputs give the same bytes, also in NAME.hashes.
//
// The errors are those of Build; [ErrOtherSeed]; [ErrNoHashes]; and [ErrBusy] if an input has a
// writer. An input whose writer has died is recovered first.
func Merge(ctx context.Context, path string, opts *Options, inputs ...string) error {
	if err := opts.Validate(); err != nil {
		return about("merge", path, err)
	}
	if n := len(inputs); n == 0 || n > builder.MostInputs {
		return about("merge", path, optionError("inputs", "%d files are not between 1 and %d", n, builder.MostInputs))
	}
	var given Options
	if opts != nil {
		given = *opts
	}
	if err := merge(ctx, path, given, inputs); err != nil {
		return about("merge", path, err)
	}
	return nil
}

func merge(ctx context.Context, path string, o Options, inputs []string) error {
	var kept []builder.Kept
	var read []*layout.Superblock
	defer func() {
		for _, k := range kept {
			k.File.Close()
		}
	}()
	identity := xxh3.New()
	lowest := 0.0
	for i, input := range inputs {
		k, sb, err := openHashes(input)
		if err != nil {
			return about("read", input, err)
		}
		kept, read = append(kept, k), append(read, sb)
		if i == 0 && o.Seed == 0 {
			o.Seed = sb.Seed()
		}
		if sb.Seed() != o.Seed {
			return about("read", input, ErrOtherSeed)
		}
		if i == 0 {
			o.shard = sb.Shard()
		}
		if sb.Shard() != o.shard {
			return about("read", input, ErrOtherShard)
		}
		if i == 0 && o.Normalisation == "" {
			o.Normalisation = sb.Normalisation()
		}
		if r := sb.TargetRate(); i == 0 || r < lowest {
			lowest = r
		}
		binary.Write(identity, binary.LittleEndian, k.Counted)
	}
	if o.FalsePositiveRate == 0 && o.FingerprintBits == 0 {
		o.FalsePositiveRate = lowest
	}
	seed := o.Seed
	o = o.withDefaults()
	o.Seed = seed // also if it is 0
	c := o.building()
	binary.Write(identity, binary.LittleEndian, struct {
		Capacity uint64
		Distinct bool
	}{o.Capacity, o.Distinct})
	c.Identity = identity.Sum64()
	c.Check = func() error {
		for i, input := range inputs {
			if err := unchanged(path, input, read[i]); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := builder.BuildKept(ctx, path, c, kept)
	return err
}

// unchanged returns ErrBusy if an input is the file at path, which is to be replaced, and has changed
// since its superblock was read. No writer can open it now.
func unchanged(path, input string, sb *layout.Superblock) error {
	a, err := os.Stat(path)
	b, err2 := os.Stat(input)
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		return nil
	}
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return err
	}
	f.Close()
	if *head.Superblock != *sb {
		return ErrBusy
	}
	return nil
}

// openHashes opens the hashes of the filter at path, for reading. If the writer of the filter has
// died, openHashes recovers it first.
func openHashes(path string) (builder.Kept, *layout.Superblock, error) {
	for tries := 0; ; tries++ {
		f, head, err := recovery.OpenFile(path)
		if err != nil {
			return builder.Kept{}, nil, err
		}
		f.Close()
		sb := head.Superblock
		if sb.State() == layout.Live {
			_, err := recoverFile(path, replayLog)
			if errors.Is(err, ErrLocked) || err == nil && tries == openTries {
				err = ErrBusy
			}
			if err != nil {
				return builder.Kept{}, nil, err
			}
			continue
		}
		file, err := recovery.OpenHashesOf(path, sb)
		if err != nil {
			return builder.Kept{}, nil, err
		}
		return builder.Kept{File: file, Counted: sb.Hashes()}, sb, nil
	}
}

// Repair mends the filter at path from the hashes that it has kept (K6), if [Verify] finds it
// damaged: it rebuilds the file, with the same capacity, rate, layout and sequence. It reports
// whether that was needed. A filter whose writer has died is recovered first, if that is possible.
// If its log is lost, the new file has the items of the last checkpoint.
//
// The errors are [ErrNoHashes], [ErrLocked], and those of Build. If no superblock is intact,
// nobody knows what the hashes belong to: the error is [ErrCorrupt].
func Repair(ctx context.Context, path string, opts *RebuildOptions) (repaired bool, err error) {
	if opts == nil {
		opts = new(RebuildOptions)
	}
	repaired, err = repair(ctx, path, opts)
	if err != nil {
		return false, about("repair", path, err)
	}
	return repaired, nil
}

func repair(ctx context.Context, path string, opts *RebuildOptions) (bool, error) {
	_, err := recoverFile(path, replayLog)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return false, err
	}
	if err == nil {
		if _, err = Verify(ctx, path); err == nil || !errors.Is(err, ErrCorrupt) {
			return false, err
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	head := make([]byte, layout.OffRuntime)
	n, err := io.ReadFull(f, head)
	f.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	_, sb, _, err := layout.Newest(head[:n])
	if err != nil {
		return false, err
	}
	file, err := recovery.OpenHashesOf(path, sb)
	if err != nil {
		return false, err
	}
	defer file.Close()
	o, err := rebuilding(sb, sb.Length(), opts)
	if err != nil {
		return false, err
	}
	c := o.building()
	c.First = *sb
	c.Check = func() error {
		if err := unchanged(path, path, sb); err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		return nil
	}
	_, err = builder.BuildKept(ctx, path, c, []builder.Kept{{File: file, Counted: sb.Hashes()}})
	return err == nil, err
}
