package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Create makes an empty filter at path and opens it as [Open] does. [Options.Capacity] is
// required. If a file exists at path, the error is fs.ErrExist, whatever [Options.Overwrite] says.
// If the log or the hashes of another filter are beside path, left there when that filter was moved
// away, the error is a [*ForeignError].
//
// Where no file can be opened for writing, as on Windows (see [Open]), the error is
// errors.ErrUnsupported.
//
// If Create fails it leaves nothing behind. The exception is an error that says the new filter is
// complete. Then the filter is at path, but it could not be opened or may not survive a power loss.
func Create(path string, opts *Options) (*Filter, error) {
	o, err := opts.creating()
	if err == nil {
		err = createFile(path, o)
	}
	if err != nil {
		return nil, about("create", path, err)
	}
	f, err := Open(path, &OpenOptions{CommitInterval: o.CommitInterval, LogBytes: o.LogBytes})
	if err != nil {
		return nil, &CompleteError{Path: path, But: "cannot be opened", Err: err}
	}
	return f, nil
}

// OpenOrCreate opens the filter at path with oo, as [Open] does. If there is no file, OpenOrCreate first
// creates the filter with o, as [Create] does. If several processes do this at once, one of them creates
// the filter. A filter that exists already may differ from o; [Filter.Stats] describes it.
func OpenOrCreate(path string, o *Options, oo *OpenOptions) (*Filter, error) {
	options, err := o.creating()
	if err != nil {
		return nil, about("create", path, err)
	}
	for {
		f, err := Open(path, oo)
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoHashes) {
			return f, err
		}
		if err := createFile(path, options); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, about("create", path, err)
		}
	}
}

// creating checks the options of a new, empty filter, and returns them with defaults.
func (o *Options) creating() (Options, error) {
	if err := o.validate(); err != nil {
		return Options{}, err
	}
	d := o.withDefaults()
	if d.Capacity == 0 {
		return d, optionError("Capacity", "required, since an empty filter has no keys to count")
	}
	if o == nil || o.Seed == 0 {
		d.Seed = rand.Uint64()
	}
	return d, nil
}

func createFile(path string, o Options) error {
	plan, err := o.plan(o.Capacity)
	if err != nil {
		return err
	}
	return createPlanned(path, plan, o)
}

func createPlanned(path string, plan Plan, o Options) error {
	if err := osfile.CanWrite(); err != nil {
		return err // nobody could insert into the file
	}
	draft, err := osfile.NewDraft(path, osfile.DraftOptions{Mode: o.Mode, New: true})
	if err != nil {
		return err
	}
	if !o.Overwrite {
		err = draft.Guard()
	}
	if err == nil {
		err = draft.Allocate(context.Background(), plan.geometry.SealedBytes)
	}
	if err != nil {
		return errors.Join(err, draft.Discard())
	}
	sb := newSuperblock(plan, o)
	if o.KeepHashes {
		empty, err := draft.EmptyHashes(rand.Uint64())
		if err != nil {
			return errors.Join(err, draft.Discard())
		}
		sb.SetHashes(empty)
		sb.SetDescent(empty.Identity)
	}
	sb.SetState(layout.Clean)
	sb.SetUUID(randomUUID())
	sb.Sign()
	if fault := osfile.Catch(draft.Data, func() { build.PutCopies(draft.Data, &sb) }); fault != nil {
		return errors.Join(fault, draft.Discard())
	}
	return draft.Publish()
}

func randomUUID() (uuid [16]byte) {
	var h [2]uint64
	for i := range h {
		h[i] = rand.Uint64()
		for j := range 8 {
			uuid[8*i+j] = byte(h[i] >> (8 * j))
		}
	}
	return uuid
}

// Open opens a filter for reading and writing. Only one process at a time can have a filter open for
// writing; any number of others can read the file meanwhile. Open takes constant time, whatever the
// size of the file, and creates nothing: the first operation creates the log, NAME.stash, and
// [Filter.Close] removes it.
//
// If the writer of the file has died, Open recovers the file first; [Stats.Recovery] says what
// was found. If the filter is a replica that has only part of a set of changes ([Filter.Apply]),
// Open does the rest of the changes. On Linux, the first commit to a sealed file drops the file from the
// page cache. The more of it is in memory, the longer this takes. If most of the file was in memory, it
// is read again in the background, unless Close made the commit (rule R4).
//
// The file is mapped twice, for lookups and for stores. The resident set size (RSS) of the
// process may count its pages twice; the proportional set size (PSS) counts them once.
//
// The errors are those of [OpenReadOnly] except ErrNeedsRecovery and ErrBusy; [ErrLocked] if the
// file is locked; an [*OptionError] for [ResidencyHeap]; and errors.ErrUnsupported on Windows
// and OpenBSD, where no file can be opened for writing.
func Open(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	if opts.Residency == ResidencyHeap {
		return nil, optionError("Residency", "heap is for reading only; use OpenReadOnly")
	}
	o, err := openLive(path, opts)
	if err != nil {
		return nil, about("open", path, err)
	}
	f := newFilter(o)
	f.resume()
	return f, nil
}

func openLive(path string, opts *OpenOptions) (o *openFile, err error) {
	files, err := osfile.OpenFiles(path)
	if err != nil {
		return nil, err
	}
	files.RequireHashes = opts.RequireHashes
	done := false
	defer func() {
		if !done { // also in a panic
			err = errors.Join(err, files.Close())
		}
	}()
	var w *writer.Writer
	var found *Recovery
	fault := files.Catch(func() { w, found, err = writer.Open(files, writer.LogSize{First: opts.LogBytes, Most: opts.LogBytes}) }, func(error) {})
	if fault != nil {
		err = fault
	}
	if err == nil {
		osfile.ForgetPast(files.Path(), time.Duration(w.Superblock().KeepChanges()))
		err = osfile.EndRebuild(files.Path()) // the file of a rebuild that was cut off
	}
	if err == nil {
		err = files.Serve()
	}
	if err != nil {
		return nil, err
	}
	if err := w.Protocol().HashesErr(); (opts.RequireHashes || opts.ExpireAfter > 0) && err != nil {
		return nil, err
	}
	if err := changeExpiry(w, files, opts.ExpireAfter); err != nil {
		return nil, err
	}
	sb, g := w.Superblock(), w.Protocol().Geometry()
	w.Limit = build.Limit(sb, g)
	o = newOpenFile(files.File().Name(), &osfile.Head{Superblock: sb, Geometry: g, Size: g.SealedBytes}, opts)
	o.warning = osfile.Warning(files.File())
	o.found, o.logBytes = *found, opts.LogBytes
	o.work = writer.NewWork(files, w, commitInterval(opts.CommitInterval, expireAfterOf(sb)))
	if err := o.adopt(files.Mapping(), nil, opts); err != nil {
		return nil, err
	}
	o.grows = rebuild.GrowthOf(sb)
	w.Compact(o.grows.Compacts())
	if report := opts.OnError; report != nil {
		o.work.OnError = func(err error) { go report(err) } // the background does not wait for it
	}
	o.work.KeepMapping() // adopted
	w.Work = o.work
	done = true
	return o, nil
}
