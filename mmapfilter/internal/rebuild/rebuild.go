package rebuild

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Job says which file to replace, and with which new file.
type Job struct {
	Old    *writer.Work
	Config build.Config // of the new file, which gets the owner, group and permissions of the old one
	// Keys, if not nil, returns the keys for the new file. It is called while no operation is under
	// way. Hashes, if not nil, is called right after Keys, and returns the hashes of further items. If
	// Keys is nil, the new file is built from the kept hashes of the old file.
	Keys   func() (iter.Seq2[[]byte, error], error)
	Hashes func() []uint64
	// Patient says that a clock behind the last commit may be wrong only for a moment, so no item
	// gets an earlier time.
	Patient bool
	// Open opens the new file for writing.
	Open func(path string) (*writer.Work, error)
	// Use makes the filter use the file of a writer: the new file, or the old file again if the new one
	// cannot get the name. Operations wait meanwhile.
	Use func(*writer.Writer)
}

// A rebuild is a Job in progress.
type rebuild struct {
	Job
	to       string // path of the new file
	replayer replayer
	swapped  bool // the new file is in use
}

// Run does a job, and closes the file that is not in use afterwards. If swapped is true, the new file is
// in use; an error then says that the new file has failed, or that the old one could not be closed. If
// swapped is false, the old file is in use as before.
func Run(ctx context.Context, job Job) (swapped bool, err error) {
	path := job.Old.Files.Path()
	r := &rebuild{Job: job, to: osfile.RebuildPath(path)}
	r.replayer.ctx, r.replayer.tap = ctx, writer.NewTap(build.Beside(r.to).Scratch)
	defer r.replayer.tap.Close()
	if err := r.Old.Files.Named(); err != nil {
		return false, err
	}
	if err := osfile.BeginRebuild(path); err != nil {
		return false, err
	}
	ended := false
	defer func() {
		if !ended && !r.swapped { // a function of the caller has panicked
			r.giveUp()
		}
	}()
	err = r.build(ctx)
	if err == nil {
		r.replayer.next, err = r.Open(r.to)
	}
	if err == nil {
		r.replayer.next.Writer.CountFrom(r.replayer.tap)
		err = r.replace()
	}
	ended = true
	if r.swapped {
		return true, errors.Join(err, r.Old.Retire())
	}
	if next := r.replayer.next; next != nil && next.Writer.Err() != nil && r.Old.Writer.Err() == nil {
		err = fmt.Errorf("write %s: %w", r.to, next.Writer.Protocol().Cause()) // the filter has not failed, only the new file
	}
	return false, errors.Join(err, r.giveUp())
}

// giveUp removes the new file.
func (r *rebuild) giveUp() (err error) {
	r.Old.Writer.Untap()
	if next := r.replayer.next; next != nil {
		err = next.Retire()
	}
	if r.Old.Files.Named() != nil {
		return err // the files at the path belong to another filter
	}
	return errors.Join(err, osfile.EndRebuild(r.Old.Files.Path()))
}

// build builds the new file with the items that the old file has at one instant.
func (r *rebuild) build(ctx context.Context) error {
	r.Config.Like = r.Old.Files.Path()
	if r.Keys == nil {
		return r.buildKept(ctx)
	}
	var keys iter.Seq2[[]byte, error]
	err := r.Old.Catch(func() error {
		return r.Old.Writer.Quiet(r.replayer.tap, func() (err error) {
			r.Config.LastTime = max(r.Config.LastTime, r.Old.Writer.Protocol().LastTime())
			if keys, err = r.Keys(); err == nil && r.Hashes != nil {
				r.replayer.tap.Begin(r.Hashes())
			}
			return err
		})
	})
	if err == nil {
		_, err = build.FromKeys(ctx, r.to, r.Config, keys)
	}
	return err
}

// buildKept builds the new file from the hashes that the old file keeps.
func (r *rebuild) buildKept(ctx context.Context) error {
	if err := r.Old.Writer.Protocol().HashesErr(); err != nil {
		return err
	}
	r.Old.Writer.Rebuilding()
	var kept recovery.Kept
	err := r.Old.Catch(func() (err error) {
		kept, err = r.Old.Writer.StartTap(r.replayer.tap)
		return err
	})
	if err == nil {
		r.Config.Continues = r.Old.Writer.Superblock()
		r.Config.LastTime, r.Config.Now = r.Config.Continues.LastTime(), osfile.Now()
		if r.Patient {
			r.Config.Now = max(r.Config.Now, r.Config.LastTime)
		}
		_, err = build.FromKept(ctx, r.to, r.Config, []recovery.Kept{kept})
	}
	return err
}

// fewWait is how many operations may wait in the tap when Replace begins.
const fewWait = 1024

// replace repeats the last operations of the old file in the new file, and makes the
// filter use the new file.
func (r *rebuild) replace() error {
	r.replayer.progress = r.Config.Progress
	if err := r.replayer.catchUp(fewWait); err != nil {
		return err
	}
	r.replayer.progress = nil // from here on, the caller's function could wait for a lock that Run holds
	next := r.replayer.next
	return r.Old.Catch(func() error {
		return next.Catch(func() error {
			return r.Old.Writer.Replace(next.Writer, r.Keys == nil, r.replayer.catchUp, r.use)
		})
	})
}

func (r *rebuild) use(w *writer.Writer) {
	r.swapped = w != r.Old.Writer
	r.Use(w)
}
