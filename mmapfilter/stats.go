package mmapfilter

import (
	"encoding/hex"
	"encoding/json"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Stats describe an open filter. After [Filter.Close] all fields are zero.
type Stats struct {
	Len, Cap        uint64 // keys in it, keys it was sized for
	Layout          Layout
	FingerprintBits int     // f
	BucketSize      int     // b
	Lines           uint64  // of 64 bytes in Blocked and Compact; buckets in Packed and SemiSorted
	Slots           uint64  // places for keys
	Load            float64 // Len over Slots
	DesignLoad      float64 // Cap over Slots, as planned
	TargetRate      float64 // the false-positive rate that was asked for
	BitsPerKey      float64 // of the whole file, for the keys in it
	EstimatedRate   float64 // the false-positive rate now, from a sample of lines
	SecondProbeRate float64 // share of absent keys whose lookup reads a second line, from the same sample
	StashLen        int     // stash entries in use, of 768
	FileBytes       int64
	ResidentBytes   int64 // of the mapped file in the page cache, or of the heap; -1 where the system does not say
	Generation      uint64
	State           string // "clean", "live" or "sealed"

	// Of a filter that is open for writing.
	Pending      int           // operations that are not durable
	LogBytes     int64         // of the log, NAME.stash; 0 where there is none
	DurableSeq   uint64        // see Filter.DurableSeq; kept in the file
	Commits      uint64        // since it was opened
	Checkpoints  uint64        // likewise
	LongestStall time.Duration // for which a checkpoint has kept operations waiting
	Warning      string        // what the file system cannot promise, if known

	UUID          string // 32 hex digits
	Seed          uint64
	Normalisation string // as in Options
	Kernel        string // what answers batches of lookups: "avx512", "avx2", "neon" or "go"
	Residency     string
}

// sampledLines is how many lines Stats looks at: the share of second probes
// has a standard error of about 0.005 with it.
const sampledLines = 1024

// Stats describes the filter. It reads up to 1,024 lines from all over the
// file, so it can take a while where the file is not in memory; a fault in
// there leaves the estimates at zero. On Linux it asks the system about every
// page of the file.
func (f *Filter) Stats() Stats {
	o := f.open.Load()
	if o == nil {
		return Stats{}
	}
	defer runtime.KeepAlive(o)
	sb := o.newest()
	if o.live != nil {
		sb = o.live.superblock()
	}
	uuid := sb.UUID()
	s := Stats{
		Len: sb.Length(), Cap: sb.Capacity(),
		Layout:          o.geometry.Kind,
		FingerprintBits: o.geometry.Params.FingerprintBits,
		BucketSize:      o.geometry.Params.BucketSize,
		Lines:           o.geometry.Lines,
		Slots:           o.geometry.Slots(),
		DesignLoad:      sb.DesignLoad(),
		TargetRate:      sb.TargetRate(),
		FileBytes:       o.fileBytes,
		Generation:      sb.Generation(),
		State:           sb.State().String(),
		UUID:            hex.EncodeToString(uuid[:]),
		Seed:            sb.Seed(),
		Normalisation:   sb.Normalisation(),
		Kernel:          o.table.Kernel(),
		Residency:       o.residency.String(),
		ResidentBytes:   -1,
	}
	s.DurableSeq = sb.UserSeq()
	if o.live != nil {
		o.live.stats(&s)
	}
	s.Load = float64(s.Len) / float64(s.Slots)
	if s.Len > 0 {
		s.BitsPerKey = float64(s.FileBytes) * 8 / float64(s.Len)
	}
	sample := func() {
		s.EstimatedRate, s.SecondProbeRate = o.sampleRates(s.Load)
		if o.live == nil {
			s.StashLen = layout.StashLen(o.view.Stash)
		}
	}
	if o.mapping == nil {
		s.ResidentBytes = int64(len(o.view.Stash)+len(o.view.Region))*8 + layout.RuntimeBytes
		sample()
		return s
	}
	if n, err := o.mapping.Resident(); err == nil {
		s.ResidentBytes = n
	}
	recovery.Guard(o.mapping.Data, sample)
	return s
}

// sampleRates averages what lines spread evenly over the file say of the
// false-positive rate and of second probes. What they say of items that went away is
// too little where Build has chosen those that share overflow bits, and what is
// predicted for the load is too little where items were deleted: the larger one counts.
func (o *openFile) sampleRates(load float64) (rate, second float64) {
	n := min(o.geometry.Lines, sampledLines)
	var mean layout.Overflow
	var l layout.Line
	for i := range n {
		line := i * o.geometry.Lines / n
		o.table.Load(o.view.Region, line, &l)
		met := o.table.Probe(&l, line)
		mean.Match += met.Match / float64(n)
		mean.Second += met.Second / float64(n)
		mean.Away += met.Away / float64(n)
	}
	mean.Away = max(mean.Away, layout.Predict(o.geometry.Kind, o.geometry.Params, load).Away)
	return mean.Rate(), mean.Second
}

// A Var shows [Stats], as they are each time it is asked, as JSON. It is what
// expvar.Publish takes:
//
//	expvar.Publish("seen", f.Var())
//
// The seed of the hash is left out: it may be a secret, see [Options.Seed]. (This
// package does not import expvar, which would bring net/http along.)
type Var struct{ stats func() Stats }

// Var gives the Var of a filter.
func (f *Filter) Var() Var { return Var{f.Stats} }

func (v Var) String() string {
	text, err := json.Marshal(struct {
		Stats
		Seed any `json:",omitempty"` // in place of that of Stats
	}{Stats: v.stats()})
	if err != nil { // a number that JSON does not have; Stats gives none
		return "null"
	}
	return string(text)
}
