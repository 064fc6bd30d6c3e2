package mmapfilter

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Follower answers from the newest complete file under a path. Any number of
// goroutines may use it.
//
// It has no lookups by hash: a hash is one under the seed of a file, and between
// making it and looking it up the file may have become one of another seed. The
// answer would be a wrong "certainly not".
type Follower struct {
	path string // absolute: the working directory may change
	opts OpenOptions

	// filter is the newest one. A lookup loads it once. It is not closed when
	// another one takes its place, since lookups that are under way would only answer
	// "maybe"; when the last of them has let go of it, its mapping goes.
	filter atomic.Pointer[Filter]
	closed atomic.Bool

	swaps   atomic.Uint64
	refused atomic.Pointer[error] // why the last look has changed nothing; nil where it was right so

	looking struct {
		sync.Mutex
		damaged bool // the last look found the file that is served written over
	}

	stop, ended chan struct{} // of the goroutine that looks
}

// waitingFilter stands for the filter of a follower that has no file yet.
func waitingFilter() *Filter {
	f := &Filter{waiting: true}
	f.direct.Store(maybe)
	return f
}

// Follow opens a filter for reading as [OpenReadOnly] does, and goes on with
// whatever complete file is under the path later: one that [Build] has put there,
// one that was renamed, or what a symbolic link leads to by now. Newest is what has
// the name; neither its generation nor its time counts.
//
// The path is looked at every OpenOptions.FollowInterval, and by
// [Follower.Refresh]. A new file is opened, checked as OpenReadOnly checks it, and
// made resident as the options say, before it is asked; until then the old one
// answers, so both take memory for a while. Then the memory of the old one is
// given back, and, at a garbage collection after its last lookup, its place on
// the disk.
//
// A file that is refused, for whatever reason, is what [Follower.Err] tells of; the
// old one goes on answering, and every look tries again. A writer that changes the
// file in place is seen as by any other reader, save with ResidencyHeap: then the
// file is copied again when the writer has closed it, and Err is [ErrBusy] until
// then. Where that writer dies, what it had committed goes on answering, and Err is
// [ErrNeedsRecovery] until someone recovers the file. Opening a file recovers it as in
// OpenReadOnly, unless OpenOptions.NoRecover is set; looking at one that is open does not.
//
// Files have to be replaced, by renaming. (Windows lets no file be replaced that is
// mapped: there, follow with ResidencyHeap.) Where one is written over that is
// mapped, answers are wrong meanwhile, and a lookup may fault, see
// [OpenOptions.Checked]; a look finds out and opens it again when it is complete.
//
// The errors are those of OpenReadOnly. [Follower.Close] ends the goroutine that
// looks. OpenOptions.Progress, which that goroutine calls, must call neither
// Close nor Refresh.
func Follow(path string, opts *OpenOptions) (*Follower, error) {
	return follow(path, opts, time.After)
}

// follow is Follow with a clock.
func follow(path string, opts *OpenOptions, after func(time.Duration) <-chan time.Time) (*Follower, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, about("open", path, err)
	}
	f := &Follower{path: absolute, opts: *opts.withDefaults(), stop: make(chan struct{}), ended: make(chan struct{})}
	filter, err := OpenReadOnly(path, opts)
	if f.opts.WaitForFile && errors.Is(err, fs.ErrNotExist) {
		refused := err
		f.refused.Store(&refused)
		filter, err = waitingFilter(), nil
	}
	if err != nil {
		return nil, err
	}
	f.filter.Store(filter)
	interval := f.opts.FollowInterval
	if interval == 0 {
		interval = DefaultFollowInterval
	}
	if interval < 0 {
		close(f.ended)
	} else {
		go f.lookEvery(interval, after)
	}
	return f, nil
}

// lookEvery looks until the follower is closed. A look that fails is followed by
// a longer wait, so that a large file that is copied or locked in vain again and
// again takes a share of the time, 1 in failedShare, and not all of it.
func (f *Follower) lookEvery(interval time.Duration, after func(time.Duration) <-chan time.Time) {
	defer close(f.ended)
	wait := interval
	for {
		select {
		case <-f.stop:
			return
		case <-after(wait):
		}
		begun := time.Now()
		_, err := f.Refresh()
		wait = interval
		if err != nil {
			wait = max(interval, (failedShare-1)*time.Since(begun))
		}
	}
}

const failedShare = 4

// Refresh looks at the path now. It reports whether another file has been taken
// over; when it returns, lookups that begin are answered by it. The error says why
// the file under the path was refused, or is [ErrNeedsRecovery] where the writer of the
// file that answers has died; it is that of [Follower.Err] too, until a
// later look. After Close it is [ErrClosed].
func (f *Follower) Refresh() (swapped bool, err error) {
	f.looking.Lock()
	defer f.looking.Unlock()
	old := f.filter.Load()
	o := old.open.Load()
	if f.closed.Load() || o == nil && !old.waiting {
		return false, ErrClosed
	}
	next, err := f.look(o)
	if err != nil {
		refused := err
		f.refused.Store(&refused)
		return false, err
	}
	f.looking.damaged = false
	if next != nil {
		f.filter.Store(next)
		if o != nil {
			o.release()
		}
		if f.closed.Load() { // meanwhile, and Close may have closed the old one
			return false, errors.Join(ErrClosed, next.Close())
		}
		f.swaps.Add(1)
	}
	f.refused.Store(nil)
	return next != nil, nil
}

