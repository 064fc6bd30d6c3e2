// Package peer is a filter as the benchmark sees it: one that is asked for keys of
// 16 bytes by their numbers, and says how long it took. It is ours or another one, in
// this process ([Local]) or in one of its own ([Start]), which speaks a protocol of
// lines ([Serve]). So a filter in another language, or one that is not to be a
// dependency of this module, is measured in the same rounds as the others.
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

// golden is the step of SplitMix64: 2^64 over the golden ratio.
const golden = 0x9e3779b97f4a7c15

// Set makes k the key with a number: outputs 2i and 2i+1 of SplitMix64 (Steele, Lea
// and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) begun
// with the seed, in little-endian order. Keys with different numbers differ.
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

// A Count says how many keys an operation was true of, and how long it took, without
// the time for making the keys: by the clock, and of the time that processors gave
// it, which leaves out what others take away of a busy machine, and what is waited
// for. The second is 0 where the system does not say.
type Count struct {
	Keys             uint64
	Clock, Processor time.Duration
}

// Time is the processor time, or that of the clock where there is none.
func (c Count) Time() time.Duration {
	if c.Processor > 0 {
		return c.Processor
	}
	return c.Clock
}

// Add adds what another operation gave.
func (c *Count) Add(d Count) {
	c.Keys += d.Keys
	c.Clock += d.Clock
	c.Processor += d.Processor
}

// ErrUnsupported: the filter cannot do that: not insert, or not delete.
var ErrUnsupported = errors.New("the filter does not do that")

// A Filter is asked for the keys numbered first up to first+n.
type Filter interface {
	// Bytes is the memory of its table.
	Bytes() int64
	// Add inserts keys in their order up to the first that is refused, and counts
	// those before it.
	Add(first, n uint64) (Count, error)
	// Ask looks keys up, and counts those that may be there.
	Ask(first, n uint64) (Count, error)
	// Remove deletes keys that were added, and counts those that were found.
	Remove(first, n uint64) (Count, error)
	// Close gives the memory back.
	Close() error
}
