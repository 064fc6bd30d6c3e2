package guard

import (
	"cmp"
	"fmt"
	"io/fs"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// A DeleteMode says when the filter drops the keys that the store deletes.
type DeleteMode uint8

const (
	// DeletesDefault is the mode that suits the engine: Exact where it is cheap to find out whether
	// a key is there, Rebuild for an LSM tree.
	DeletesDefault DeleteMode = iota
	// Exact deletes a key from the filter once its delete is durable in the store. So that the filter
	// has each key once, every put or delete of a key for which the filter says "maybe" first reads the
	// store.
	Exact
	// Rebuild leaves a deleted key in the filter until the filter is rebuilt. A rebuild begins in the
	// background when deleted keys let more absent keys reach the store than FalsePositiveRate allows,
	// when the filter is nearly full, or when most of its keys are deleted and take much of its room.
	Rebuild
)

func (m DeleteMode) String() string {
	switch m {
	case DeletesDefault:
		return "default"
	case Exact:
		return "exact"
	case Rebuild:
		return "rebuild"
	}
	return fmt.Sprintf("DeleteMode(%d)", uint8(m))
}

// Options describe a guard. A nil *Options and the zero value mean the defaults, which do not change an
// existing filter.
type Options struct {
	// Path is the path of the filter. Empty means a path beside the store. If the caller chooses a
	// Path, and the file there cannot be read as a filter or was not created by a guard, the file
	// stays. Then the guard has no filter, and [Stats] says why.
	Path string
	// Capacity is the least number of keys that the filter has room for; the filter grows with the
	// store. If an existing filter has at most half of this Capacity, Open rebuilds it in the
	// background; the old filter answers meanwhile. 0 means the Capacity of the last Open that set it,
	// or 1,048,576 for a new filter.
	Capacity uint64
	// FalsePositiveRate is the share of absent keys that may reach the store. If an existing filter has
	// another rate, Open rebuilds it in the same way. 0 means the rate of the existing filter, or 0.01
	// for a new one.
	FalsePositiveRate float64
	// Deletes says when the filter drops deleted keys.
	Deletes DeleteMode
	// Covers, if not nil, says which keys the filter is for. Reads of other keys go to the store.
	Covers func(key []byte) bool
	// CoversVersion names the keys that Covers covers. Change it when the function changes. Open
	// rebuilds the filter if the version differs from the version at the last Open, or if only one of
	// the two Opens has a Covers. If there is a Covers without a version, nobody knows whether the
	// function has changed, so every Open rebuilds the filter.
	CoversVersion string
	// Prefix is the prefix of the guard's entries in the store (in bbolt the name of their bucket).
	// Empty means "\x00mmapfilter\x00". Programs must not use keys with this prefix, nor the name
	// [OwnerName], whatever the prefix. If another prefix was used last, Open rebuilds the filter.
	Prefix []byte
	// Mode is the permission bits that the filter and its log may have; see [mmapfilter.Options]. An
	// existing filter loses other bits. 0 means 0666. The packages of the engines remove the bits that
	// the files of the store lack, so whoever cannot read the store cannot read the filter.
	Mode fs.FileMode
	// CommitInterval is how often the filter becomes durable; 0 means a second. The keys that were
	// committed since it last became durable are in the outbox, with 8 bytes a key and one entry a
	// transaction. An [Ordered] store needs no outbox: Open asks it for these keys.
	CommitInterval time.Duration

	// Hooks are for the tests of this module.
	Hooks *guarded.Hooks

	ownPath bool // the caller has not chosen Path
}

const (
	defaultCapacity = 1 << 20
	defaultRate     = 0.01
	defaultPrefix   = "\x00mmapfilter\x00"
	defaultInterval = time.Second
)

// WithDefaults returns the options with the defaults filled in, except Capacity and
// FalsePositiveRate, which an existing filter may decide. path and deletes are the engine's defaults.
func (o *Options) WithDefaults(path string, deletes DeleteMode) *Options {
	n := new(Options)
	if o != nil {
		*n = *o
	}
	if n.Path == "" {
		n.Path, n.ownPath = path, true
	}
	if n.Deletes == DeletesDefault {
		n.Deletes = deletes
	}
	if len(n.Prefix) == 0 {
		n.Prefix = []byte(defaultPrefix)
	}
	if n.CommitInterval <= 0 {
		n.CommitInterval = defaultInterval
	}
	return n
}

// unnamed stands for a Covers without a version.
const unnamed = ^uint64(0)

// covered returns a number for the keys that the filter is for: 0 means all of them.
func (o *Options) covered() uint64 {
	switch {
	case o.Covers == nil:
		return 0
	case o.CoversVersion == "":
		return unnamed
	}
	return xxh3.HashString(o.CoversVersion)>>1 + 1
}

// Narrow removes from Mode the bits that mode, the permissions of a file of the store, lacks. The
// file's owner can still read and write the filter.
func (o *Options) Narrow(mode fs.FileMode) {
	o.Mode = cmp.Or(o.Mode, 0o666)&^(fs.ModePerm&^mode) | 0o600
}

// fit fills in Capacity and FalsePositiveRate if they are 0: from the filter f, or with the defaults if
// f is nil. asked is the Capacity of the last Open, or 0 if it is not known. unfit says that the
// options ask for a filter other than f. If no filter can meet the options, fit returns an error, and
// sets the options to those of f.
func (o *Options) fit(f guarded.Filter, asked uint64) (unfit bool, err error) {
	if f == nil {
		o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, defaultCapacity), cmp.Or(o.FalsePositiveRate, defaultRate)
		return false, nil
	}
	rate, capacity := f.TargetRate(), f.Cap()
	least := min(capacity, cmp.Or(asked, defaultCapacity))
	if asked == 0 && f.Len() < capacity/tooLarge { // this size may be what the last Open asked for: keep it
		least = capacity
	}
	unfit = o.FalsePositiveRate != 0 && o.FalsePositiveRate != rate || o.Capacity >= growth*capacity
	if unfit {
		_, err = (&mmapfilter.Options{Capacity: o.Capacity, FalsePositiveRate: o.FalsePositiveRate}).Plan()
	}
	if err != nil {
		o.Capacity, o.FalsePositiveRate = least, rate
		return false, err
	}
	o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, least), cmp.Or(o.FalsePositiveRate, rate)
	return unfit, nil
}