// look opens what is under the path, unless that is what o is of; o is nil while the
// follower waits for a file. It is an error if the writer of the file has died.
func (f *Follower) look(o *openFile) (*Filter, error) {
	if o == nil {
		return OpenReadOnly(f.path, &f.opts)
	}
	replaced, err := f.replaced(o)
	if err != nil {
		return nil, about("open", f.path, err)
	}
	if !replaced {
		if _, died := o.writer(); died {
			return nil, about("open", f.path, ErrNeedsRecovery)
		}
		if !o.unrecovered {
			return nil, nil
		}
	}
	next, err := OpenReadOnly(f.path, &f.opts)
	if err == nil && !replaced && next.open.Load().unrecovered { // another process is about to recover it
		next.Close()
		return nil, about("open", f.path, ErrNeedsRecovery)
	}
	return next, err
}

// replaced reports whether what is under the path has to be opened, not being
// what o is of.
//
// An inode number is taken again when its file is gone. A mapping keeps its file,
// and so the number, though the descriptor is closed; a copy in the heap keeps
// nothing, and is held against the superblocks and the time of the file as well.
func (f *Follower) replaced(o *openFile) (bool, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return false, err
	case !os.SameFile(o.info, info):
		return true, nil
	case o.mapping == nil:
		file, head, err := recovery.OpenFile(f.path)
		if err != nil {
			return false, err
		}
		file.Close()
		return *head.Superblock != *o.superblock || !head.Info.ModTime().Equal(o.info.ModTime()), nil
	}
	other, err := o.overwritten(info.Size())
	if err != nil {
		f.looking.damaged = true
	}
	return err == nil && (other || f.looking.damaged), err
}

// overwritten reports whether the mapped file, which has size bytes by now, has
// become one that o would read the wrong way. A writer changes neither the
// geometry nor the seed.
func (o *openFile) overwritten(size int64) (other bool, err error) {
	fault := recovery.Guard(o.mapping.Data, func() {
		_, sb, geometry, newestErr := layout.Newest(slices.Clone(o.mapping.Data[:layout.OffRuntime]))
		if err = newestErr; err == nil {
			other = geometry != o.geometry || sb.Seed() != o.superblock.Seed()
		}
	})
	runtime.KeepAlive(o) // until then it is mapped
	switch {
	case fault != nil:
		return false, corruption(o.geometry, fault)
	case err == nil && !other && size < int64(len(o.mapping.Data)):
		return false, &CorruptError{Region: layout.RegionFile, Offset: size, Rule: "F6: the file was cut short while it was open"}
	}
	return other, err
}

// Contains is [Filter.Contains] of the newest file.
func (f *Follower) Contains(key []byte) bool { return f.filter.Load().Contains(key) }

// ContainsString is Contains for a key in a string.
func (f *Follower) ContainsString(key string) bool { return f.filter.Load().ContainsString(key) }

// ContainsBatch is [Filter.ContainsBatch] of the newest file: one file answers
// the whole batch.
func (f *Follower) ContainsBatch(keys [][]byte, found []bool) {
	f.filter.Load().ContainsBatch(keys, found)
}

// Len is [Filter.Len] of the newest file.
func (f *Follower) Len() uint64 { return f.filter.Load().Len() }

// Cap is [Filter.Cap] of the newest file.
func (f *Follower) Cap() uint64 { return f.filter.Load().Cap() }

// Normalisation is [Filter.Normalisation] of the newest file.
func (f *Follower) Normalisation() string { return f.filter.Load().Normalisation() }

// Stats is [Filter.Stats] of the newest file.
func (f *Follower) Stats() Stats { return f.filter.Load().Stats() }

// Var gives the [Var] of the newest file.
func (f *Follower) Var() Var { return Var{f.Stats} }

// Filter gives the filter of the newest file, for several questions that are to be
// about one file: how its keys are made, and whether it has some. It goes on answering
// when another file takes its place, and belongs to the follower: do not close it.
func (f *Follower) Filter() *Filter { return f.filter.Load() }

// Swaps gives how many times another file has been taken over.
func (f *Follower) Swaps() uint64 { return f.swaps.Load() }

// Err gives the first fault that a lookup in the file that answers met, see
// [Filter.Err]; where there was none, why the last look has refused the file
// under the path, or [ErrNeedsRecovery] if it found that the writer of the file has
// died; or nil. So it is nil again when a file has been taken over, or
// the one that answers is back. While the follower waits for a file, see
// [OpenOptions.WaitForFile], it is why there is none. After Close it is [ErrClosed].
func (f *Follower) Err() error {
	if f.closed.Load() {
		return ErrClosed
	}
	if filter := f.filter.Load(); !filter.waiting {
		if err := filter.Err(); err != nil {
			return err
		}
	}
	if refused := f.refused.Load(); refused != nil {
		return *refused
	}
	return nil
}

// Close ends the use of the follower as [Filter.Close] does: lookups that are
// under way finish, later ones answer true, which is "maybe". It waits for the goroutine that
// looks, also where that is opening a file. Closing a second time does nothing.
// The error is a fault that lookups have met, see [OpenOptions.Checked].
func (f *Follower) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	err := f.filter.Load().Close()
	close(f.stop)
	<-f.ended
	return err
}
