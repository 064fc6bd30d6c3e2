package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Merge makes a sealed filter at path from the hashes that other filters, the inputs, have kept (K6).
// The new filter has the items that the history of each input means (K7): all items or, with
// [Options.Distinct], one of each group of equal items. The items keep their ages. The inputs must have
// the same seed, which the new filter gets, and the same note on how their keys were made
// ([Options.Normalisation]). Otherwise, a key that is made as the note of the new filter says might not
// be found although an input had it. [Options.AnyNormalisation] allows different notes. The inputs stay
// as they are, except that one of them may be at path: the new filter replaces this input, as with
// [Build], keeps hashes, and grows by itself if the input did.
//
// A Capacity of 0 means the number of items. A FalsePositiveRate of 0, without FingerprintBits, means
// the smallest of the inputs' rates. An empty Normalisation means the note of the first input. The same
// options and inputs give the same bytes, also in NAME.hashes.
//
// The errors are those of Build; [ErrOtherSeed]; [ErrOtherNormalisation]; [ErrOtherShard];
// [ErrNoHashes]; [ErrApplying] if an input is a replica that has only part of a set of changes; and
// [ErrBusy] if an input has a writer. An error about an input is an [*fs.PathError] with the path of the
// input. Merge first recovers an input whose writer has died.
func Merge(ctx context.Context, path string, opts *Options, inputs ...string) error {
	if err := opts.validate(); err != nil {
		return about("merge", path, err)
	}
	if n := len(inputs); n == 0 || n > build.MostInputs {
		return about("merge", path, optionError("inputs", "the number of files, %d, is not between 1 and %d", n, build.MostInputs))
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
	in, err := openInputs(path, &o, inputs)
	defer in.close()
	if err != nil {
		return err
	}
	if in.replaced != nil {
		o.keepAs(in.replaced)
	}
	if o.FalsePositiveRate == 0 && o.FingerprintBits == 0 {
		o.FalsePositiveRate = in.lowest
	}
	seed := o.Seed
	o = o.withDefaults()
	o.Seed = seed // also if it is 0
	c := o.building()
	binary.Write(in.identity, binary.LittleEndian, struct {
		Capacity uint64
		Distinct bool
	}{o.Capacity, o.Distinct})
	c.Identity, c.LastTime = in.identity.Sum64(), in.last
	if in.replaced != nil {
		c.First = *in.replaced
	}
	if in.replaced != nil && len(inputs) == 1 && !o.Distinct {
		continued := *in.replaced
		continued.ForgetSource()
		c.Continues = &continued
	}
	c.Check = func() error {
		for i, input := range inputs {
			if err := unchanged(path, input, in.read[i]); err != nil {
				return err
			}
		}
		return nil
	}
	_, err = build.FromKept(ctx, path, c, in.kept)
	if e := new(build.InputError); errors.As(err, &e) {
		return ofInput(inputs[e.Number], err)
	}
	return err
}

// mergeInputs are the filters that a merge reads.
type mergeInputs struct {
	kept     []recovery.Kept
	read     []*layout.Superblock
	replaced *layout.Superblock // of the input that the new file replaces, or nil
	identity *xxh3.Hasher
	lowest   float64 // lowest rate that was asked for
	last     uint64  // time of the last commit
}

func (in *mergeInputs) close() {
	for _, k := range in.kept {
		k.File.Close()
	}
}

// openInputs opens the inputs of a merge, and checks that they fit together. It takes the shard from the
// first input, and also the seed and the normalisation unless o has them. The caller closes the open
// inputs, also after an error.
func openInputs(path string, o *Options, inputs []string) (in mergeInputs, err error) {
	in.identity = xxh3.New()
	for i, input := range inputs {
		k, sb, err := openHashes(input)
		if err != nil {
			return in, ofInput(input, err)
		}
		in.kept, in.read = append(in.kept, k), append(in.read, sb)
		if i == 0 && o.Seed == 0 {
			o.Seed = sb.Seed()
		}
		if sb.Seed() != o.Seed {
			return in, ofInput(input, ErrOtherSeed)
		}
		if i == 0 {
			o.shard = sb.Shard()
		}
		if sb.Shard() != o.shard {
			return in, ofInput(input, ErrOtherShard)
		}
		if note, first := sb.Normalisation(), in.read[0].Normalisation(); note != first && !o.AnyNormalisation {
			return in, ofInput(input, fmt.Errorf("%w: its note is %q, but the note of %s is %q", ErrOtherNormalisation, note, inputs[0], first))
		}
		if i == 0 && o.Normalisation == "" {
			o.Normalisation = sb.Normalisation()
		}
		if r := sb.TargetRate(); i == 0 || r < in.lowest {
			in.lowest = r
		}
		in.last = max(in.last, sb.LastTime())
		if sameFile(path, input) {
			in.replaced = sb
		}
		binary.Write(in.identity, binary.LittleEndian, k.Counted)
	}
	return in, nil
}

// ofInput adds the path of an input to an error.
func ofInput(path string, err error) error {
	if e := new(fs.PathError); errors.As(err, &e) && e.Path == path {
		return err
	}
	return &fs.PathError{Op: "read", Path: path, Err: err}
}

// unchanged returns ErrBusy if the input is the file at path, which the merge replaces, and has changed
// since its superblock was read. No writer can open the file now.
func unchanged(path, input string, sb *layout.Superblock) error {
	if !sameFile(path, input) {
		return nil
	}
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return err
	}
	f.Close()
	if *head.Superblock != *sb {
		return ErrBusy
	}
	return nil
}

