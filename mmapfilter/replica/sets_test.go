package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// computed returns how many sets a publisher has computed, and how many it keeps.
func (p *publisher) sets() (computed, kept int) {
	p.kept.Lock()
	defer p.kept.Unlock()
	return p.kept.computed, len(p.kept.sets)
}

// committed creates a filter with the numbered keys [0, n), whose position changes only at a Sync, and
// its publisher.
func committed(tb testing.TB, n int) (*mmapfilter.Filter, *publisher) {
	tb.Helper()
	o := &mmapfilter.Options{Capacity: 10_000, KeepHashes: true, CommitInterval: time.Hour}
	f, err := mmapfilter.Create(filepath.Join(tb.TempDir(), "primary.mmf"), o)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	insert(tb, f, 0, n)
	return f, newPublisher(f)
}

// TestHundredReplicas: a hundred replicas at the same position cost one computation for each step of
// the primary, and none while the primary does nothing. In the end each replica has all keys, and no
// more.
func TestHundredReplicas(t *testing.T) {
	f, p := committed(t, 300)
	var polls atomic.Int64
	h := p.handler()
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == changesPath {
			polls.Add(1)
		}
		h.ServeHTTP(w, r)
	}))
	dir := t.TempDir()
	replicas := make([]*Replica, 100)
	var all sync.WaitGroup
	for i := range replicas {
		all.Add(1)
		go func() {
			defer all.Done()
			o := &Options{Wait: 50 * time.Millisecond, Interval: time.Millisecond, Open: &mmapfilter.OpenOptions{LogBytes: 1 << 17}}
			r, err := Follow(t.Context(), url, filepath.Join(dir, fmt.Sprint(i)), o)
			if err != nil {
				t.Error(err)
				return
			}
			replicas[i] = r
		}()
	}
	defer func() {
		for _, r := range replicas {
			if r != nil {
				r.Close()
			}
		}
	}()
	if all.Wait(); t.Failed() {
		return
	}
	const steps = 5
	keys := 300
	for range steps {
		before, _ := p.sets()
		insert(t, f, keys, keys+50)
		keys += 50
		for _, r := range replicas {
			untilAt(t, r, f)
		}
		if n, _ := p.sets(); n-before != 1 {
			t.Errorf("%d computations for %d replicas", n-before, len(replicas))
		}
		asked := polls.Load()
		until(t, "all ask again", func() bool { return polls.Load() >= asked+2*int64(len(replicas)) })
		if n, _ := p.sets(); n-before != 1 {
			t.Errorf("%d computations while nothing changes", n-before-1)
		}
	}
	for _, r := range replicas {
		mustHave(t, r, 0, keys)
		if s := r.Stats(); r.Len() != f.Len() || s.Failures != 0 || s.Snapshots != 1 {
			t.Errorf("%d keys of %d; %+v", r.Len(), f.Len(), s)
		}
	}
}

// changesSince asks for the changes since a position.
func changesSince(tb testing.TB, url string, since mmapfilter.Position) (n int, to uint64) {
	tb.Helper()
	r, data := get(tb, url+changesPath+"?since="+since.String())
	if r.StatusCode != http.StatusOK {
		tb.Fatalf("status %d, %s", r.StatusCode, data)
	}
	n, to = changesIn(tb, data)
	if at := r.Header.Get(positionHeader); at[17:] != fmt.Sprintf("%d-%s", to, at[len(at)-16:]) {
		tb.Errorf("a set up to %d has the position %s", to, at)
	}
	return n, to
}

