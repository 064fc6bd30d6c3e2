// Package peer has the adapter through which the benchmark sees a filter: it takes keys of 16 bytes
// by their numbers, and reports how long that took.
package peer

import (
	"encoding/binary"
	"errors"
	"time"
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

// Absent is the first number of keys that are never added.
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
