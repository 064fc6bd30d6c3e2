package replica

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
)

// What a Handler serves, below its path.
const (
	snapshotPath = "/snapshot"
	changesPath  = "/changes"
	healthPath   = "/health"
)

// positionHeader has the position of the filter, in each answer to a replica.
const positionHeader = "Mmapfilter-Position"

const (
	maxWait   = time.Minute           // the longest wait that a request may ask for
	lookEvery = 10 * time.Millisecond // between two looks at the position, while a request waits
	minRate   = 16 << 10              // bytes a second that a peer must take or send; patience comes in addition
	busyAfter = 10 * time.Second      // a request that has waited this long for its turn is told to come again
	worth     = 8                     // a snapshot is served until keys/worth + slack operations have come after it
	slack     = 1 << 13               // operations whose changes are as large as a small filter
)

// patience is how long a peer may take or send nothing. It is a variable for tests.
var patience = 30 * time.Second

// Handler returns a handler that publishes a filter to replicas, at three paths:
//
//	GET /snapshot?after=POSITION            a sealed copy, with an ETag and ranges
//	GET /changes?since=POSITION&wait=10s    what has changed since, for [mmapfilter.Filter.Apply];
//	                                        with &classes=…, for a filter that has these Classes
//	GET /health                             position and number of keys, as JSON; 503 if Err is not nil
//
// The filter must keep its hashes. It may be open for writing or for reading. If it is open for
// reading, the replicas get the operations of its writer up to the last checkpoint; once another file
// has taken its place, publish the filter that a [mmapfilter.Follower] has opened. The last snapshot
// stays beside the filter, as NAME.snapshot. It is served until keys/8 + 8,192 operations have followed
// it, or the changes since then are gone. So a replica can continue a download after
// this process has been killed. NAME.snapshot may be deleted at any time.
//
// The handler authenticates nobody; see the package comment. The cost of serving clients is bounded:
// one snapshot and 16 sets of changes are in progress at a time, replicas at the same position share a
// set of changes, and a client that is too slow is cut off.
func Handler(f *mmapfilter.Filter) http.Handler {
	return newPublisher(f).handler()
}

func newPublisher(f *mmapfilter.Filter) *publisher {
	return &publisher{filter: f, making: make(chan struct{}, 1), places: make(chan struct{}, maxSets)}
}

func (p *publisher) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+snapshotPath, p.serveSnapshot)
	mux.HandleFunc("GET "+changesPath, p.serveChanges)
	mux.HandleFunc("GET "+healthPath, p.serveHealth)
	return mux
}

// A publisher publishes a filter.
type publisher struct {
	filter *mmapfilter.Filter
	places chan struct{} // has an element for each set of changes that is being computed or sent
	kept   struct {
		sync.Mutex
		sets     []*set // the oldest first
		computed int    // how many sets were computed; for tests
	}
	making chan struct{} // has an element while a snapshot is created; guards good
	// good is the position of the snapshot, if the filter is known to have the changes since then. It
	// is zero if this is not known: an earlier process may have created the snapshot, perhaps before
	// the filter was restored from a backup.
	good mmapfilter.Position
}

// serveSnapshot serves the file of the snapshot. Each request opens the file anew, so if another file
// takes its place, a request under way continues with the old file.
func (p *publisher) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	out := newPaced(w, busyAfter)
	var after mmapfilter.Position
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = mmapfilter.ParsePosition(text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	name, err := p.snapshot(r.Context(), after)
	if err != nil {
		refuse(w, err)
		return
	}
	file, err := os.Open(name)
	if err != nil {
		refuse(w, err)
		return
	}
	defer file.Close()
	tag, err := tagOf(file)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("ETag", tag)
	w.Header().Set(positionHeader, p.position().String())
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(out, r, "", time.Time{}, file)
}

// headBytes is the size of the superblocks of a filter.
const headBytes = 16 << 10