// sameFile reports whether both paths lead to one existing file.
func sameFile(path, input string) bool {
	a, err := os.Stat(path)
	b, err2 := os.Stat(input)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// openHashes opens the hashes of the filter at path, for reading. If the writer of the filter has
// died, openHashes recovers it first.
func openHashes(path string) (recovery.Kept, *layout.Superblock, error) {
	for tries := 0; ; tries++ {
		f, head, err := osfile.OpenFile(path)
		if err != nil {
			return recovery.Kept{}, nil, err
		}
		f.Close()
		sb := head.Superblock
		if sb.State() == layout.Live {
			_, err := recoverFile(path, true, replayLog)
			if errors.Is(err, ErrLocked) || err == nil && tries == openTries {
				err = ErrBusy
			}
			if err != nil {
				return recovery.Kept{}, nil, err
			}
			continue
		}
		if sb.Kept().Applying() { // the merged file could not finish the changes
			return recovery.Kept{}, nil, ErrApplying
		}
		kept, err := osfile.OpenHashesOf(path, sb)
		return kept, sb, err
	}
}

// Repair mends the filter at path if [Verify] finds it damaged, or if it cannot be recovered. From the
// hashes that the filter has kept (K6), Repair builds a new file with the same capacity, rate, layout
// and sequence, and replaces the old file as [Build] does. It reports whether a repair was needed. If
// the writer of the filter has died, Repair first recovers the filter, if possible. If that is not
// possible, the new file also has the operations of the log, as far as the log continues NAME.hashes.
//
// If operations are lost, the filter is repaired and the error is a [*LostError]. If there is an
// intact log that does not continue NAME.hashes, Repair changes nothing, and the error is
// [ErrCorrupt]. The other errors are [ErrNoHashes], [ErrLocked], [ErrApplying] for a replica that has
// only part of a set of changes and needs a new snapshot, and those of Build. If no superblock is
// intact, nobody knows which filter the hashes belong to, and the error is ErrCorrupt.
func Repair(ctx context.Context, path string, opts *RebuildOptions) (repaired bool, err error) {
	if opts == nil {
		opts = new(RebuildOptions)
	}
	if repaired, err = repair(ctx, path, opts); err != nil {
		err = about("repair", path, err)
	}
	return repaired, err
}

// A LostError says how many operations may be lost in a filter that [Repair] has mended.
type LostError struct {
	Operations uint64 // upper bound on the lost operations that are known to have been durable
	Log        bool   // the log is lost or damaged, and any number of operations with it
}

func (e *LostError) Error() string {
	if e.Log {
		return fmt.Sprintf("the filter is repaired, but its log is lost or damaged: it may lack any number of operations, and up to %d of these are known to have been durable", e.Operations)
	}
	return fmt.Sprintf("the filter is repaired, but lacks up to %d operations that were durable", e.Operations)
}

func repair(ctx context.Context, path string, opts *RebuildOptions) (bool, error) {
	var lost LostError
	var refused error
	_, err := recoverFile(path, true, func(vol recovery.Volume) (*Recovery, error) {
		lost, refused = lostBefore(path)
		if refused != nil {
			return nil, refused
		}
		r, err := replayLog(vol)
		if err == nil && r.Recovered { // there was a log
			lost = LostError{}
		}
		return r, err
	})
	if refused != nil || err != nil && !errors.Is(err, ErrCorrupt) {
		return false, err
	}
	if err == nil {
		if _, err = Verify(ctx, path); err == nil || !errors.Is(err, ErrCorrupt) {
			return false, err
		}
	}
	left, err := osfile.Salvage(path)
	if err != nil {
		return false, err
	}
	defer left.Kept.File.Close()
	sb := left.Superblock
	if sb.Kept().Applying() { // the repaired file would not follow any more, and could not finish the changes
		return false, ErrApplying
	}
	o, err := rebuilding(sb, 0, opts)
	if err != nil {
		return false, err
	}
	c := o.building()
	if opts.Capacity == 0 {
		sizeByItems(&c, func(items uint64) uint64 { return max(sb.Capacity(), items) })
	}
	lost = LostError{max(lost.Operations, left.Lost), lost.Log || left.LogLost}
	continued := *sb
	continued.ForgetSource()
	if lost != (LostError{}) { // replicas may have the lost operations
		continued.SetDescent(rand.Uint64())
	}
	c.First, c.Continues, c.LastTime = *sb, &continued, sb.LastTime()
	c.Check = func() error {
		if again, err := osfile.Salvage(path); err != nil {
			return err
		} else if again.Kept.File.Close(); *again.Superblock != *sb {
			return ErrBusy
		}
		return nil
	}
	if _, err = build.FromKept(ctx, path, c, []recovery.Kept{left.Kept}); err != nil {
		return false, err
	}
	if lost != (LostError{}) {
		return true, &lost
	}
	return true, nil
}

// lostBefore returns which operations are lost, as far as the files show that. Call lostBefore before
// the filter is opened: a file whose newest superblock is damaged may look like a file at rest, and
// opening it mends the superblock. It returns an error if there is a log that nobody should remove.
func lostBefore(path string) (lost LostError, refused error) {
	left, err := osfile.Salvage(path)
	if err == nil {
		return LostError{left.Lost, left.LogLost}, left.Kept.File.Close()
	}
	if e := new(layout.CorruptError); errors.As(err, &e) && e.Region == layout.RegionLog {
		return lost, err
	}
	return lost, nil // it may be a filter without hashes
}
