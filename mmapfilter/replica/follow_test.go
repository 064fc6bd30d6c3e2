package replica

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestFollow: a replica gets inserts and deletes, other processes see them in its file, and after a
// restart the replica goes on where it was.
func TestFollow(t *testing.T) {
	f, _ := primary(t, 1000)
	url := serve(t, Handler(f))
	r, path := follow(t, url)
	reader, err := mmapfilter.OpenReadOnly(path, nil)
	must(t, err)
	defer reader.Close()
	for i := range 500 {
		must(t, f.Insert(key(1000+i)))
		if _, err := f.Delete(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, f.Sync())
	untilAt(t, r, f)
	until(t, "other processes see the commit, too", func() bool {
		n := 0
		for ; n < 1000 && reader.Contains(key(500+n)); n++ {
		}
		return n == 1000
	})
	found := make([]bool, 1)
	r.ContainsBatch([][]byte{key(1499)}, found)
	if !found[0] || !r.ContainsString("key 1499") || r.Count(key(1499)) == 0 || r.Cap() == 0 {
		t.Error("a method does not find a key")
	}
	for what, f := range map[string]interface {
		Contains([]byte) bool
		Len() uint64
	}{"replica": r, "filter": r.Filter()} {
		mustHave(t, f, 500, 1500)
		if f.Len() != 1000 {
			t.Errorf("the %s has %d keys", what, f.Len())
		}
	}
	until(t, "there is nothing more to get", func() bool { return r.Stats().LagOperations == 0 && r.Stats().Sets > 0 && r.Err() == nil })
	if s := r.Stats(); s.Snapshots != 1 || s.ChangeBytes == 0 || s.LagSeconds < 0 {
		t.Errorf("%+v", s)
	}
	if _, err := Follow(t.Context(), url, path, nil); !errors.Is(err, mmapfilter.ErrLocked) {
		t.Errorf("a second replica of one file: %v", err)
	}
	must(t, r.Close())
	must(t, r.Close())
	if !errors.Is(r.Err(), mmapfilter.ErrClosed) || !r.ContainsString("absent") {
		t.Error("the replica answers \"certainly not\" after Close")
	}
	insert(t, f, 1500, 1600)
	r, err = Follow(t.Context(), url, path, quick())
	must(t, err)
	defer r.Close()
	untilAt(t, r, f)
	mustHave(t, r, 500, 1600)
	if s := r.Stats(); s.Snapshots != 0 {
		t.Errorf("after a restart, the replica has taken %d snapshots", s.Snapshots)
	}
}

// TestTooFarBehind: a replica takes a new snapshot if the changes since its position are gone, or do
// not fit. A follower of its file switches to the new file.
func TestTooFarBehind(t *testing.T) {
	f, _ := primary(t, 500)
	url := serve(t, Handler(f))
	r, path := follow(t, url)
	must(t, r.Close())
	insert(t, f, 500, 700)
	must(t, f.Rebuild(t.Context(), nil))
	insert(t, f, 700, 800)
	must(t, f.Rebuild(t.Context(), nil))
	other, err := mmapfilter.Follow(path, nil)
	must(t, err)
	defer other.Close()
	r, err = Follow(t.Context(), url, path, quick())
	must(t, err)
	defer r.Close()
	mustHave(t, r, 0, 500)
	untilAt(t, r, f)
	mustHave(t, r, 0, 800)
	if s := r.Stats(); s.Snapshots != 1 {
		t.Errorf("%d snapshots", s.Snapshots)
	}
	insert(t, f, 800, 20_000) // many times what fits
	untilAt(t, r, f)
	mustHave(t, r, 0, 20_000)
	if r.Len() != f.Len() || r.Cap() < 10_000 { // the last snapshot may be from before the last growth
		t.Errorf("%d keys, capacity %d", r.Len(), r.Cap())
	}
	i := 0
	until(t, "the follower has the new file", func() bool {
		for i < 20_000 && other.Contains(key(i)) {
			i++
		}
		return i == 20_000
	})
}

// TestRestoredPrimary: if the primary is restored from a backup, or built anew, the replica becomes a
// copy of the restored or new filter.
func TestRestoredPrimary(t *testing.T) {
	f, path := primary(t, 1000)
	must(t, f.Close())
	copied := filepath.Join(t.TempDir(), "backup.mmf")
	for _, suffix := range []string{"", ".hashes"} {
		data, err := os.ReadFile(path + suffix)
		must(t, err)
		must(t, os.WriteFile(copied+suffix, data, 0o666))
	}
	var handler atomic.Pointer[http.Handler]
	open := func(path string) *mmapfilter.Filter {
		f, err := mmapfilter.Open(path, nil)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		h := Handler(f)
		handler.Store(&h)
		return f
	}
	f = open(path)
	insert(t, f, 1000, 1700)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
	r, _ := follow(t, url)
	untilAt(t, r, f)
	get(t, url+"/snapshot?after="+f.Position().String())
	must(t, os.Rename(path+".snapshot", copied+".snapshot")) // this snapshot has the lost operations
	f = open(copied)
	insert(t, f, 3000, 3100) // fewer than were lost
	if _, data := get(t, url+"/snapshot"); opened(t, data).Position() != f.Position() {
		t.Error("a snapshot of the lost history is served")
	}
	untilAt(t, r, f)
	mustHave(t, r, 0, 1000)
	mustHave(t, r, 3000, 3100)
	if r.Len() != 1100 {
		t.Errorf("it has %d keys", r.Len())
	}
	f, _ = primary(t, 10)
	h := Handler(f)
	handler.Store(&h)
	untilAt(t, r, f)
	if r.Len() != 10 {
		t.Errorf("the replica has %d keys of a new filter", r.Len())
	}
}

// TestOldSnapshot: an old snapshot, which something on the way has kept, is refused, since it lacks
// operations that have been applied.
func TestOldSnapshot(t *testing.T) {
	f, _ := primary(t, 1000)
	h := Handler(f)
	old := httptest.NewRecorder()
	h.ServeHTTP(old, httptest.NewRequest(http.MethodGet, snapshotPath, nil))
	var gone atomic.Bool
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case gone.Load() && r.URL.Path == snapshotPath:
			for name, values := range old.Header() {
				w.Header()[name] = values
			}
			w.Write(old.Body.Bytes())
		case gone.Load():
			refuse(w, mmapfilter.ErrChangesGone)
		default:
			h.ServeHTTP(w, r)
		}
	}))
	r, path := follow(t, url)
	insert(t, f, 1000, 1100)
	untilAt(t, r, f)
	gone.Store(true)
	until(t, "it says why", func() bool { return r.Err() != nil && strings.Contains(r.Err().Error(), "has been applied") })
	mustHave(t, r, 0, 1100)
	must(t, r.Close())
	kept, err := mmapfilter.OpenReadOnly(path, nil)
	must(t, err)
	defer kept.Close()
	mustHave(t, kept, 0, 1100)
}

