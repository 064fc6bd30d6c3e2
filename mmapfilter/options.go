package mmapfilter

import (
	"cmp"
	"io/fs"
	"math"
	"runtime"
	"time"
	"unicode/utf8"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all" // every layout that a file may have
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
)

// DefaultSeed is the seed of every filter built without one, so that equal keys give equal files on
// every machine.
const DefaultSeed = 0x6d6d617066696c74

// The defaults of the other fields of [Options] and [OpenOptions].
const (
	defaultRate           = 0.01
	defaultMemoryBudget   = 256 << 20
	defaultCommitInterval = time.Second
	defaultReadSize       = 4096
	maxReadSize           = 1 << 30

	// budgetPerWorker has room for a thousand buffers, one per partition. With fewer partitions, the
	// partition that a worker sorts would exceed the budget.
	budgetPerWorker = 1 << 20
	minMemoryBudget = budgetPerWorker
)

// Options describe the filter to make. A nil *Options and the zero value mean the defaults. The
// file stores everything needed to read it.
type Options struct {
	// Capacity is the number of keys that the filter is sized for at the requested rate. Inserts beyond
	// it succeed until [ErrFull], which comes at the latest when the rate would exceed 1.5 times the
	// requested rate, if a rate was requested. Create requires a Capacity. In Build, 0 means the number
	// of keys in the sequence.
	Capacity uint64
	// FalsePositiveRate, between 0 and 1, is the largest acceptable share of absent keys for which
	// lookups answer "maybe" when the filter holds Capacity keys. 0 means 0.01.
	FalsePositiveRate float64
	// Layout is the layout to use. Leave it layout.Auto, the zero value, which chooses
	// layout.Compact. Compact allows all rates from more than 10 % down to 1 in 100 million. However
	// many keys are deleted and inserted, neither its rate nor the number of lines that a lookup reads
	// rises. layout.Packed and layout.SemiSorted are the tables of the paper, for comparison with it. In
	// these, every lookup of an absent key reads two buckets. SemiSorted takes one bit less per key than
	// Packed, but every change sorts four fingerprints.
	Layout layout.Kind
	// FingerprintBits, if not 0, is the number f of bits in a fingerprint of Packed or SemiSorted and
	// overrides FalsePositiveRate. If f is too small to tell the keys of a large filter apart, the
	// filter becomes larger, or f is refused. Compact refuses FingerprintBits: its number of
	// fingerprints follows from the rate.
	FingerprintBits int
	// BucketSize, if not 0, is the number b of slots in a bucket of Packed or SemiSorted.
	BucketSize int
	// Seed is the seed of the hash. 0 means a fixed seed in Build and a random one in
	// Create. If untrusted parties choose the keys, use a seed they do not know.
	Seed uint64
	// Normalisation is a note on how the keys were made from their source: at most 256 bytes of
	// UTF-8 without zero bytes. The file stores it; the package does not interpret it.
	Normalisation string
	// AnyNormalisation allows [Merge] inputs with different notes. Set it if you know that the keys
	// were made in the same way although the notes differ.
	AnyNormalisation bool

	// Mode is the permission bits of the file. The other files of the filter (its log, NAME.hashes,
	// temporary files) get no other bits. As with os.OpenFile, the umask takes bits away. 0 means 0666.
	// A file that replaces another gets the bits of the old file, without the bits that Mode lacks. A
	// rebuild and [Repair] keep the bits of the file. Mode must include 0600. Windows knows only the bit
	// 0200, which allows writing; there the directory decides who may read.
	Mode fs.FileMode

	// KeepHashes keeps the history of the filter, a hash for each insert and delete, in the file
	// NAME.hashes beside it: 8 to 9 bytes on disk for each operation. From these hashes the
	// filter can be rebuilt without its keys (K7): see [Filter.Rebuild], [Filter.ExpireBefore],
	// [Merge] and [Repair]. Lookups do not need the hashes.
	KeepHashes bool
	// AutoGrow, which implies KeepHashes, makes a filter that is open for writing grow by itself. When
	// its items reach 90 % of its capacity, it is rebuilt with twice the capacity, while operations go
	// on. An insert that finds no room meanwhile waits. A filter that has held an eighth of its capacity
	// is rebuilt smaller when a delete leaves fewer items than that. When the history gets long, or many
	// deletes wait (see [Filter.Delete]), the filter is rebuilt at the same size. If the filter
	// cannot grow, [Stats.GrowthErr] says why.
	AutoGrow bool
	// KeepChanges, which implies KeepHashes, is how long after a rebuild [Filter.Changes] can begin at a
	// position from before the rebuild. For this time, NAME.past and older files beside it keep the
	// history from before the rebuild. They are as large as NAME.hashes was then ([Stats.PastBytes]).
	// With 0, a rebuild makes all earlier positions unusable. [Merge], [Repair] and [Build] to the path
	// of the filter make them unusable whatever KeepChanges is.
	KeepChanges time.Duration

	// ExpireAfter, which implies KeepHashes, is the age at which keys leave by themselves, while the
	// filter is open for writing: never sooner, and at most 5 % later. The age of a key is the time
	// since its first insert: an InsertUnique of a key that is in the filter does not make it younger,
	// and of several copies the oldest leaves first. The shortest ExpireAfter is ten seconds; below two
	// minutes, keys leave up to three seconds late. 0 means that keys stay. [OpenOptions.ExpireAfter]
	// changes it; [Filter.Expire] has more.
	ExpireAfter time.Duration

	// Overwrite lets Create, Build and Merge destroy files that a new filter must not replace otherwise:
	// a file at its path that is not a filter (Create never destroys such a file), and files that have
	// the names of its log and its hashes but do not belong to the filter at its path. Without
	// Overwrite, the error is a [*ForeignError].
	Overwrite bool
	// MinKeys makes Build and Merge fail with [ErrFewKeys], and replace nothing, if the new filter would
	// have fewer than MinKeys items.
	MinKeys uint64

	// LogBytes is the [OpenOptions.LogBytes] of the filter that Create opens.
	LogBytes int64
	// CommitInterval is the [OpenOptions.CommitInterval] of the filter that Create
	// opens.
	CommitInterval time.Duration

	// Distinct makes Build store each key once. Otherwise n copies of a key are n items: they take n
	// slots or, once their buckets are full, one stash entry with a count.
	Distinct bool
	// MemoryBudget is roughly how many bytes of hashes Build holds in memory, at least 1 MiB; the
	// rest goes to temporary files beside the filter. 0 means 256 MiB.
	MemoryBudget int64
	// Workers is the number of goroutines that Build uses, at most 1,024; 0 means GOMAXPROCS. Build
	// uses no more than one per MiB of MemoryBudget. The number does not affect the file.
	Workers int
	// Progress, if not nil, is called by Build as it proceeds, from one goroutine at a time, with
	// the current stage ("hash", "count", "fill", "place" or "check") and how much of it is done.
	// total is 0 while it is unknown.
	Progress func(stage string, done, total uint64)

	// shard, if set, makes the file this shard of a sharded set. identity, if not 0, is
	// then its identity.
	shard    layout.Shard
	identity uint64
}

