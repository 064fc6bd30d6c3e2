package mmapfilter

import (
	"runtime"
	"time"
	"unicode/utf8"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Layout says how slots are stored and where a key may live.
type Layout = layout.Kind

// The layouts. Auto chooses one, but never Compact; see [Options.Plan]. Blocked and
// Compact read one cache line in most lookups. Compact is smaller by about two bits a
// key at the same rate, and takes 1.4 to 1.7 times as long for a lookup, twice as long in
// the cache of the processor; it moves the fingerprints of a line at every change. Packed and SemiSorted
// are the tables of the paper, which read two lines, and are smaller than Blocked:
// SemiSorted by a bit a key more than Packed, for which it sorts four fingerprints at
// every change.
const (
	Auto       = layout.Auto
	Blocked    = layout.Blocked
	Compact    = layout.Compact
	Packed     = layout.Packed
	SemiSorted = layout.SemiSorted
)

// Defaults of [Options] and [OpenOptions].
const (
	DefaultFalsePositiveRate = 0.01
	DefaultMemoryBudget      = 256 << 20
	DefaultCommitInterval    = time.Second
	DefaultFollowInterval    = 100 * time.Millisecond

	// defaultSeed is that of every filter built without one, so that equal
	// keys give equal files on every machine.
	defaultSeed = 0x6d6d617066696c74
	// budgetPerWorker is for the buffers of a worker, which has a thousand: with fewer,
	// the partitions that it sorts would be larger than the budget.
	budgetPerWorker = 1 << 20
	minMemoryBudget = budgetPerWorker
)

// Options say what filter to make. The zero value, and nil, are the defaults.
// What changes the bytes of the file is stored in it.
type Options struct {
	// Capacity is how many keys the filter is sized for, at the false-positive
	// rate asked for. It takes more before [ErrFull], but none with which the
	// rate would be more than 1.5 times the one asked for, if one was. For Build,
	// 0 means: as many as the sequence has.
	Capacity uint64
	// FalsePositiveRate is the share of absent keys that may be answered
	// "maybe" when the filter holds Capacity keys: 0 < rate < 1; 0 means 0.01.
	FalsePositiveRate float64
	// Layout is Auto, or a layout to use whatever Auto would prefer.
	Layout Layout
	// FingerprintBits, if not 0, is the number f of bits a fingerprint, and
	// overrides FalsePositiveRate. In Packed and SemiSorted, a short one cannot
	// tell the keys of a large filter apart: it gets more space then, or is
	// refused.
	FingerprintBits int
	// BucketSize, if not 0, is the number b of slots a bucket.
	BucketSize int
	// Seed goes into the hash of every key. 0 means a fixed one for Build, and a
	// random one for Create.
	// Where strangers choose the keys, choose a seed they do not know.
	Seed uint64
	// Normalisation is a note of at most 256 bytes of UTF-8 on how the keys
	// were made from their source. It is kept in the file and not looked into.
	Normalisation string

	// LogBytes is the size of the log of a filter that is written to, see
	// [OpenOptions.LogBytes], for the filter that Create opens.
	LogBytes int64
	// CommitInterval is how long Create lets an operation wait to become
	// durable, see [OpenOptions.CommitInterval].
	CommitInterval time.Duration

	// Distinct makes Build store equal keys once. Otherwise each counts: n
	// copies take n slots, or a counted entry of the stash when their buckets
	// are full.
	Distinct bool
	// MemoryBudget is about how many bytes of hashes Build holds in memory; the
	// others go to a temporary file beside the filter. 0 means 256 MiB.
	MemoryBudget int64
	// Workers is how many goroutines Build uses, one for each MiB of the
	// MemoryBudget at most; 0 means GOMAXPROCS. The file does not depend on it.
	Workers int
	// Progress, if not nil, is called now and then by Build, from one
	// goroutine at a time, with what it is doing and how far it is. total is 0
	// while it is not known.
	Progress func(stage string, done, total uint64)
}

// Validate reports what is out of range as an [*OptionError].
func (o *Options) Validate() error {
	if o == nil {
		return nil
	}
	if r := o.FalsePositiveRate; r != 0 && !(r > 0 && r < 1) {
		return optionError("FalsePositiveRate", "%v is not between 0 and 1", r)
	}
	if o.Layout != Auto && layout.LegalParams(o.Layout) == nil {
		return optionError("Layout", "%s is not a layout of this version", o.Layout)
	}
	if o.MemoryBudget < 0 || o.MemoryBudget > 0 && o.MemoryBudget < minMemoryBudget {
		return optionError("MemoryBudget", "%d bytes is less than %d", o.MemoryBudget, minMemoryBudget)
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		return optionError("Workers", "%d is not between 0 and %d", o.Workers, maxWorkers)
	}
	if n := len(o.Normalisation); n > layout.NormalisationBytes {
		return optionError("Normalisation", "%d bytes is more than %d", n, layout.NormalisationBytes)
	}
	if !utf8.ValidString(o.Normalisation) {
		return optionError("Normalisation", "not UTF-8")
	}
	for i := range len(o.Normalisation) {
		if o.Normalisation[i] == 0 {
			return optionError("Normalisation", "a zero byte at %d", i)
		}
	}
	if err := validateLog(o.LogBytes); err != nil {
		return err
	}
	_, err := o.candidates(o.Capacity)
	return err
}

func validateLog(bytes int64) error {
	if bytes != 0 && (bytes < wal.MinBytes || bytes > wal.MaxBytes || bytes%wal.PageBytes != 0) {
		return optionError("LogBytes", "%d is not a multiple of %d between %d and %d", bytes, wal.PageBytes, wal.MinBytes, int64(wal.MaxBytes))
	}
	return nil
}

// maxWorkers bounds the keys that are on their way to workers.
const maxWorkers = 1024

// withDefaults gives a copy of o, or of the defaults where o is nil, with the
// fields set that have a default.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.FalsePositiveRate == 0 {
		d.FalsePositiveRate = DefaultFalsePositiveRate
	}
	if d.Seed == 0 {
		d.Seed = defaultSeed
	}
	if d.MemoryBudget == 0 {
		d.MemoryBudget = DefaultMemoryBudget
	}
	if d.Workers == 0 {
		d.Workers = runtime.GOMAXPROCS(0)
	}
	d.Workers = int(min(int64(d.Workers), max(d.MemoryBudget/budgetPerWorker, 1)))
	if d.Progress == nil {
		d.Progress = func(string, uint64, uint64) {}
	}
	return d
}

