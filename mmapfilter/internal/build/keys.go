package build

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A parcel carries keys to a worker: the hashes of short keys, which take no longer to hash than
// to copy, and copies of the others.
type parcel struct {
	hashes []uint64
	bytes  []byte
	ends   []int // of the keys in bytes
}

func (p *parcel) n() int { return len(p.hashes) + len(p.ends) }

// maxShort is the length of the longest short key.
const maxShort = 16

// A parcel is sent when it has that many keys or bytes: enough that sending it costs little, and
// few enough that a worker's parcels stay in a cache.
const (
	parcelKeys  = 4096
	parcelBytes = 256 << 10
)

// A parcels sends parcels to the workers of a build, from the calling goroutine.
type parcels func(full chan<- *parcel, empty <-chan *parcel, stop *atomic.Bool) error

// spoolParcels spools what send sends. The workers hash long keys and partition the hashes.
func (b *builder) spoolParcels(ctx context.Context, send parcels) error {
	workers, s := b.Workers, newSpool(b.draft, b.Workers, b.MemoryBudget, spoolParts(b.Capacity))
	b.homes = s
	full := make(chan *parcel, workers)
	empty := make(chan *parcel, 2*workers+1)
	for range cap(empty) {
		empty <- new(parcel)
	}
	var stop atomic.Bool // set by a cancelled context or a worker that failed
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()

	var group sync.WaitGroup
	errs := make([]error, workers+1)
	for i := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[i] = b.hashParcels(s, full, empty, &stop)
		}()
	}
	errs[workers] = func() error {
		defer group.Wait() // even if the sequence panics
		defer close(full)
		return send(full, empty, &stop)
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

// ofKeys sends the keys of a sequence.
func (b *builder) ofKeys(keys iter.Seq2[[]byte, error]) parcels {
	return func(full chan<- *parcel, empty <-chan *parcel, stop *atomic.Bool) error {
		p, hash := <-empty, layout.NewHasher(b.Seed)
		for key, err := range keys {
			if err != nil {
				return err
			}
			if stop.Load() {
				return errStopped
			}
			if len(key) <= maxShort || b.Shard.Count > 0 {
				own, ok := b.Shard.Own(hash.Hash(key))
				if !ok {
					continue
				}
				p.hashes = append(p.hashes, own)
			} else {
				p.bytes = append(p.bytes, key...)
				p.ends = append(p.ends, len(p.bytes))
			}
			b.came++
			if p.n() == parcelKeys || len(p.bytes) >= parcelBytes {
				b.report("hash", uint64(p.n()), b.Capacity)
				full <- p
				p = <-empty
			}
		}
		b.report("hash", uint64(p.n()), b.Capacity)
		full <- p
		return nil
	}
}

// ErrForeign is returned for a hash of a key that another shard has.
var ErrForeign = errors.New("hash of a key of another shard")

// ofHashes sends hashes of keys.
func (b *builder) ofHashes(blocks iter.Seq2[[]uint64, error]) parcels {
	return func(full chan<- *parcel, empty <-chan *parcel, stop *atomic.Bool) error {
		for hashes, err := range blocks {
			if err != nil {
				return err
			}
			for len(hashes) > 0 {
				if stop.Load() {
					return errStopped
				}
				p := <-empty
				n := min(len(hashes), parcelKeys)
				for _, h := range hashes[:n] {
					own, ok := b.Shard.Own(h)
					if !ok {
						return ErrForeign
					}
					p.hashes = append(p.hashes, own)
				}
				hashes = hashes[n:]
				b.came += uint64(n)
				b.report("hash", uint64(n), b.Capacity)
				full <- p
			}
		}
		return nil
	}
}

// hashParcels hashes and spools the keys of parcels. After an error it keeps taking parcels, so
// that the sender never waits for a worker that has ended.
func (b *builder) hashParcels(s *spool, full <-chan *parcel, empty chan<- *parcel, stop *atomic.Bool) (err error) {
	c, hash := s.collector(), layout.NewHasher(b.Seed)
	for p := range full {
		start := 0
		for _, end := range p.ends {
			p.hashes = append(p.hashes, hash.Hash(p.bytes[start:end]))
			start = end
		}
		for _, h := range p.hashes {
			if err != nil {
				break
			}
			if err = c.add(h); err != nil {
				stop.Store(true)
			}
		}
		p.hashes, p.bytes, p.ends = p.hashes[:0], p.bytes[:0], p.ends[:0]
		if cap(p.bytes) > 4*parcelBytes {
			p.bytes = nil // held a very long key: do not keep that much memory per worker
		}
		empty <- p
	}
	if err != nil {
		return err
	}
	return c.flush()
}
