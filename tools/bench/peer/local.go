package peer

import (
	"math/rand/v2"
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

// Local is a filter in this process. Operations that it does not support are nil.
type Local struct {
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

func (l *Local) Bytes() int64 { return l.Size() }

func (l *Local) Add(first, n uint64) (Count, error)    { return l.do(l.Insert, first, n, true) }
func (l *Local) Ask(first, n uint64) (Count, error)    { return l.do(l.Contains, first, n, false) }
func (l *Local) Remove(first, n uint64) (Count, error) { return l.do(l.Delete, first, n, false) }

func (l *Local) do(op Op, first, n uint64, stop bool) (sum Count, err error) {
	if op == nil {
		return sum, ErrUnsupported
	}
	if l.keys == nil {
		l.keys = make([]Key, BlockKeys)
	}
	for end := first + n; first < end; {
		keys := l.keys[:min(end-first, BlockKeys)]
		for i := range keys {
			keys[i].Set(l.Seed, first+uint64(i))
		}
		first += uint64(len(keys))
		var count int
		took := Timed(func() { count = op(keys) })
		took.Keys = uint64(count)
		sum.Add(took)
		if l.Err != nil {
			if err := l.Err(); err != nil {
				return sum, err
			}
		}
		if stop && count < len(keys) {
			break
		}
	}
	return sum, nil
}

// Mixed looks up keys of which a share is among the first held, drawn by rng.
func (l *Local) Mixed(n, held uint64, share float64, rng *rand.Rand) (sum Count, present uint64, err error) {
	keys := make([]Key, n)
	for i := range keys {
		number := Absent + rng.Uint64N(Absent)
		if rng.Float64() < share {
			number = rng.Uint64N(held)
			present++
		}
		keys[i].Set(l.Seed, number)
	}
	found := 0
	sum = Timed(func() { found = l.Contains(keys) })
	sum.Keys = uint64(found)
	return sum, present, nil
}

func (l *Local) Close() error {
	if l.End == nil {
		return nil
	}
	return l.End()
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
