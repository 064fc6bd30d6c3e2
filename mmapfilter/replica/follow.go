package replica

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A Replica is a filter that is kept up to date from a URL. It is safe for concurrent use by multiple
// goroutines. Other processes read its file like any other, with mmapfilter.OpenReadOnly or with
// mmapfilter.Follow, which notices when a new snapshot takes its place.
type Replica struct {
	url   *url.URL
	shown string // the URL without secrets
	path  string // absolute
	opts  Options

	filter atomic.Pointer[mmapfilter.Filter] // answers lookups

	// Only for the goroutine.
	writes  bool // the filter is open for writing
	damaged int  // exchanges in a row that found damage in what the server sent or in the file

	life   context.Context
	end    context.CancelCauseFunc
	ended  chan struct{} // closed when the goroutine has ended
	closed atomic.Bool

	mu struct {
		sync.Mutex
		stats   Stats     // except what current and err say
		current time.Time // when the replica last had all operations of the primary
		err     error     // why the last exchange failed
	}
}

// Stats say how far a replica has come.
type Stats struct {
	Position      mmapfilter.Position // up to which the replica has the operations of the primary
	Primary       mmapfilter.Position // of the primary, as of its last answer; zero before the first answer
	LagOperations uint64              // operations that the primary had and the replica lacked, as of the last answer
	LagSeconds    float64             // since the replica last had all operations of the primary, or since Follow was called
	Sets          uint64              // sets of changes that were applied
	Snapshots     uint64              // snapshots that were taken
	ChangeBytes   uint64              // bytes of changes that were received
	SnapshotBytes uint64
	Failures      uint64 // exchanges that failed; Err has the last failure
}

// Follow makes the file at path a replica of the filter that a [Handler] publishes at a URL, and keeps
// it up to date until the replica is closed. If there is no file, Follow first takes a snapshot. It
// tries again after failures that may pass, until ctx ends; ctx is only for this snapshot. If there is
// a file, Follow returns at once, and the replica answers as of the position of the file. The replica
// takes a new snapshot by itself in these cases: the changes since its position are gone, are much
// larger than a snapshot, or do not fit; or another filter is at the URL, or the filter there was
// restored from a backup. Meanwhile the old file answers.
//
// Whatever is killed, and whatever the network repeats, cuts off or damages, each change is applied
// exactly once. Once the insert of a key has been applied, the key is never answered "certainly not"
// until its delete is applied. A download continues where it was cut off.
//
// The errors are those of mmapfilter.Open, such as ErrLocked if another process keeps a replica at
// path; a [*mmapfilter.ForeignError] if the file at path is a filter but not a replica, which Follow
// does not replace; and if there is no file, a [*StatusError] that will not pass by itself, or the
// cause of ctx, with the last failure. After Follow has returned, the replica tries again after every
// failure; [Replica.Err], [Replica.Stats] and Options.OnError report the failures.
func Follow(ctx context.Context, rawURL, path string, opts *Options) (*Replica, error) {
	u, shown, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	r := &Replica{url: u, shown: shown, path: absolute, opts: opts.withDefaults(), ended: make(chan struct{})}
	r.mu.current = time.Now()
	f, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = r.begin(ctx); err == nil {
			f, err = r.open()
		}
	}
	if err != nil {
		return nil, err
	}
	r.filter.Store(f)
	r.writes = true
	r.mu.stats.Position = f.Position()
	r.life, r.end = context.WithCancelCause(context.Background())
	go r.run()
	return r, nil
}