// A Residency says where the bytes of an open filter are to be, and when they
// get there.
type Residency uint8

const (
	// ResidencyDefault maps the file and leaves it to the system what to read
	// ahead. A file that is not sealed is mapped as with ResidencyRandom.
	ResidencyDefault Residency = iota
	// ResidencyRandom maps the file and turns off reading ahead: a lookup of
	// a key whose page is not in memory reads one page.
	ResidencyRandom
	// ResidencyWillNeed maps the file and reads all of it into memory in the
	// background. Close ends that.
	ResidencyWillNeed
	// ResidencyPopulate maps the file and has read all of it into memory when
	// the open returns.
	ResidencyPopulate
	// ResidencyLock does that and locks it there. It needs the right to lock
	// that much memory (ulimit -l on Unix).
	ResidencyLock
	// ResidencyHeap reads the file into memory of this process alone. The
	// filter is a snapshot and keeps nothing of the file open.
	ResidencyHeap
)

var residencyNames = [...]string{"default", "random", "willneed", "populate", "lock", "heap"}

func (r Residency) String() string {
	if int(r) < len(residencyNames) {
		return residencyNames[r]
	}
	return "unknown"
}

// OpenOptions say how to open a filter. The zero value, and nil, are the
// defaults. None of it changes the file.
type OpenOptions struct {
	// Residency is where the bytes of the filter are to be.
	Residency Residency
	// Checked makes a lookup that faults answer "maybe" and keep the error for
	// [Filter.Err]; otherwise a fault ends the process. A fault is a file that
	// someone cut short under the mapping, or a disk that failed. (What is left
	// of a page that was cut in two reads as zeros, and nothing tells: keys whose
	// line was there are answered "no".) It costs
	// about 8 ns a lookup in the cache. Out of it, a lookup takes two to three times
	// as long, since the processor does not begin the next one meanwhile. In
	// a batch it costs next to nothing.
	Checked bool
	// CommitInterval is how long an operation may wait to become durable when
	// nobody calls [Filter.Sync]; 0 means one second. Below 0 there is no such
	// limit.
	CommitInterval time.Duration
	// LogBytes is the size of the log, the file NAME.stash that is beside the
	// filter while it is written to: a multiple of 4,096, at least 65,536. 0
	// means that it begins with 256 KiB and grows up to a sixteenth of the
	// filter, but at least to 16 MiB and at most to 512 MiB. A checkpoint, which writes most of the filter,
	// is due when it is full.
	LogBytes int64
	// NoRecover makes [OpenReadOnly] and [Follow] write nothing, in any case: a file
	// whose writer died is [ErrNeedsRecovery] then.
	NoRecover bool
	// ServeUnrecovered makes them serve such a file all the same, where it cannot be
	// recovered or is not to be. What it lacks is not known, so every answer is "maybe",
	// Count is its bound, and Err is ErrNeedsRecovery. A [Follower] goes on with the
	// file when someone has recovered it; a Filter has to be opened again.
	ServeUnrecovered bool
	// WaitForFile makes [Follow] wait for a file that is not there. Until one is,
	// every answer is "maybe", and [Follower.Err] is fs.ErrNotExist.
	WaitForFile bool
	// FollowInterval is how often [Follow] looks for another file under the
	// path; 0 means 100 ms. Below 0 only [Follower.Refresh] looks.
	FollowInterval time.Duration
	// Progress, if not nil, is called as ResidencyPopulate, ResidencyLock and
	// ResidencyHeap go on, with the bytes read so far and in all.
	Progress func(done, total int64)
}

// Validate reports what is out of range as an [*OptionError].
func (o *OpenOptions) Validate() error {
	if o == nil {
		return nil
	}
	if int(o.Residency) >= len(residencyNames) {
		return optionError("Residency", "%d is unknown", o.Residency)
	}
	return validateLog(o.LogBytes)
}

// withDefaults gives o, or where it is nil the defaults.
func (o *OpenOptions) withDefaults() *OpenOptions {
	if o == nil {
		return new(OpenOptions)
	}
	return o
}