// TestImpatient: a peer that takes nothing, or sends nothing, is cut off.
func TestImpatient(t *testing.T) {
	was := patience
	t.Cleanup(func() { patience = was }) // runs after the cleanup of serve, which ends the requests
	patience = -time.Hour                // longer ago than a request may take
	f, path := primary(t, 1000)
	url := serve(t, Handler(f))
	if r, err := http.Get(url + snapshotPath); err == nil {
		t.Errorf("a client that takes too long gets %s", r.Status)
	}
	u, _, err := parse(url)
	must(t, err)
	r := &Replica{url: u, path: path + ".replica", opts: quick().withDefaults()}
	if err := r.download(t.Context(), mmapfilter.Position{}); !errors.Is(err, errSilent) {
		t.Errorf("a server that takes too long: %v", err)
	}
}

// TestBadServers: whatever a server sends, a replica keeps what it has, reports the failure, and
// pauses.
func TestBadServers(t *testing.T) {
	f, _ := primary(t, 100)
	var bad atomic.Pointer[http.HandlerFunc]
	h := Handler(f)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b := bad.Load(); b != nil && r.URL.Path == changesPath {
			w.Header().Set(positionHeader, f.Position().String())
			(*b)(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	o := quick()
	var told atomic.Int64
	o.OnError = func(error) { told.Add(1) }
	r, err := Follow(context.Background(), url, filepath.Join(t.TempDir(), "replica.mmf"), o)
	must(t, err)
	defer r.Close()
	one, _ := primary(t, 0)
	at := one.Position()
	insert(t, one, 0, 10)
	foreign := httptest.NewRecorder()
	if _, err := one.Changes(t.Context(), foreign, at); err != nil {
		t.Fatal(err)
	}
	for says, b := range map[string]http.HandlerFunc{
		"500":     func(w http.ResponseWriter, r *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) },
		"damaged": func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 1000)) },
		"cut off": func(w http.ResponseWriter, r *http.Request) {},
		"no position": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del(positionHeader)
			w.WriteHeader(http.StatusOK)
		},
		"other filter": func(w http.ResponseWriter, r *http.Request) { w.Write(foreign.Body.Bytes()) },
	} {
		bad.Store(&b)
		until(t, "it says "+says, func() bool { return r.Err() != nil && strings.Contains(r.Err().Error(), says) })
		mustHave(t, r, 0, 100)
	}
	if r.Stats().Failures == 0 || told.Load() == 0 {
		t.Error("the failures are not counted")
	}
	bad.Store(nil)
	insert(t, f, 100, 200)
	untilAt(t, r, f)
	mustHave(t, r, 0, 200)
	if r.Len() != 200 {
		t.Errorf("it has %d keys", r.Len())
	}
}