// begin takes the first snapshot.
func (r *Replica) begin(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := r.take(ctx, mmapfilter.Position{})
		if err == nil {
			return nil
		}
		err = r.failed(err)
		if isFinal(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(r.opts.pause(failures)):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// isFinal reports whether further tries will fail until somebody removes the cause.
func isFinal(err error) bool {
	for _, final := range []error{errNoHandler, errTooLarge, mmapfilter.ErrVersion, mmapfilter.ErrNoHashes, mmapfilter.ErrLocked} {
		if errors.Is(err, final) {
			return true
		}
	}
	var foreign *mmapfilter.ForeignError
	var local *fs.PathError
	status := new(StatusError)
	return errors.As(err, &foreign) || errors.As(err, &local) || errors.As(err, &status) && status.isFinal()
}

// take downloads a snapshot, verifies it and puts it in the place of the file. No writer may have the
// file open.
func (r *Replica) take(ctx context.Context, after mmapfilter.Position) error {
	if err := r.download(ctx, after); err != nil {
		return err
	}
	return r.install(ctx)
}

// install verifies NAME.part, and puts it in the place of the file. It removes a part that is refused,
// since the next download would add to this part.
func (r *Replica) install(ctx context.Context) error {
	err := r.check()
	if err == nil {
		var f *mmapfilter.Filter
		if f, err = mmapfilter.Install(ctx, r.part(), r.path, nil); err == nil {
			r.note(func(s *Stats) { s.Snapshots++ })
			return f.Close()
		}
	}
	if errors.Is(err, mmapfilter.ErrCorrupt) || errors.Is(err, mmapfilter.ErrNoHashes) {
		err = errors.Join(err, r.discard())
	}
	return err
}

// run exchanges with the server until r.life ends.
func (r *Replica) run() {
	defer close(r.ended)
	for failures := 0; ; {
		begun := time.Now()
		err := r.exchange()
		if r.life.Err() != nil {
			return
		}
		r.failed(err)
		pause := r.opts.Interval - time.Since(begun)
		if err == nil {
			failures = 0
		} else {
			failures++
			pause = r.opts.pause(failures)
		}
		select {
		case <-time.After(pause):
		case <-r.life.Done():
		}
	}
}

// failed notes why an exchange failed, or that it succeeded.
func (r *Replica) failed(err error) error {
	if err != nil {
		err = &mmapfilter.OpError{Op: "follow", Path: r.shown, Err: err}
	}
	r.mu.Lock()
	r.mu.err = err
	if err != nil {
		r.mu.stats.Failures++
	}
	r.mu.Unlock()
	if err != nil && r.opts.OnError != nil {
		r.opts.OnError(err)
	}
	return err
}

func (r *Replica) note(change func(*Stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.mu.stats)
}

// exchange asks for the changes since the position of the replica, and applies them; or it takes a new
// snapshot.
func (r *Replica) exchange() error {
	if !r.writes {
		if err := r.reopen(); err != nil {
			return err
		}
	}
	f := r.filter.Load()
	at := f.Position()
	r.note(func(s *Stats) { s.Position = at })
	err := r.change(f, at)
	if failed := f.Err(); failed != nil { // such as a full disk
		r.writes = false
		return failed
	}
	if !errors.Is(err, mmapfilter.ErrCorrupt) {
		r.damaged = 0
	} else if r.damaged++; r.damaged == maxDamaged {
		return r.renew(at, false)
	}
	refused := new(StatusError)
	switch {
	case errors.As(err, &refused) && errors.Is(refused, mmapfilter.ErrOtherDescent):
		return r.renew(at, true)
	case errors.As(err, &refused) && errors.Is(refused, mmapfilter.ErrChangesGone), errors.Is(err, mmapfilter.ErrFull), errors.Is(err, errTooLarge):
		return r.renew(at, false)
	}
	return err
}

// After maxDamaged exchanges in a row that found damage, the replica takes a new snapshot. Damage
// on the way through the network is gone at the next try; damage in a file is not.
const maxDamaged = 5

// change asks for changes, and applies them.
func (r *Replica) change(f *mmapfilter.Filter, at mmapfilter.Position) error {
	query := url.Values{"since": {at.String()}, "classes": {f.Classes().String()}, "wait": {r.opts.Wait.String()}}
	a, err := r.ask(r.life, changesPath, query, nil, r.opts.Wait+busyAfter)
	if err != nil {
		return err
	}
	defer a.Close()
	arrived := time.Now()
	now := at
	if a.StatusCode == http.StatusOK {
		if now, err = r.apply(f, a); err != nil {
			return err
		}
	}
	if now.Descent == a.primary.Descent && now.Number >= a.primary.Number {
		r.mu.Lock()
		r.mu.current = arrived
		r.mu.Unlock()
	}
	return nil
}

// apply applies the changes in an answer.
func (r *Replica) apply(f *mmapfilter.Filter, a *answer) (now mmapfilter.Position, err error) {
	file, err := os.Stat(r.path)
	if err != nil {
		r.writes = false // somebody may have removed the file: then reopen takes a snapshot
		return now, err
	}
	a.most = max(2*file.Size(), minSet) // a larger set costs more than a snapshot, and a server must not fill the disk
	now, err = f.Apply(r.life, a)
	r.note(func(s *Stats) {
		s.ChangeBytes += uint64(a.got)
		if err == nil {
			s.Position, s.Sets = now, s.Sets+1
		}
	})
	return now, err
}

// minSet is how many bytes a set of changes may have, however small the filter is.
const minSet = 16 << 20

// renew takes a new snapshot. It should be later than after, the position of the replica. The old file
// answers until the new file takes its name.
//
// A snapshot that lacks operations that have been applied would hide keys. renew refuses such a
// snapshot, since something on the way, such as a cache, has repeated an old answer. It accepts the
// snapshot only if older says that the primary itself has gone back.
func (r *Replica) renew(after mmapfilter.Position, older bool) error {
	if err := r.download(r.life, after); err != nil {
		return err
	}
	if at, _ := positionAt(r.part()); !older && at.Descent == after.Descent && at.Number < after.Number {
		return errors.Join(fmt.Errorf("the server sends a snapshot of %v, but %v has been applied", at, after), r.discard())
	}
	err := r.filter.Load().Sync() // so that the reader opened below has all that was applied
	if err != nil {
		return err
	}
	reading, err := mmapfilter.OpenReadOnly(r.path, nil)
	if err != nil {
		return err
	}
	r.writes = false
	err = r.filter.Swap(reading).Close() // close the writer, which has the lock
	return errors.Join(err, r.install(r.life), r.reopen())
}

// reopen opens the file for writing, in place of a filter that can no longer be written to. It takes a
// snapshot if somebody has removed the file.
func (r *Replica) reopen() error {
	old := r.filter.Load()
	if old.Err() != nil {
		old.Close() // its writer has the lock, and its error is known
	}
	f, err := r.open()
	if errors.Is(err, fs.ErrNotExist) {
		if err = r.take(r.life, mmapfilter.Position{}); err == nil {
			f, err = r.open()
		}
	}
	if err != nil {
		return err
	}
	r.writes = true
	r.filter.Store(f)
	return old.Close()
}

// open opens the file for writing.
func (r *Replica) open() (*mmapfilter.Filter, error) {
	f, err := mmapfilter.Open(r.path, r.opts.Open)
	if err == nil && !isReplica(f) {
		err = errors.Join(&mmapfilter.ForeignError{Path: r.path, Is: "which is a filter but not a replica"}, f.Close())
	}
	return f, err
}
