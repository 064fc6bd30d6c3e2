package build

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
)

// blockHashes is how many hashes are handed to a worker at once: so many that handing over a block is
// cheap, and so few that the blocks of a worker stay in a cache.
const blockHashes = 4096

// blockBytes is how many bytes of keys end a block early, since hashing long keys takes time, and
// Progress and a cancelled context should not wait for it.
const blockBytes = 256 << 10

// ErrForeign is returned for a hash that belongs to another shard.
var ErrForeign = errors.New("the hash belongs to a key of another shard")

// hashed yields the hashes of keys, in blocks. It leaves out keys of other shards. It hashes in the
// goroutine that reads the keys, since copying a key for a worker would cost as much as hashing it.
func (b *builder) hashed(keys iter.Seq2[[]byte, error]) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		hash, block, bytes := layout.NewHasher(b.Seed), make([]uint64, 0, blockHashes), 0
		for key, err := range keys {
			if err == nil && b.stop.Load() {
				err = errStopped
			}
			if err != nil {
				yield(nil, err)
				return
			}
			h := hash.Hash(key)
			if _, ok := b.Shard.Own(h); !ok {
				continue
			}
			block, bytes = append(block, h), bytes+len(key)
			if len(block) == blockHashes || bytes >= blockBytes {
				if !yield(block, nil) {
					return
				}
				block, bytes = block[:0], 0
			}
		}
		yield(block, nil)
	}
}

// spoolHashes spools the hashes of keys, all of which must belong to the shard. The workers partition
// them.
func (b *builder) spoolHashes(ctx context.Context, blocks iter.Seq2[[]uint64, error]) error {
	workers, s := b.Workers, newSpool(b.draft, b.Workers, b.MemoryBudget, spoolParts(b.Capacity))
	b.homes = s
	full, empty := make(chan []uint64, workers), make(chan []uint64, 2*workers)
	for range cap(empty) {
		empty <- nil
	}
	defer context.AfterFunc(ctx, func() { b.stop.Store(true) })()

	var group sync.WaitGroup
	errs := make([]error, workers+1)
	for i := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = b.partition(s.collector(), full, empty)
		}()
	}
	errs[workers] = func() error {
		defer group.Wait() // even if the sequence panics
		defer close(full)
		return b.handOver(blocks, full, empty)
	}()
	for _, err := range errs {
		if err != nil && err != errStopped {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errs[workers]
}

// handOver hands the hashes to the workers, in the form that the shard uses (see layout.Shard).
func (b *builder) handOver(blocks iter.Seq2[[]uint64, error], full chan<- []uint64, empty <-chan []uint64) error {
	b.report("hash", 0, b.Capacity) // the number of keys is unknown; Capacity is the best guess
	for hashes, err := range blocks {
		if err != nil {
			return err
		}
		for len(hashes) > 0 {
			if b.stop.Load() {
				return errStopped
			}
			n, block := min(len(hashes), blockHashes), (<-empty)[:0]
			for _, h := range hashes[:n] {
				own, ok := b.Shard.Own(h)
				if !ok {
					return ErrForeign
				}
				block = append(block, own)
			}
			hashes = hashes[n:]
			b.came += uint64(n)
			b.report("hash", uint64(n), b.Capacity)
			full <- block
		}
	}
	return nil
}

// partition spools blocks of hashes. After an error it keeps taking blocks, so that the sender never
// waits for a worker that has ended.
func (b *builder) partition(c *collector, full <-chan []uint64, empty chan<- []uint64) (err error) {
	for block := range full {
		for _, h := range block {
			if err != nil {
				break
			}
			if err = c.add(h); err != nil {
				b.stop.Store(true)
			}
		}
		empty <- block
	}
	if err != nil {
		return err
	}
	return c.flush()
}
