package mmapfilter

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Recovery says what was found and done when a file was opened for writing.
type Recovery = recovery.Recovery

// Recover recovers a file whose writer has died, as [Open] does, and leaves it clean: it locks the file,
// replays the log, and removes the log. The Recovery says whether there was anything to recover and what
// was found. The errors are those of Open. Recover leaves a damaged file or log as it is.
func Recover(path string) (Recovery, error) {
	return recoverWith(path, replayLog)
}

// DiscardLog makes a file usable if its writer has died and its log is lost, damaged or from
// another file. It leaves a clean file with the items that the filter file itself holds. If
// the log is good, DiscardLog does what [Recover] does and discards nothing.
//
// Use it only if the keys are not available to build the filter again, since nobody knows what
// is lost. From then on a lookup may answer "certainly not" for any key, even one that was
// durable: most likely for keys inserted since the last checkpoint and, after a power loss, for
// keys moved since then. For deleted keys it may answer "maybe". [Filter.DurableSeq] goes back to
// the last checkpoint, and DurableOps may count operations that are lost. DiscardLog removes the
// log, even if it belongs to another file. In Compact, it rebuilds the overflow bits that lead
// to items away from home.
//
// The error is [ErrCorrupt] if the superblocks are damaged, or if a line breaks a rule of the
// format, which a power loss can also cause. The file is then left as it is; build it again from
// its keys.
func DiscardLog(path string) (Recovery, error) {
	return recoverWith(path, recovery.DiscardLog)
}

func recoverWith(path string, recover func(recovery.Volume) (*Recovery, error)) (Recovery, error) {
	found, err := recoverFile(path, false, recover)
	if err != nil {
		return Recovery{}, about("recover", path, err)
	}
	return *found, nil
}

func replayLog(vol recovery.Volume) (*Recovery, error) {
	_, found, err := recovery.NewWriter(vol)
	return found, err
}

// recoverFile recovers a file with recover. If hashes is set, it fails instead of letting the filter
// lose its hashes (K2).
func recoverFile(path string, hashes bool, recover func(recovery.Volume) (*Recovery, error)) (found *Recovery, err error) {
	files, err := osfile.OpenFiles(path)
	if err != nil {
		return nil, err
	}
	files.RequireHashes = hashes
	fault := files.Catch(func() { found, err = recover(files) }, func(error) {})
	if fault != nil {
		err = fault
	}
	return found, errors.Join(err, files.Close())
}
