package filterprom

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/prometheus/client_golang/prometheus"
)

// A Filter is a [*mmapfilter.Filter] or a [*mmapfilter.Follower].
type Filter interface {
	Stats() mmapfilter.Stats
	Err() error
}

// NewFilterCollector returns a collector of a filter, with the label name. Its metrics begin with
// mmapfilter_filter_.
func NewFilterCollector(f Filter, name string) prometheus.Collector {
	writes := false
	if w, ok := f.(interface{ InsertBatch([][]byte) (int, error) }); ok { // a follower has no such method
		_, err := w.InsertBatch(nil) // inserts nothing, and fails if the filter is open for reading only
		writes = err == nil
	}
	read := func() sample {
		s := f.Stats()
		metrics := ofFilter(s, writes)
		if s.EstimatedRate == 0 && s.SecondProbeRate == 0 && f.Err() != nil { // the lines could not be read
			metrics = slices.DeleteFunc(metrics, metric.sampled)
		}
		return sample{up: s.State != "waiting", metrics: metrics}
	}
	return newCollector("filter", name, read, f.Err, ofFilter(mmapfilter.Stats{}, writes))
}

// NewSetCollector returns a collector of a set, with the label name. Its metrics begin with
// mmapfilter_set_.
func NewSetCollector(s *sets.Set, name string) prometheus.Collector {
	read := func() sample {
		stats := s.Stats()
		return sample{up: stats.State == "open", metrics: ofSet(stats)}
	}
	return newCollector("set", name, read, s.Err, ofSet(sets.Stats{Opened: 1}))
}

// NewGuardCollector returns a collector of a guard, with the label name. Its metrics begin with
// mmapfilter_guard_. stats is the method Stats of a [*guard.Guard], or GuardStats of a guarded store.
func NewGuardCollector(stats func() guard.Stats, name string) prometheus.Collector {
	read := func() sample {
		s := stats()
		return sample{up: s.State != "closed", metrics: ofGuard(s)}
	}
	return newCollector("guard", name, read, nil, ofGuard(guard.Stats{}))
}

// NewReplicaCollector returns a collector of how far a replica is, with the label name. Its metrics
// begin with mmapfilter_replica_.
func NewReplicaCollector(r *replica.Replica, name string) prometheus.Collector {
	read := func() sample { return sample{up: true, metrics: ofReplica(r.Stats())} }
	return newCollector("replica", name, read, r.Err, ofReplica(replica.Stats{}))
}

// A sample is the result of a call of Stats.
type sample struct {
	up      bool
	metrics []metric
	err     error // of the last call of Err
}

// A collector sends the metrics of a filter, a set, a guard or a replica.
type collector struct {
	read func() sample
	err  func() error                // the method Err, or nil if there is none
	desc map[string]*prometheus.Desc // by name of the metric

	mu struct {
		sync.Mutex
		last    *sample       // nil before the first sample
		due     time.Time     // when read is called next
		reading chan struct{} // closed at the end of the call of readNow under way; nil if there is none
	}
}

// newCollector returns a collector. like has the metrics that it may send; their values do not matter.
func newCollector(kind, name string, read func() sample, err func() error, like []metric) *collector {
	c := &collector{read: read, err: err, desc: map[string]*prometheus.Desc{}}
	like = append(like, gauge("up", "Whether the "+kind+" is open.", 0))
	if err != nil {
		like = append(like, gauge("error", "Whether Err returns an error.", 0))
	}
	for _, m := range like {
		var labels []string
		if m.texts != nil {
			labels = []string{m.name}
		}
		c.desc[m.name] = prometheus.NewDesc("mmapfilter_"+kind+"_"+m.name, m.help, labels, prometheus.Labels{"name": name})
	}
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.desc {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.latest()
	if s == nil {
		return
	}
	up := s.up
	var metrics []metric
	if c.err != nil {
		up = up && !errors.Is(s.err, mmapfilter.ErrClosed) // the metrics may be older than Close
		metrics = append(metrics, gauge("error", "", number(s.err != nil)))
	}
	c.send(to, gauge("up", "", number(up)))
	if up {
		c.send(to, append(metrics, s.metrics...)...)
	}
}

func (c *collector) send(to chan<- prometheus.Metric, metrics ...metric) {
	for _, m := range metrics {
		to <- prometheus.MustNewConstMetric(c.desc[m.name], m.kind, m.value, m.texts...)
	}
}

// These are variables for tests.
var (
	patience               = time.Second // how long a scrape waits for Stats
	rest     time.Duration = 100         // the pause after a call of Stats is this many times as long as the call took
	longest                = time.Minute // the longest pause
)

// latest returns the latest sample, or nil if there is none yet. First it starts readNow, and waits
// for its end, but no longer than patience. If readNow takes longer, a later scrape gets its result.
func (c *collector) latest() *sample {
	c.mu.Lock()
	if due := !time.Now().Before(c.mu.due); c.mu.reading == nil && (due || c.err != nil) {
		c.mu.reading = make(chan struct{})
		go c.readNow(c.mu.last, due)
	}
	reading := c.mu.reading
	c.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-time.After(patience):
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.last
}

// readNow calls Stats, if a new sample is due, and then Err. Both may read from a disk or a
// network.
func (c *collector) readNow(last *sample, due bool) {
	var s sample
	var next time.Time
	if due {
		begin := time.Now()
		s = c.read()
		next = time.Now().Add(min(rest*time.Since(begin), longest))
	} else {
		s = *last
	}
	if c.err != nil {
		s.err = c.err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.last = &s
	if due {
		c.mu.due = next
	}
	close(c.mu.reading)
	c.mu.reading = nil
}
