package mmapfilter

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Stats describe a filter. For a closed filter only Len, Capacity, Swaps and State, "closed", are
// set. The JSON form leaves out the seed, which may be a secret (see [Options.Seed]).
type Stats struct {
	Len uint64 `json:"keys"` // items, counting equal keys; see Filter.Len

	// Plan describes the file as it was created. BitsPerKey and SecondProbeRate of Stats itself
	// describe the file now.
	Plan

	BitsPerKey      float64 `json:"bits_per_key"`      // bits of the whole file / Len; 0 if Len is 0
	EstimatedRate   float64 `json:"estimated_rate"`    // rate now, from a sample of lines; 0 if a reader fails
	SecondProbeRate float64 `json:"second_probe_rate"` // share of lookups of absent keys that read a second line, from the same sample
	StashLen        int     `json:"stash_len"`         // stash entries in use, of 768
	ResidentBytes   int64   `json:"resident_bytes"`    // bytes of the mapped file in the page cache, or of the copy in the heap; -1 if unknown
	Generation      uint64  `json:"generation"`
	State           string  `json:"state"`             // "clean", "live" or "sealed"; "closed" after Close; "waiting" with OpenOptions.WaitForFile
	WriterAlive     bool    `json:"writer_alive"`      // this or another process has the file open for writing
	Warning         string  `json:"warning,omitempty"` // what the file system cannot promise or what could not be done, one a line

	// The following are 0 unless the filter is open for writing, except DurableSeq and the fields
	// about hashes and growth. If another process writes to the file, LeftOut and Waiting are as of
	// the last checkpoint.
	Pending      int           `json:"pending"`       // operations not yet committed
	LogBytes     int64         `json:"log_bytes"`     // size of the log, NAME.stash; 0 if there is none
	DurableSeq   uint64        `json:"user_seq"`      // see Filter.DurableSeq
	Commits      uint64        `json:"commits"`       // since the filter was opened
	Checkpoints  uint64        `json:"checkpoints"`   // since the filter was opened
	Rebuilds     uint64        `json:"rebuilds"`      // since the filter was opened
	KeepsHashes  bool          `json:"keeps_hashes"`  // see Options.KeepHashes
	LeftOut      uint64        `json:"left_out"`      // InsertUniques in the history since the last rebuild that left their key out; 0 without KeepsHashes
	Waiting      uint64        `json:"waiting"`       // deletes that wait for the next rebuild; see Filter.Delete
	Grows        bool          `json:"grows"`         // see Options.AutoGrow
	KeepChanges  time.Duration `json:"keep_changes"`  // see Options.KeepChanges, in nanoseconds
	PastBytes    int64         `json:"past_bytes"`    // size of the history that KeepChanges keeps: of NAME.past and older files
	ExpireAfter  time.Duration `json:"expire_after"`  // see Options.ExpireAfter, in nanoseconds
	Expired      uint64        `json:"expired"`       // items that have left by themselves or by ExpireBefore, since the filter was opened
	ExpireErr    string        `json:"expire_err"`    // why keys do not leave in time, or ""
	GrowthErr    string        `json:"growth_err"`    // why the filter cannot be rebuilt from its hashes although it should keep them, or ""
	RebuildStall time.Duration `json:"rebuild_stall"` // how long operations waited at the end of the last rebuild, in nanoseconds
	LongestStall time.Duration `json:"longest_stall"` // longest time that an operation waited for the first log, for room in the log, or for the disk to keep pace, in nanoseconds

	Recovery Recovery `json:"-"` // what opening the file for writing found and did

	Shards int `json:"shards"` // of the set that the file is a shard of; 0 if it is none
	Shard  int `json:"shard"`  // its number in the set, from 0

	Swaps uint64 `json:"swaps"` // how often a Follower has switched to another file

	UUID          string `json:"uuid"` // 32 hex digits
	Seed          uint64 `json:"-"`
	Normalisation string `json:"normalisation"` // see Options.Normalisation
	Kernel        string `json:"kernel"`        // instruction set for batches of lookups: "avx512", "avx2" or "go"
	Residency     string `json:"residency"`     // "heap" also of OpenBytes, "reader" of OpenReaderAt
}

// sampledLines is how many lines Stats samples: the share of second lines then has a
// standard error of about 0.005.
const sampledLines = 1024

// sampledRun is how many sampled lines follow one another in a filter from a reader, so that one
// read returns them all.
const sampledRun = 64

