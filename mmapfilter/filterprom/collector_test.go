package filterprom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMain makes each scrape call Stats, and wait for the result.
func TestMain(m *testing.M) {
	patience, rest = time.Hour, 0
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keys yields n keys.
func keys(n int) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(fmt.Appendf(nil, "key %d", i), nil) {
				return
			}
		}
	}
}

// built builds a filter of n keys.
func built(t *testing.T, path string, n int) *mmapfilter.Filter {
	t.Helper()
	f, err := mmapfilter.Build(t.Context(), path, nil, keys(n))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// madeSet builds a set of 1,000 keys in two shards, and opens no shard.
func madeSet(t *testing.T) *sets.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.set")
	plan, err := sets.NewPlan(&mmapfilter.Options{Capacity: 1000, FalsePositiveRate: 0.01}, 2)
	must(t, err)
	_, err = sets.Build(t.Context(), path, plan, sets.Work{}, keys(1000))
	must(t, err)
	s, err := sets.Open(path, nil)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A store is a guard.Store in memory, without keys.
type store struct{ entries []guard.Entry }

func (s *store) Entries() ([]guard.Entry, error) { return s.entries, nil }
func (s *store) Has([]byte) (bool, error)        { return false, nil }
func (s *store) Snapshot() (guard.Snapshot, error) {
	return guard.Snapshot{Keys: func(func([]byte, error) bool) {}, Close: func() error { return nil }}, nil
}

func (s *store) Write(c guard.Changes) error {
	for _, r := range c.Remove {
		s.entries = slices.DeleteFunc(s.entries, func(e guard.Entry) bool {
			return string(e.Key) >= string(r.From) && string(e.Key) < string(r.To)
		})
	}
	s.entries = append(s.entries, c.Set...)
	return nil
}

func madeGuard(t *testing.T) *guard.Guard {
	t.Helper()
	g, err := guard.Open(&store{}, (&guard.Options{Path: filepath.Join(t.TempDir(), "a.mmf")}).WithDefaults("", guard.Exact))
	must(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

// sent returns what a collector sends to a registry that checks it: values by the name of the metric,
// without its prefix, and by its label, if it has a label beside name.
func sent(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	must(t, r.Register(c))
	families, err := r.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.SplitN(f.GetName(), "_", 3)[2]
			for _, l := range m.Label {
				if l.GetName() != "name" {
					name += " " + l.GetValue()
				}
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

// mustSend checks some of the values that a collector sends. A value of -1 means that the metric must
// not be sent.
func mustSend(t *testing.T, c prometheus.Collector, want map[string]float64) {
	t.Helper()
	got := sent(t, c)
	for name, value := range want {
		if v, ok := got[name]; ok != (value >= 0) || ok && v != value {
			t.Errorf("%s: %v (sent: %v), not %v", name, v, ok, value)
		}
	}
}

// mustBeDown checks that a collector sends only up, with the value 0.
func mustBeDown(t *testing.T, c prometheus.Collector) {
	t.Helper()
	if got := sent(t, c); len(got) != 1 || got["up"] != 0 {
		t.Errorf("it sends %v", got)
	}
}

// TestLint checks names and help texts against the conventions of Prometheus, and checks the text that
// a scrape gets.
func TestLint(t *testing.T) {
	f, err := mmapfilter.Create(filepath.Join(t.TempDir(), "a.mmf"), &mmapfilter.Options{Capacity: 1000})
	must(t, err)
	defer f.Close()
	must(t, f.Insert([]byte("apple")))
	s := madeSet(t)
	must(t, s.OpenAll())
	ofFilter, ofSet, ofGuard := NewFilterCollector(f, "a"), NewSetCollector(s, "a"), NewGuardCollector(madeGuard(t).Stats, "a")
	for _, c := range []prometheus.Collector{ofFilter, ofSet, ofGuard} {
		problems, err := testutil.CollectAndLint(c)
		must(t, err)
		for _, p := range problems {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	must(t, testutil.CollectAndCompare(ofFilter, strings.NewReader(`
# HELP mmapfilter_filter_keys Items, with each equal key counted.
# TYPE mmapfilter_filter_keys gauge
mmapfilter_filter_keys{name="a"} 1
# HELP mmapfilter_filter_state 1, with the state of the file as a label.
# TYPE mmapfilter_filter_state gauge
mmapfilter_filter_state{name="a",state="live"} 1
# HELP mmapfilter_filter_swaps_total How often the follower has switched to another file.
# TYPE mmapfilter_filter_swaps_total counter
mmapfilter_filter_swaps_total{name="a"} 0
`), "mmapfilter_filter_keys", "mmapfilter_filter_state", "mmapfilter_filter_swaps_total"))
}

// TestFilter scrapes a file that is open both for writing and for reading. Then both filters are
// closed.
func TestFilter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mmf")
	w, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 1000, KeepHashes: true})
	must(t, err)
	defer w.Close()
	writer := NewFilterCollector(w, "a")
	for _, key := range []string{"apple", "apple", "pear"} {
		must(t, w.Insert([]byte(key)))
	}
	must(t, w.SyncAt(7))
	mustSend(t, writer, map[string]float64{
		"up": 1, "error": 0, "keys": 3, "state live": 1, "writer_alive": 1, "durable_sequence": 7, "pending_operations": 0,
		"keeps_hashes": 1, "grows": 0, "recovered": 0, "capacity_keys": float64(w.Cap()), "log_bytes": float64(w.Stats().LogBytes),
	})
	must(t, w.Checkpoint(t.Context()))
	r, err := mmapfilter.OpenReadOnly(path, nil)
	must(t, err)
	defer r.Close()
	reader := NewFilterCollector(r, "a")
	mustSend(t, reader, map[string]float64{
		"up": 1, "error": 0, "keys": 3, "writer_alive": 1, "durable_sequence": 7,
		"pending_operations": -1, "log_bytes": -1, "commits_total": -1, "longest_stall_seconds": -1, "recovered": -1,
	})
	must(t, w.Close())
	must(t, r.Close())
	mustBeDown(t, writer)
	mustBeDown(t, reader)
	mustBeDown(t, NewFilterCollector(w, "a"))
}

// TestFollower scrapes a follower that waits for its file, has a file, has another file, and is closed.
func TestFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mmf")
	f, err := mmapfilter.Follow(path, &mmapfilter.OpenOptions{WaitForFile: true, FollowInterval: time.Hour})
	must(t, err)
	defer f.Close()
	c := NewFilterCollector(f, "a")
	mustBeDown(t, c)
	for i := range 2 {
		built(t, path, 10+i)
		_, err = f.Refresh()
		must(t, err)
		mustSend(t, c, map[string]float64{"up": 1, "error": 0, "keys": float64(10 + i), "state sealed": 1, "swaps_total": float64(1 + i), "log_bytes": -1})
	}
	must(t, os.Remove(path))
	if _, err := f.Refresh(); err == nil {
		t.Fatal("there is no file")
	}
	mustSend(t, c, map[string]float64{"up": 1, "error": 1, "keys": 11})
	must(t, f.Close())
	mustBeDown(t, c)
}

// TestSet scrapes a set with no shard open, and with all shards open; a set that lacks a shard; and a
// set that waits for its file.
func TestSet(t *testing.T) {
	s := madeSet(t)
	c := NewSetCollector(s, "a")
	mustSend(t, c, map[string]float64{
		"up": 1, "error": 0, "keys": 1000, "shards": 2, "open_shards": 0, "failed_shards": 0, "target_false_positive_ratio": 0.01,
		"false_positive_ratio": -1, "highest_false_positive_ratio": -1,
	})
	must(t, s.OpenAll())
	st := s.Stats()
	mustSend(t, c, map[string]float64{"open_shards": 2, "false_positive_ratio": st.EstimatedRate, "highest_false_positive_ratio": st.HighestRate})
	must(t, s.Close())
	mustBeDown(t, c)

	broken := madeSet(t)
	must(t, os.Remove(broken.ShardStats()[1].Path))
	if broken.OpenAll() == nil {
		t.Fatal("a shard is missing")
	}
	mustSend(t, NewSetCollector(broken, "a"), map[string]float64{"up": 1, "error": 1, "open_shards": 1, "failed_shards": 1})

	waiting, err := sets.Follow(filepath.Join(t.TempDir(), "a.set"), &mmapfilter.OpenOptions{WaitForFile: true})
	must(t, err)
	mustBeDown(t, NewSetCollector(waiting, "a"))
	must(t, waiting.Close())
	mustBeDown(t, NewSetCollector(waiting, "a"))
}

// TestGuard scrapes a guard before and after it is closed, with an error and without one.
func TestGuard(t *testing.T) {
	g := madeGuard(t)
	c := NewGuardCollector(g.Stats, "a")
	for range 3 {
		g.Absent([]byte("potato"))
	}
	// The filter was built anew.
	mustSend(t, c, map[string]float64{"up": 1, "error": 1, "state serving": 1, "lookups_total": 3, "skipped_total": 3, "false_positives_total": 0, "keys": 0})
	must(t, g.Close())
	mustBeDown(t, c)
	building := func() guard.Stats { return guard.Stats{State: "building"} }
	mustSend(t, NewGuardCollector(building, "a"), map[string]float64{"up": 1, "error": 0, "state building": 1, "state serving": -1})
}

// TestReplica scrapes a replica before and after it is closed.
func TestReplica(t *testing.T) {
	dir := t.TempDir()
	f, err := mmapfilter.Create(filepath.Join(dir, "a.mmf"), &mmapfilter.Options{Capacity: 1000, KeepHashes: true})
	must(t, err)
	defer f.Close()
	server := httptest.NewServer(replica.Handler(f))
	defer server.Close()
	r, err := replica.Follow(t.Context(), server.URL, filepath.Join(dir, "b.mmf"), nil)
	must(t, err)
	c := NewReplicaCollector(r, "a")
	mustSend(t, c, map[string]float64{"up": 1, "snapshots_total": 1, "snapshot_bytes_total": float64(f.Stats().FileBytes), "sets_total": 0, "lag_operations": 0})
	must(t, r.Close())
	mustBeDown(t, c)
}

// TestNames checks that two collectors of one kind need different names, and that collectors of
// different kinds do not.
func TestNames(t *testing.T) {
	f, s, g := built(t, filepath.Join(t.TempDir(), "a.mmf"), 1), madeSet(t), madeGuard(t)
	r := prometheus.NewPedanticRegistry()
	for _, name := range []string{"a", "b"} {
		r.MustRegister(NewFilterCollector(f, name), NewSetCollector(s, name), NewGuardCollector(g.Stats, name))
	}
	if err := r.Register(NewFilterCollector(f, "b")); !errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		t.Errorf("two filters have the name b: %v", err)
	}
	if !r.Unregister(NewFilterCollector(f, "a")) {
		t.Error("the collector of a filter cannot be unregistered")
	}
	families, err := r.Gather()
	must(t, err)
	for _, f := range families {
		if want := 2 - strings.Count(f.GetName(), "_filter_"); len(f.Metric) != want && f.GetName() != "mmapfilter_guard_state" {
			t.Errorf("%s is sent %d times, not %d", f.GetName(), len(f.Metric), want)
		}
	}
}

// A slow has a Stats that does not return until it is told to.
type slow struct {
	calls int
	end   chan struct{}
}

func (s *slow) Err() error { return nil }
func (s *slow) Stats() mmapfilter.Stats {
	s.calls++
	<-s.end
	time.Sleep(time.Millisecond) // so that the call has taken some time
	return mmapfilter.Stats{Len: uint64(s.calls), State: "sealed"}
}

// TestSlow checks that a scrape does not wait for a slow Stats, but sends the last result, and that
// Stats is not called during another call, or soon after it.
func TestSlow(t *testing.T) {
	defer func(p, r, l time.Duration) { patience, rest, longest = p, r, l }(patience, rest, longest)
	rest, longest = 1e6, time.Hour
	s := &slow{end: make(chan struct{})}
	c := NewFilterCollector(s, "a").(*collector)
	for call := 1.0; call <= 2; call++ {
		patience = 0
		for range 3 { // at first without a result, then with that of the first call
			if got := sent(t, c); got["keys"] != call-1 || call == 1 && len(got) > 0 {
				t.Errorf("in call %v of Stats it sends %v", call, got)
			}
		}
		s.end <- struct{}{}
		patience = time.Hour
		for range 3 {
			if got := sent(t, c); got["keys"] != call || got["up"] != 1 {
				t.Errorf("after call %v of Stats it sends %v", call, got)
			}
		}
		c.mu.due = time.Time{}
	}
	close(s.end)
	longest = 0
	for call := 3.0; call <= 4; call++ {
		if got := sent(t, c); got["keys"] != call {
			t.Errorf("in call %v of Stats, none of which is to be spared, it sends %v", call, got)
		}
	}
}

// A hanging has an Err that does not return until it is told to.
type hanging struct{ end chan struct{} }

func (h *hanging) Stats() mmapfilter.Stats { return mmapfilter.Stats{State: "sealed"} }
func (h *hanging) Err() error {
	<-h.end
	return mmapfilter.ErrSuperseded
}

// TestErrHangs checks that a scrape does not wait for an Err that hangs.
func TestErrHangs(t *testing.T) {
	defer func(p time.Duration) { patience = p }(patience)
	h := &hanging{make(chan struct{})}
	c := NewFilterCollector(h, "a")
	patience = 0
	if got := sent(t, c); len(got) > 0 {
		t.Errorf("it sends %v", got)
	}
	close(h.end)
	patience = time.Hour
	mustSend(t, c, map[string]float64{"up": 1, "error": 1})
}

// TestUnknown checks that no metric of resident memory is sent if the system does not tell its size.
func TestUnknown(t *testing.T) {
	for _, m := range slices.Concat(ofFilter(mmapfilter.Stats{ResidentBytes: -1}, true), ofSet(sets.Stats{ResidentBytes: -1})) {
		if m.name == "resident_bytes" {
			t.Errorf("%+v", m)
		}
	}
}

// A failing is an io.ReaderAt that fails once it is down.
type failing struct {
	*bytes.Reader
	down bool
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.down {
		return 0, errors.New("no answer")
	}
	return f.Reader.ReadAt(p, off)
}

// TestNotSampled checks that a rate of 0 is sent for an empty filter, and no rate for a filter whose
// lines cannot be read.
func TestNotSampled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.mmf")
	built(t, path, 0)
	data, err := os.ReadFile(path)
	must(t, err)
	r := &failing{Reader: bytes.NewReader(data)}
	f, err := mmapfilter.OpenReaderAt(r, int64(len(data)), nil)
	must(t, err)
	defer f.Close()
	c := NewFilterCollector(f, "a")
	mustSend(t, c, map[string]float64{"error": 0, "false_positive_ratio": 0, "second_probe_ratio": 0})
	r.down = true
	mustSend(t, c, map[string]float64{"error": 1, "keys": 0, "false_positive_ratio": -1, "second_probe_ratio": -1})
}

// TestClosedMeanwhile checks that old Stats are not sent for a filter that has been closed since.
func TestClosedMeanwhile(t *testing.T) {
	f := built(t, filepath.Join(t.TempDir(), "a.mmf"), 1)
	c := NewFilterCollector(f, "a").(*collector)
	mustSend(t, c, map[string]float64{"up": 1})
	c.mu.due = time.Now().Add(time.Hour)
	must(t, f.Close())
	mustBeDown(t, c)
}

// TestBeside scrapes a filter while it is written to, grows, and is closed.
func TestBeside(t *testing.T) {
	f, err := mmapfilter.Create(filepath.Join(t.TempDir(), "a.mmf"), &mmapfilter.Options{Capacity: 1000, AutoGrow: true})
	must(t, err)
	defer f.Close()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(NewFilterCollector(f, "a"))
	var scrapes sync.WaitGroup
	closed := make(chan struct{})
	for range 2 {
		scrapes.Add(1)
		go func() {
			defer scrapes.Done()
			for end := false; !end; {
				select {
				case <-closed:
					end = true
				default:
				}
				families, err := r.Gather()
				if err != nil || len(families) == 0 || end && len(families) != 1 {
					t.Errorf("%d metrics, %v", len(families), err)
					return
				}
			}
		}()
	}
	for key := range keys(5_000) {
		must(t, f.Insert(key))
	}
	must(t, f.Rebuild(context.Background(), nil))
	must(t, f.Close())
	close(closed)
	scrapes.Wait()
}
