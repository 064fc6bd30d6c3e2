package guard

import (
	"cmp"
	"fmt"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// A DeleteMode says what becomes of the keys that the store deletes.
type DeleteMode uint8

const (
	// DeletesDefault is what suits the engine: Exact where it is cheap to ask whether a key is there,
	// Rebuild in an LSM tree.
	DeletesDefault DeleteMode = iota
	// Exact deletes a key from the filter once its delete is durable in the store. To count each key
	// once, it asks the store about every key that is put or deleted and that the filter says "maybe"
	// to: one read for a key that is there.
	Exact
	// Rebuild leaves a deleted key in the filter until that is rebuilt from the keys of the store,
	// in the background: when so many absent keys pass the filter that their share is above what was
	// asked for, when the filter is nearly full, or when most of its keys are deleted and take much of
	// its room.
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

// Options describe a guard. A nil *Options and the zero value are the defaults. They leave a filter
// that is there as it is.
type Options struct {
	// Path is that of the filter. Empty means beside the store.
	Path string
	// Capacity is how many keys the filter is sized for at first, and at least; it grows with the
	// store. One that is there and has at most half of that is rebuilt by Open, in the background,
	// and answers meanwhile. 0 means what was asked for last, or 1,048,576 for a new one, which has
	// 1.3 MB.
	Capacity uint64
	// FalsePositiveRate is the share of absent keys that may reach the store. A filter that is there
	// and was made for another one is rebuilt by Open, likewise. 0 means that of the filter, or 0.01
	// for a new one.
	FalsePositiveRate float64
	// Deletes says what becomes of deleted keys.
	Deletes DeleteMode
	// Covers, if not nil, says which keys the filter is for. Others go to the store as without it. To
	// change the function, remove the filter file: it is rebuilt.
	Covers func(key []byte) bool
	// Prefix is what the keys of the guard's entries begin with in the store (in bbolt the name of
	// their bucket). Empty means "\x00mmapfilter\x00". Programs must put no keys there.
	Prefix []byte
	// CommitInterval is how often the filter becomes durable; 0 means a second. What the store has
	// committed since then is in its outbox, 8 bytes a key and one entry a transaction, or in its log.
	CommitInterval time.Duration

	// Hooks are for the tests of this module.
	Hooks *guarded.Hooks
}

const (
	defaultCapacity = 1 << 20
	defaultRate     = 0.01
	defaultPrefix   = "\x00mmapfilter\x00"
	defaultInterval = time.Second
)

// WithDefaults returns the options with the defaults filled in, but for what they leave to the
// filter. deletes is that of the engine.
func (o *Options) WithDefaults(path string, deletes DeleteMode) *Options {
	n := new(Options)
	if o != nil {
		*n = *o
	}
	if n.Path == "" {
		n.Path = path
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

// fit fills in what is 0 with what a filter has, or, if that is nil, with the defaults. asked is
// the capacity that was asked for when it was open last, or 0 if nobody knows. unfit says that the
// options that are not 0 ask for another filter. If there can be none, they are those of the filter
// from then on.
func (o *Options) fit(f guarded.Filter, asked uint64) (unfit bool, err error) {
	if f == nil {
		o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, defaultCapacity), cmp.Or(o.FalsePositiveRate, defaultRate)
		return false, nil
	}
	rate, capacity := f.TargetRate(), f.Cap()
	least := min(capacity, cmp.Or(asked, defaultCapacity))
	if asked == 0 && f.Len() < capacity/tooLarge { // it may have been asked for, and keeps its size
		least = capacity
	}
	unfit = o.FalsePositiveRate != 0 && o.FalsePositiveRate != rate || o.Capacity >= growth*capacity
	if unfit {
		err = (&mmapfilter.Options{Capacity: o.Capacity, FalsePositiveRate: o.FalsePositiveRate}).Validate()
	}
	if err != nil {
		o.Capacity, o.FalsePositiveRate = least, rate
		return false, err
	}
	o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, least), cmp.Or(o.FalsePositiveRate, rate)
	return unfit, nil
}