// validate reports the first option that is out of range or cannot be met, as an [*OptionError].
func (o *Options) validate() error {
	if o == nil {
		return nil
	}
	if r := o.FalsePositiveRate; r != 0 && !(r > 0 && r < 1) {
		return optionError("FalsePositiveRate", "%v is not between 0 and 1", r)
	}
	if o.Layout != layout.Auto && layout.LegalParams(o.Layout) == nil {
		return optionError("Layout", "%s is unknown to this version", o.Layout)
	}
	if o.MemoryBudget < 0 || o.MemoryBudget > 0 && o.MemoryBudget < minMemoryBudget {
		return optionError("MemoryBudget", "%d bytes is less than the minimum of %d", o.MemoryBudget, minMemoryBudget)
	}
	if o.Workers < 0 || o.Workers > maxWorkers {
		return optionError("Workers", "%d is not between 0 and %d", o.Workers, maxWorkers)
	}
	if n := len(o.Normalisation); n > layout.NormalisationBytes {
		return optionError("Normalisation", "%d bytes is more than the maximum of %d", n, layout.NormalisationBytes)
	}
	if !utf8.ValidString(o.Normalisation) {
		return optionError("Normalisation", "not valid UTF-8")
	}
	for i := range len(o.Normalisation) {
		if o.Normalisation[i] == 0 {
			return optionError("Normalisation", "zero byte at offset %d", i)
		}
	}
	if o.Mode&^fs.ModePerm != 0 {
		return optionError("Mode", "%v has more than permission bits", o.Mode)
	}
	if o.Mode != 0 && o.Mode&0o600 != 0o600 {
		return optionError("Mode", "%#o does not let the owner read and write", uint32(o.Mode))
	}
	if o.KeepChanges < 0 {
		return optionError("KeepChanges", "%v is negative", o.KeepChanges)
	}
	if err := validateLog(o.LogBytes); err != nil {
		return err
	}
	if o.ExpireAfter < 0 {
		return optionError("ExpireAfter", "%v is negative", o.ExpireAfter)
	}
	if err := validateExpiry(o.ExpireAfter); err != nil {
		return err
	}
	d := o.withDefaults()
	if refused := d.wish(o.Capacity).Check(); refused != nil {
		return (*OptionError)(refused)
	}
	return nil
}

