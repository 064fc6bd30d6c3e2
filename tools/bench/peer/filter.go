package peer

import (
	"runtime"
	"time"
)

// An Op does one operation with each key, and returns for how many keys the answer was yes.
type Op func(keys []Key) int

// Each makes an Op from a function of one key. Lookups do not use it, since calling do through
// a pointer is too slow for them; they have loops of their own.
func Each(do func(key []byte) bool) Op {
	return func(keys []Key) (n int) {
		for i := range keys {
			if do(keys[i][:]) {
				n++
			}
		}
		return n
	}
}

// Until is like [Each], but stops at the first key for which do returns false.
func Until(do func(key []byte) bool) Op {
	return func(keys []Key) int {
		for i := range keys {
			if !do(keys[i][:]) {
				return i
			}
		}
		return len(keys)
	}
}

// A Filter adapts a filter in this process. Operations that it does not support are nil.
type Filter struct {
	Seed     uint64 // of the keys
	Size     func() int64
	Insert   Op // stops at the first key refused
	Contains Op
	Delete   Op
	Err      func() error // may be nil; the error that ended an operation
	End      func() error // may be nil

	keys []Key
}

// BlockKeys is how many keys are made at a time, between two readings of the clock. So many
// keys take 256 KiB, so a table that fits the second-level cache stays there while keys are
// made; and they are enough to make the time of reading the clock negligible.
const BlockKeys = 1 << 14

// Bytes returns the memory of the table.
func (f *Filter) Bytes() int64 { return f.Size() }

// Add inserts the keys numbered first to first+n-1 in order, up to the first refused one, and counts
// the keys before it.
func (f *Filter) Add(first, n uint64) (Count, error) { return f.do(f.Insert, first, n, true) }

// Ask looks keys up, and counts those that may be present.
func (f *Filter) Ask(first, n uint64) (Count, error) { return f.do(f.Contains, first, n, false) }

// Remove deletes keys that were added, and counts those that it found.
func (f *Filter) Remove(first, n uint64) (Count, error) { return f.do(f.Delete, first, n, false) }

func (f *Filter) do(op Op, first, n uint64, stop bool) (sum Count, err error) {
	if op == nil {
		return sum, ErrUnsupported
	}
	if f.keys == nil {
		f.keys = make([]Key, BlockKeys)
	}
	for end := first + n; first < end; {
		keys := f.keys[:min(end-first, BlockKeys)]
		for i := range keys {
			keys[i].Set(f.Seed, first+uint64(i))
		}
		first += uint64(len(keys))
		var count int
		took := Timed(func() { count = op(keys) })
		took.Keys = uint64(count)
		sum.Add(took)
		if f.Err != nil {
			if err := f.Err(); err != nil {
				return sum, err
			}
		}
		if stop && count < len(keys) {
			break
		}
	}
	return sum, nil
}

func (f *Filter) Close() error {
	if f.End == nil {
		return nil
	}
	return f.End()
}

// Timed measures how long f takes. The Keys of the result are 0.
func Timed(f func()) (c Count) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun, used := time.Now(), threadTime()
	f()
	c.Processor = threadTime() - used
	c.Clock = time.Since(begun)
	return c
}
