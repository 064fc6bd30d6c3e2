package mmapfilter

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Stats describe a filter. Of one that is closed they have Len, Cap and the State "closed",
// and nothing else. As JSON, they leave out the seed, which may be a secret: see
// [Options.Seed].
type Stats struct {
	Len             uint64  `json:"keys"`     // in it, equal ones counted each; see Filter.Len
	Cap             uint64  `json:"capacity"` // keys it was sized for
	Layout          Layout  `json:"layout"`
	FingerprintBits int     `json:"fingerprint_bits"`  // f
	BucketSize      int     `json:"bucket_size"`       // b
	Lines           uint64  `json:"lines"`             // of 64 bytes in Blocked and Compact; buckets in Packed and SemiSorted
	Slots           uint64  `json:"slots"`             // places for keys
	Fill            float64 `json:"fill"`              // Len over Cap; 0 where Cap is 0
	Load            float64 `json:"load"`              // Len over Slots
	DesignLoad      float64 `json:"design_load"`       // Cap over Slots, as planned
	TargetRate      float64 `json:"target_rate"`       // the false-positive rate that was asked for
	BitsPerKey      float64 `json:"bits_per_key"`      // of the whole file, for the keys in it
	EstimatedRate   float64 `json:"estimated_rate"`    // the false-positive rate now, from a sample of lines
	SecondProbeRate float64 `json:"second_probe_rate"` // share of absent keys whose lookup reads a second line, from the same sample
	StashLen        int     `json:"stash_len"`         // stash entries in use, of 768
	FileBytes       int64   `json:"file_bytes"`
	ResidentBytes   int64   `json:"resident_bytes"` // of the mapped file in the page cache, or of the heap; -1 where the system does not say
	Generation      uint64  `json:"generation"`
	State           string  `json:"state"`             // "clean", "live" or "sealed"; "closed"; "waiting", see OpenOptions.WaitForFile
	WriterAlive     bool    `json:"writer_alive"`      // a process has the file open for writing, this one or another
	Warning         string  `json:"warning,omitempty"` // what the file system cannot promise, or what could not be done as usual; lines

	// Of a filter that is open for writing.
	Pending      int           `json:"pending"`       // operations that are not durable
	LogBytes     int64         `json:"log_bytes"`     // of the log, NAME.stash; 0 where there is none
	DurableSeq   uint64        `json:"user_seq"`      // see Filter.DurableSeq; kept in the file
	Commits      uint64        `json:"commits"`       // since it was opened
	Checkpoints  uint64        `json:"checkpoints"`   // likewise
	LongestStall time.Duration `json:"longest_stall"` // for which a checkpoint has kept operations waiting, in nanoseconds

	UUID          string `json:"uuid"` // 32 hex digits
	Seed          uint64 `json:"-"`
	Normalisation string `json:"normalisation"` // as in Options
	Kernel        string `json:"kernel"`        // what answers batches of lookups: "avx512", "avx2", "neon" or "go"
	Residency     string `json:"residency"`
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
	switch {
	case f.waiting && !f.closed.Load():
		return Stats{State: "waiting"}
	case o == nil:
		return Stats{Len: f.Len(), Cap: f.Cap(), State: "closed"}
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
		Warning:         o.warning,
	}
	s.DurableSeq = sb.UserSeq()
	if o.live != nil {
		o.live.stats(&s)
	} else {
		s.WriterAlive, _ = o.writer()
	}
	s.Load = float64(s.Len) / float64(s.Slots)
	if s.Cap > 0 {
		s.Fill = float64(s.Len) / float64(s.Cap)
	}
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
// (This package does not import expvar, which would bring net/http along.)
type Var struct{ stats func() Stats }

// Var gives the Var of a filter.
func (f *Filter) Var() Var { return Var{f.Stats} }

func (v Var) String() string {
	text, err := json.Marshal(v.stats())
	if err != nil { // a number that JSON does not have; Stats gives none
		return "null"
	}
	return string(text)
}

// joinWarnings puts two warnings together, either of which may be none.
func joinWarnings(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// beforeAsking is where a test has a writer close the file.
var beforeAsking = func() {}

// writer finds out whether a process has the file open for writing, and whether one
// that had it died. Neither is known of a file that is not under its path any more.
func (o *openFile) writer() (alive, died bool) {
	if info, err := os.Stat(o.path); err != nil || o.info == nil || !os.SameFile(o.info, info) {
		return false, false // and may be a pipe, which opening would wait for
	}
	f, err := os.Open(o.path)
	if err != nil {
		return false, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !os.SameFile(o.info, info) {
		return false, false // replaced in between
	}
	before := o.newest()
	beforeAsking()
	if runtime.GOOS != "linux" && before.State() != layout.Live {
		return false, false // asking takes the lock for a moment there
	}
	alive, err = recovery.Locked(f)
	if err != nil || alive || before.State() != layout.Live {
		return alive, false
	}
	// A writer that closed the file in between has stored a superblock that is not live
	// before it let go of the lock; one that opened it has stored another one too, or is
	// about to recover the file.
	return false, *o.newest() == *before
}