func validateLog(bytes int64) error {
	if bytes != 0 && (bytes < wal.MinBytes || bytes > wal.MaxBytes || bytes%wal.PageBytes != 0) {
		return optionError("LogBytes", "%d is not a multiple of %d from %d to %d", bytes, wal.PageBytes, wal.MinBytes, int64(wal.MaxBytes))
	}
	return nil
}

// leastExpireAfter is the shortest time after which keys may leave. An insert has the time of its
// commit, exact to a second. A second would be too large a part of a shorter time.
const leastExpireAfter = 10 * time.Second

func validateExpiry(after time.Duration) error {
	if after > 0 && after < leastExpireAfter {
		return optionError("ExpireAfter", "%v is less than %v", after, leastExpireAfter)
	}
	return nil
}

// maxWorkers bounds the memory that each worker takes beyond the budget.
const maxWorkers = 1024

// withDefaults returns a copy of o with the defaults for fields that are 0.
func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.KeepHashes = d.KeepHashes || d.AutoGrow || d.KeepChanges > 0 || d.ExpireAfter > 0
	if d.FalsePositiveRate == 0 {
		d.FalsePositiveRate = defaultRate
	}
	if d.Seed == 0 {
		d.Seed = DefaultSeed
	}
	if d.MemoryBudget == 0 {
		d.MemoryBudget = defaultMemoryBudget
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

// keepAs gives the new filter the KeepHashes, KeepChanges, AutoGrow and ExpireAfter of the filter
// that it replaces, where they are set.
func (o *Options) keepAs(replaced *layout.Superblock) {
	o.ExpireAfter = cmp.Or(o.ExpireAfter, expireAfterOf(replaced))
	o.KeepHashes = o.KeepHashes || replaced.KeepsHashes()
	o.AutoGrow = o.AutoGrow || replaced.Grows()
	o.KeepChanges = max(o.KeepChanges, time.Duration(replaced.KeepChanges()))
}

// expireAfterOf returns the ExpireAfter of a file.
func expireAfterOf(sb *layout.Superblock) time.Duration {
	return time.Duration(min(sb.ExpireAfter(), math.MaxInt64))
}

// wish returns the part of the options that the size depends on. o has its defaults filled in.
func (o *Options) wish(capacity uint64) build.Wish {
	return build.Wish{
		Capacity: capacity, Rate: o.FalsePositiveRate, Layout: o.Layout,
		FingerprintBits: o.FingerprintBits, BucketSize: o.BucketSize, Shard: o.shard,
	}
}

// A Residency says where the bytes of an open filter are kept and when they are read.
type Residency uint8

const (
	// ResidencyDefault maps the file. A lookup whose page is not in memory also reads the pages
	// around it: on Linux a few MiB, in large pages if the file system has them. A file that is not
	// sealed is mapped as with ResidencyRandom. So is a file that is larger than the memory that
	// the process may have; on Linux, this takes the limits of control groups into account.
	// [Filter.Warm] reads the rest.
	ResidencyDefault Residency = iota
	// ResidencyRandom maps the file and turns read-ahead off: a lookup whose page is
	// not in memory reads one page.
	ResidencyRandom
	// ResidencyWillNeed maps the file and reads all of it into memory in the
	// background, until it is done or the filter is closed.
	ResidencyWillNeed
	// ResidencyPopulate maps the file and reads all of it into memory before the call
	// that opens it returns.
	ResidencyPopulate
	// ResidencyLock is ResidencyPopulate and locks the file in memory. It needs
	// permission to lock that much memory (ulimit -l on Unix).
	ResidencyLock
	// ResidencyHeap copies the file into the memory of this process. The filter is a
	// snapshot and does not hold the file open. It cannot be written to.
	ResidencyHeap
)

var residencyNames = [...]string{"default", "random", "willneed", "populate", "lock", "heap"}

// String returns "default", "random", "willneed", "populate", "lock" or "heap".
func (r Residency) String() string {
	if int(r) < len(residencyNames) {
		return residencyNames[r]
	}
	return "unknown"
}

// OpenOptions describe how to open a filter. A nil *OpenOptions and the zero value mean the defaults.
// Only ExpireAfter changes the filter itself.
type OpenOptions struct {
	// Residency says where the bytes of the filter are kept.
	Residency Residency
	// Checked makes a lookup that faults answer "maybe" and keeps the error for [Filter.Err];
	// without it a fault ends the process (SIGBUS). A lookup faults if the file has been cut short
	// while it was mapped, or if its disk fails. If the cut falls within a page, that page causes no
	// fault: its lost part reads as zeros, and lookups of keys whose line was there answer "certainly
	// not". Checked makes single lookups slower, most of all when the filter is not in the cache, since
	// the processor cannot overlap checked lookups. In a batch it costs next to nothing.
	Checked bool
	// CommitInterval is how long after an operation the filter commits by itself if
	// [Filter.Sync] is not called; 0 means one second. If it is negative, no timer
	// commits.
	CommitInterval time.Duration
	// LogBytes is the size of the log, the file NAME.stash beside the filter while it is open for
	// writing: a multiple of 4,096 from 128 KiB to 1 TiB. 0 means a log that starts with 256 KiB to
	// 1 MiB. Such a log grows to twice the size of the lines, but at least to 16 MiB and at most to
	// 128 MiB; for large filters, to an eighth of the lines, but at most to 1 GiB. When half of the
	// log is nearly full, a checkpoint writes most of the filter. Operations go on meanwhile, in the
	// other half. A larger log means fewer checkpoints, and a longer recovery, which writes every
	// page that the log changes. If LogBytes is not 0, the first operation creates the log in its full
	// size, and waits for that.
	LogBytes int64
	// RequireHashes makes [Open] fail with [ErrNoHashes] if the filter does not keep its hashes, or if
	// they are lost. Without RequireHashes, a filter without hashes works, but cannot be rebuilt. If
	// hashes cannot be written and RequireHashes, [Options.AutoGrow] or [Options.ExpireAfter] is set,
	// operations fail with the error of the disk once the log is full, and can be tried again. If
	// none of the three is set, the filter goes on and loses its hashes. So does a filter that
	// OpenReadOnly or Follow recovers.
	RequireHashes bool
	// ExpireAfter, if not 0, permanently changes the [Options.ExpireAfter] of a filter that Open opens.
	// If it is negative, keys stay from then on. Without hashes, the error is [ErrNoHashes].
	ExpireAfter time.Duration
	// OnError, if not nil, is called with each error of work that a filter does in the background while
	// it is open for writing: a commit at the end of CommitInterval, a checkpoint, a growth, an expiry.
	// Each call runs in its own goroutine.
	OnError func(error)
	// NoRecover ensures that [OpenReadOnly] and [Follow] write nothing. For a file whose writer
	// has died, they then return [ErrNeedsRecovery].
	NoRecover bool
	// ServeUnrecovered makes OpenReadOnly and Follow open a file whose writer has died even if it
	// cannot or must not be recovered. Since nobody knows which keys the file lacks, every answer is
	// "maybe", Count returns math.MaxUint64, and Err is ErrNeedsRecovery. A [Follower] switches to the
	// file once it has been recovered; a Filter must be opened again.
	ServeUnrecovered bool
	// WaitForFile makes [Follow] and sets.Follow wait for a file that does not exist yet. Until it
	// exists, every answer is "maybe" and [Follower.Err] is fs.ErrNotExist.
	WaitForFile bool
	// FollowInterval is how often a follower, of a file or a set, looks for a new file at the path;
	// 0 means 100 ms. It also looks when a lookup finds that another file has taken the place of the one
	// in use (R6). If FollowInterval is negative, only [Follower.Refresh] looks.
	FollowInterval time.Duration
	// VerifyBeforeSwitch makes [Follow] and sets.Follow verify each file, also the first one, before
	// they use it (see [Verify]). This takes as long as reading the whole file. Meanwhile the old file
	// answers. If the new file is damaged, the old file stays in use, Err is a [*CorruptError] that
	// names the new file, and every look verifies the new file again. In a sealed file any changed byte
	// is found. A clean file has no checksums for its lines: only their structure and the number of
	// items are checked. A file that a writer has open cannot be verified, and is used as it is. Kept
	// hashes are not compared. Later damage to a file in use is not noticed.
	VerifyBeforeSwitch bool
	// ReadSize is how many bytes a batch of lookups in a filter from [OpenReaderAt] reads at once:
	// lines that lie within ReadSize bytes are read together, with the bytes between them. 0 means
	// 4,096. A larger size makes sense where each read costs much, whatever its size. Single lookups
	// read 64 bytes.
	ReadSize int64
	// Progress, if not nil, is called while ResidencyPopulate, ResidencyLock, ResidencyHeap or
	// [Filter.Warm] reads the file, with the bytes read so far and the total.
	Progress func(done, total int64)
}

// Validate reports the first option that is out of range, as an [*OptionError].
func (o *OpenOptions) Validate() error {
	if o == nil {
		return nil
	}
	if int(o.Residency) >= len(residencyNames) {
		return optionError("Residency", "%d is unknown", o.Residency)
	}
	if o.ReadSize < 0 || o.ReadSize > maxReadSize {
		return optionError("ReadSize", "%d is not between 0 and %d", o.ReadSize, maxReadSize)
	}
	if err := validateExpiry(o.ExpireAfter); err != nil {
		return err
	}
	return validateLog(o.LogBytes)
}

// withDefaults returns o, or the defaults if o is nil.
func (o *OpenOptions) withDefaults() *OpenOptions {
	if o == nil {
		return new(OpenOptions)
	}
	return o
}