// Stats describes the filter. It samples up to 1,024 lines across the file. This takes a while if the
// file is not in memory, and 16 reads of an io.ReaderAt. A fault in one of these lines leaves the
// estimates at zero. On Linux it also asks the system which pages of the file are in memory.
func (f *Filter) Stats() Stats {
	o := f.open.Load()
	switch {
	case f.waiting && !f.closed.Load():
		return Stats{State: "waiting"}
	case o == nil:
		return Stats{Len: f.Len(), Plan: Plan{Capacity: f.Cap()}, State: "closed"}
	}
	defer runtime.KeepAlive(o)
	sb := o.newest()
	if o.work != nil {
		sb = o.work.Writer.Superblock()
	}
	uuid := sb.UUID()
	s := Stats{
		Len:           sb.Length(),
		Plan:          planOf(o.geometry, sb.Capacity(), sb.DesignLoad(), sb.TargetRate()),
		Generation:    sb.Generation(),
		State:         sb.State().String(),
		Shards:        int(sb.Shard().Count),
		Shard:         int(sb.Shard().Number),
		UUID:          hex.EncodeToString(uuid[:]),
		Seed:          sb.Seed(),
		Normalisation: sb.Normalisation(),
		Kernel:        layout.KernelOf(o.looks),
		Residency:     o.residency.String(),
		ResidentBytes: -1,
		Warning:       o.warning,
	}
	s.FileBytes = o.fileBytes
	s.DurableSeq = sb.UserSeq()
	s.LeftOut, s.Waiting = sb.Kept().LeftOut, sb.Kept().Waiting
	s.KeepsHashes, s.Grows, s.ExpireAfter = sb.KeepsHashes(), sb.Grows(), expireAfterOf(sb)
	s.KeepChanges, s.PastBytes = o.past(sb)
	s.Expired = f.growth.expiry.deleted.Load()
	if err := f.growth.expiry.failed.Load(); err != nil {
		s.ExpireErr = (*err).Error()
	}
	if err := f.growthErr(o); err != nil {
		s.GrowthErr = err.Error()
	}
	if o.work != nil {
		o.writerStats(&s)
	} else {
		s.WriterAlive, _ = o.writer()
	}
	if s.Len > 0 {
		s.BitsPerKey = float64(s.FileBytes) * 8 / float64(s.Len)
	}
	if o.lines != nil {
		s.Residency = "reader"
	}
	sample := func() {
		s.EstimatedRate, s.SecondProbeRate = o.sampleRates()
		if o.work == nil {
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
	osfile.Catch(o.data, sample)
	return s
}

// past returns how long the history from before a rebuild is kept, and how many bytes it takes.
func (o *openFile) past(sb *layout.Superblock) (kept time.Duration, bytes int64) {
	if sb.KeepsHashes() && o.path != "" {
		bytes = osfile.PastBytes(o.path)
	}
	return time.Duration(min(sb.KeepChanges(), math.MaxInt64)), bytes
}

// writerStats fills in the fields that only the writer knows.
func (o *openFile) writerStats(s *Stats) {
	w := o.work.Writer
	state := w.State()
	s.StashLen, s.Pending, s.LogBytes = state.StashLen, state.Pending, state.LogBytes
	s.Rebuilds, s.RebuildStall = o.rebuilds, state.RebuildStall
	s.LeftOut, s.Waiting = state.History.LeftOut, state.History.Waiting
	s.Commits, s.Checkpoints, s.LongestStall = state.Commits, state.Checkpoints, state.LongestStall
	if state.Cramped != nil {
		s.Warning = joinWarnings(s.Warning, fmt.Sprintf("the log keeps its size: %v", state.Cramped))
	}
	s.Len, s.Recovery = w.Len(), o.found
	s.DurableSeq, _ = w.Durable()
	s.WriterAlive = w.Err() == nil
}

// sampleRates estimates the false-positive rate and the share of second lines, from lines spread evenly
// over the file or, in a filter from a reader, from runs of lines.
func (o *openFile) sampleRates() (rate, second float64) {
	n, run := min(o.geometry.Lines, sampledLines), uint64(1)
	if o.lines != nil {
		run = sampledRun
	}
	numbers, at := make([]uint64, n), o.view.At
	for i := range n {
		numbers[i] = i/run*run*o.geometry.Lines/n + i%run
	}
	if o.lines != nil {
		f := o.lines.fetch(o.lines.atOnce)
		defer o.lines.put(f)
		if at = f.at; !f.have(numbers) {
			return 0, 0
		}
	}
	for _, line := range numbers {
		l := layout.LineFrom(o.table, at, line)
		met := o.table.Probe(&l, line)
		rate += met.Rate / float64(n)
		second += met.Second / float64(n)
	}
	return rate, second
}

// joinWarnings joins two warnings, either of which may be empty.
func joinWarnings(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// beforeAsking lets a test close the file of a writer before the filter asks whether the file has a
// writer.
var beforeAsking = func() {}

// writer reports whether a process has the file open for writing and, if not, whether its writer has
// died. It reports neither if the file is no longer at the path.
func (o *openFile) writer() (alive, died bool) {
	if !o.named() {
		return false, false // the path may be a pipe, and opening it would wait
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
		return false, false // on this system, asking would take the lock for a moment
	}
	alive, err = osfile.Locked(f)
	if err != nil || alive || before.State() != layout.Live {
		return alive, false
	}
	// A writer that closed the file in between stored a superblock that is not live before it
	// released the lock. A writer that opened the file stored another superblock too, or is about
	// to recover the file. A writer that put another file in its place did so before it released
	// the lock.
	return false, *o.newest() == *before && o.named()
}

// named reports whether the file is the one at the path.
func (o *openFile) named() bool {
	if o.info == nil {
		return false
	}
	info, err := os.Stat(o.path)
	return err == nil && os.SameFile(o.info, info)
}