// TestAppliedPosition: the position of a replica says what it has applied, whatever the server says
// about a set that does not arrive.
func TestAppliedPosition(t *testing.T) {
	f, _ := primary(t, 100)
	h := Handler(f)
	var cut atomic.Bool
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != changesPath {
			h.ServeHTTP(w, r)
			return
		}
		whole := httptest.NewRecorder()
		h.ServeHTTP(whole, r)
		body := whole.Body.Bytes()
		if cut.Load() { // even if the request came before the cut
			body = body[:len(body)/2]
		}
		w.Header().Set(positionHeader, whole.Header().Get(positionHeader))
		w.WriteHeader(whole.Code)
		w.Write(body)
	}))
	o := quick()
	stats := make(chan Stats, 1)
	var r *Replica
	var begun atomic.Bool
	o.OnError = func(error) {
		if begun.Load() {
			select {
			case stats <- r.Stats():
			default:
			}
		}
	}
	r, err := Follow(t.Context(), url, filepath.Join(t.TempDir(), "replica.mmf"), o)
	must(t, err)
	defer r.Close()
	begun.Store(true)
	untilAt(t, r, f)
	at := f.Position()
	cut.Store(true)
	insert(t, f, 100, 200)
	until(t, "it has asked since", func() bool { return r.Stats().Primary == f.Position() })
	for len(stats) > 0 {
		<-stats
	}
	if s := <-stats; s.Position != at || s.Primary != f.Position() || s.LagOperations != 100 {
		t.Errorf("%+v, but the replica has the operations up to %v", s, at)
	}
	mustHave(t, r, 0, 100)
	cut.Store(false)
	untilAt(t, r, f)
	mustHave(t, r, 0, 200)
}

// TestRemoved: a replica whose file somebody removes takes a new snapshot when there are changes.
func TestRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("nobody removes a file that is open")
	}
	f, _ := primary(t, 100)
	r, path := follow(t, serve(t, Handler(f)))
	untilAt(t, r, f)
	must(t, os.Remove(path))
	insert(t, f, 100, 200)
	until(t, "there is a new file", func() bool { return r.Stats().Snapshots == 2 && r.Stats().Position == f.Position() })
	mustHave(t, r, 0, 200)
	other, err := mmapfilter.OpenReadOnly(path, nil)
	must(t, err)
	defer other.Close()
	mustHave(t, other, 0, 200)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUnreachable checks that a replica says why it does not reach the server, without the query of its
// URL, which may be a signature.
func TestUnreachable(t *testing.T) {
	unreachable := errors.New("no route to host")
	ctx, cancel := context.WithCancel(t.Context())
	o := quick()
	o.Client = &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, unreachable })}
	o.OnError = func(error) { cancel() }
	_, err := Follow(ctx, "http://example.org/users?key=secret", filepath.Join(t.TempDir(), "replica.mmf"), o)
	if !errors.Is(err, unreachable) || errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Follow returns %v", err)
	}
}