// TestKeptSets: a set is kept even if the client that asked for it has gone, but not forever. Once the
// filter has moved on, requests get a later set. A set that is too large to be kept is sent
// nonetheless.
func TestKeptSets(t *testing.T) {
	f, p := committed(t, 100)
	url := serve(t, p.handler())
	first := f.Position()
	insert(t, f, 100, 110)
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := p.set(gone, first, mmapfilter.Classes{}, f.Position())
	must(t, err)
	if n, to := changesSince(t, url, first); n != 10 || to != f.Position().Number {
		t.Errorf("%d changes up to %d", n, to)
	}
	if n, _ := p.sets(); n != 1 {
		t.Errorf("%d computations", n)
	}
	insert(t, f, 110, 120)
	if n, to := changesSince(t, url, first); n != 20 || to != f.Position().Number {
		t.Errorf("after a commit, %d changes up to %d", n, to)
	}
	for i := range 200 {
		since := f.Position()
		insert(t, f, 120+i, 121+i)
		if n, _ := changesSince(t, url, since); n != 1 {
			t.Fatalf("%d changes", n)
		}
	}
	computed, kept := p.sets()
	if computed != 202 || kept != 64 {
		t.Errorf("%d sets computed, %d kept", computed, kept)
	}
	defer func(n int) { largest = n }(largest)
	for _, largest = range []int{1000, 100} { // in bytes; 100 is also less than the number of operations
		for range 2 {
			if n, to := changesSince(t, url, first); n != 220 || to != f.Position().Number {
				t.Errorf("%d changes up to %d", n, to)
			}
		}
	}
	p.kept.Lock()
	defer p.kept.Unlock()
	for _, s := range p.kept.sets {
		if s.data.Len() > 1000 {
			t.Errorf("a set of %d bytes is kept", s.data.Len())
		}
	}
}

// TestOldPosition: once another file is at the path, the position of a filter that is open for reading
// no longer changes. Then its handler does not say again and again that there are no changes.
func TestOldPosition(t *testing.T) {
	dir, backup := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "primary.mmf")
	open := func() *mmapfilter.Filter {
		f, err := mmapfilter.OpenOrCreate(path, &mmapfilter.Options{Capacity: 1000, KeepHashes: true}, nil)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	publish := func() string {
		f, err := mmapfilter.OpenReadOnly(path, nil)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return serve(t, Handler(f))
	}
	f := open()
	insert(t, f, 0, 100)
	must(t, errors.Join(f.Close(), os.CopyFS(backup, os.DirFS(dir))))
	f = open()
	insert(t, f, 100, 200)
	must(t, f.Close())
	url := publish()
	for _, name := range []string{"primary.mmf", "primary.mmf.hashes"} {
		must(t, os.Rename(filepath.Join(backup, name), filepath.Join(dir, name)))
	}
	f = open()
	since := f.Position()
	for n := range 3 { // at first without changes
		insert(t, f, 100+n, 101+n)
		must(t, f.Checkpoint(t.Context()))
		if n == 0 {
			since = f.Position()
		}
		if got, to := changesSince(t, url, since); got != n || to != f.Position().Number {
			t.Errorf("%d changes up to %d, not %d up to %d", got, to, n, f.Position().Number)
		}
	}
	url = publish()
	since = f.Position()
	must(t, f.Rebuild(t.Context(), nil))
	insert(t, f, 103, 104)
	for _, ask := range []string{changesPath + "?since=" + since.String(), healthPath} {
		if r, text := get(t, url+ask); r.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d, %s", ask, r.StatusCode, text)
		}
	}
}

// TestComputationPanics checks that a set whose computation panics has an error for those who wait for
// it, is not kept, and takes no place from others.
func TestComputationPanics(t *testing.T) {
	p := newPublisher(nil) // so ChangesFor panics
	s := &set{at: mmapfilter.Position{Number: 1}, whole: make(chan struct{})}
	p.kept.sets = append(p.kept.sets, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it does not panic")
			}
		}()
		p.compute(t.Context(), s)
	}()
	<-s.whole
	if _, kept := p.sets(); s.err == nil || kept != 0 || len(p.places) != 0 {
		t.Errorf("its error is %v; %d sets are kept, and %d places are taken", s.err, kept, len(p.places))
	}
}