// tagOf returns the ETag of a snapshot: a hash of its superblocks, which have its position, its sequence
// and a UUID derived from them. Snapshots of one position and sequence have equal bytes. So a replica
// that was killed can tell from the first bytes of a part which file it is a part of.
func tagOf(file io.ReaderAt) (string, error) {
	head := make([]byte, headBytes)
	if _, err := file.ReadAt(head, 0); err != nil {
		return "", err
	}
	sum := sha256.Sum256(head)
	return fmt.Sprintf("\"%x\"", sum[:16]), nil
}

var errComeAgain = errors.New("busy: come again")

// take takes one of the places of a channel. If no place becomes free in time, the error is
// errComeAgain.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-time.After(busyAfter):
		return errComeAgain
	case <-ctx.Done():
		return errComeAgain // the client has gone
	}
}

// snapshot returns the name of the snapshot to serve. The filter has the changes since this snapshot.
// If the filter is later than the position after, so is the snapshot.
func (p *publisher) snapshot(ctx context.Context, after mmapfilter.Position) (name string, err error) {
	if err := take(ctx, p.making); err != nil {
		return "", err
	}
	path := bridge.Of(p.filter).Path()
	if path == "" {
		<-p.making
		return "", errors.Join(p.filter.Err(), fmt.Errorf("%w: the filter is not open from a path", errors.ErrUnsupported))
	}
	name = path + ".snapshot"
	made := make(chan error, 1)
	go func() { // the goroutine may outlive this request; a later request then finds the snapshot
		defer func() { <-p.making }()
		made <- p.renew(context.WithoutCancel(ctx), name, after)
	}()
	select {
	case err = <-made:
	case <-time.After(busyAfter):
		err = errComeAgain
	}
	return name, err
}

// renew creates a snapshot, unless the last one can still be served. REQUIRES: p.making.
func (p *publisher) renew(ctx context.Context, name string, after mmapfilter.Position) error {
	now := p.position()
	if now.IsZero() {
		return errors.Join(p.filter.Err(), mmapfilter.ErrNoHashes)
	}
	if at, ok := positionAt(name); ok && at.Descent == now.Descent {
		tooOld := at.Number <= after.Number && after.Descent == at.Descent && at != now
		if !tooOld && now.Number <= at.Number+p.filter.Len()/worth+slack && p.isGood(ctx, at) {
			return nil
		}
	}
	at, err := p.filter.Snapshot(ctx, name)
	p.good = at
	return err
}

// positionAt returns the position of the snapshot with a name. ok says that there is a complete
// snapshot.
func positionAt(name string) (at mmapfilter.Position, ok bool) {
	f, err := mmapfilter.OpenReadOnly(name, nil)
	if err != nil {
		return at, false
	}
	defer f.Close()
	return f.Position(), !f.Position().IsZero()
}

// isGood reports whether the filter has the changes since a position. REQUIRES: p.making.
func (p *publisher) isGood(ctx context.Context, at mmapfilter.Position) bool {
	if at != p.good {
		if _, err := p.filter.Changes(ctx, io.Discard, at); err != nil {
			return false
		}
		p.good = at
	}
	return true
}

