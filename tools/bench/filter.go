package main

import (
	"encoding/binary"
	"errors"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// KeyBytes is the length of every key.
const KeyBytes = 16

// A Key is what filters store.
type Key [KeyBytes]byte

// golden is the increment of SplitMix64: 2^64 over the golden ratio.
const golden = 0x9e3779b97f4a7c15

// Set makes k the key with number i: outputs 2i and 2i+1 of SplitMix64 (Steele, Lea and Flood,
// "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), started with the seed, in
// little-endian order. Keys with different numbers differ.
func (k *Key) Set(seed, i uint64) {
	binary.LittleEndian.PutUint64(k[:8], Mix(seed+(2*i+1)*golden))
	binary.LittleEndian.PutUint64(k[8:], Mix(seed+(2*i+2)*golden))
}

// Mix is the output function of SplitMix64.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Keys numbered from Absent on are never added.
const Absent = 1 << 40

// A Count says for how many keys the answer of an operation was yes, and how long it took,
// without the time for making the keys. Clock is wall time. Processor is the processor time
// of the thread, which excludes waits and other work of a busy machine.
type Count struct {
	Keys             uint64
	Clock, Processor time.Duration
}

// Add adds the result of another operation.
func (c *Count) Add(d Count) {
	c.Keys += d.Keys
	c.Clock += d.Clock
	c.Processor += d.Processor
}

// ErrUnsupported means that the filter does not support the operation: an insert or a delete.
var ErrUnsupported = errors.New("the filter does not do that")

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
	Seed     uint64       // of the keys
	Size     func() int64 // bytes of the table
	Insert   Op           // stops at the first key refused
	Contains Op
	Delete   Op
	Err      func() error // may be nil; the error that ended an operation
	End      func() error // may be nil

	keys []Key
}

// BlockKeys is how many keys are made at a time, between two readings of the clock. They take 256
// KiB, so a table that fits the second-level cache stays there while keys are made; and they are so
// many that the time for reading the clock is negligible.
const BlockKeys = 1 << 14

// Add inserts the keys numbered first to first+n-1 in order, up to the first refused one, and counts
// the keys before it.
func (f *Filter) Add(first, n uint64) (Count, error) { return f.do(f.Insert, first, n, true) }

// Ask looks keys up, and counts the keys that may be present.
func (f *Filter) Ask(first, n uint64) (Count, error) { return f.do(f.Contains, first, n, false) }

// Remove deletes keys that were added, and counts the keys that it found.
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

// threadTime returns the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