// serveChanges serves the changes since a position, or 204 if there are none within the time that the
// request waits.
func (p *publisher) serveChanges(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	since, err := mmapfilter.ParsePosition(query.Get("since"))
	var classes mmapfilter.Classes
	if text := query.Get("classes"); err == nil && text != "" {
		classes, err = mmapfilter.ParseClasses(text)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wait, _ := time.ParseDuration(query.Get("wait"))
	wait = max(min(wait, maxWait), 0)
	out := newPaced(w, wait+busyAfter)
	now := p.await(r.Context(), since, wait)
	w.Header().Set(positionHeader, now.String())
	w.Header().Set("Cache-Control", "no-store")
	if now == since {
		if err := p.filter.Err(); err != nil { // there may be changes that the filter does not know of
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	set, err := p.set(r.Context(), since, classes, now)
	if err == nil || errors.Is(err, errTooManyChanges) {
		if busy := take(r.Context(), p.places); busy != nil {
			refuse(w, busy)
			return
		}
		defer func() { <-p.places }()
		w.Header().Set("Content-Type", "application/octet-stream")
		if err == nil {
			w.Header().Set(positionHeader, set.to.String())
			err = set.send(out)
		} else {
			_, err = p.filter.ChangesFor(r.Context(), out, since, classes)
		}
	}
	switch {
	case err == nil:
	case out.sent > 0:
		panic(http.ErrAbortHandler) // the replica sees that the end is missing
	default:
		if errors.Is(err, mmapfilter.ErrChangesGone) {
			p.doubt(since)
		}
		refuse(w, err)
	}
}

// await returns the position of the filter, once it differs from since or the wait is over. It polls
// the position, since a filter calls no function when it commits; a look at the position costs little.
func (p *publisher) await(ctx context.Context, since mmapfilter.Position, wait time.Duration) mmapfilter.Position {
	end := time.Now().Add(wait)
	for {
		now := p.position()
		left := time.Until(end)
		if now != since || left <= 0 || ctx.Err() != nil || now.IsZero() {
			return now
		}
		select {
		case <-time.After(min(lookEvery, left)):
		case <-ctx.Done():
		}
	}
}

// position returns the position in the filter's own history. If the filter is itself a replica with
// hashes, this is not the history that it follows.
func (p *publisher) position() mmapfilter.Position {
	descent, at := bridge.Of(p.filter).Position()
	return mmapfilter.Position{Descent: descent, Number: at.Number, Chain: at.Chain}
}

// doubt notes that the changes since a position are gone, so that the changes since the snapshot may be
// gone, too.
func (p *publisher) doubt(since mmapfilter.Position) {
	select {
	case p.making <- struct{}{}:
		if p.good.Number <= since.Number {
			p.good = mmapfilter.Position{}
		}
		<-p.making
	default: // a snapshot is being created
	}
}

// serveHealth says at which position the filter is.
func (p *publisher) serveHealth(w http.ResponseWriter, r *http.Request) {
	if err := p.filter.Err(); err != nil {
		refuseWith(w, http.StatusServiceUnavailable, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(struct {
		Position mmapfilter.Position `json:"position"`
		Keys     uint64              `json:"keys"`
	}{p.position(), p.filter.Len()})
}

// statuses has, for each error that a replica can act on, the status by which the replica knows the
// error.
var statuses = []struct {
	err    error
	status int
}{
	{mmapfilter.ErrChangesGone, http.StatusGone},
	{mmapfilter.ErrOtherDescent, http.StatusConflict},
	{mmapfilter.ErrNoHashes, http.StatusNotImplemented},
	{errComeAgain, http.StatusServiceUnavailable},
	{mmapfilter.ErrBusy, http.StatusServiceUnavailable},
	{mmapfilter.ErrSuperseded, http.StatusServiceUnavailable},
	{mmapfilter.ErrClosed, http.StatusServiceUnavailable},
}

// refuse answers with an error, and with the status by which a replica knows the error.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status = s.status
			break
		}
	}
	refuseWith(w, status, err)
}

func refuseWith(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, err.Error(), status)
}

// A paced is a ResponseWriter that cuts off a client that takes too few bytes a second.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
	begun   time.Time
	sent    int64
}

// newPaced also allows for wait, the time that a request may wait before it is answered. Its limits
// replace the limits of the server.
func newPaced(w http.ResponseWriter, wait time.Duration) *paced {
	p := &paced{w, http.NewResponseController(w), time.Now().Add(wait), 0}
	p.control.SetReadDeadline(time.Time{}) // none; the client sends nothing
	p.control.SetWriteDeadline(p.begun.Add(due(0)))
	return p
}

func (p *paced) Write(b []byte) (n int, err error) {
	p.sent += int64(len(b))
	p.control.SetWriteDeadline(p.begun.Add(due(p.sent)))
	return p.ResponseWriter.Write(b)
}

// due returns the time in which a peer must have taken or sent a number of bytes.
func due(bytes int64) time.Duration {
	return patience + time.Duration(float64(bytes)/minRate*float64(time.Second))
}
