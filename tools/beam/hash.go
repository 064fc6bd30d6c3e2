package main

import (
	"context"
	"encoding/binary"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A hashFn emits the hashes of the keys of parts, in chunks that each belong to one shard, and for
// each bundle the number of keys. For the part without a file it emits an empty chunk for each
// shard, so that a shard without keys is built, too.
type hashFn struct {
	Plan []byte

	plan   *sets.Plan
	full   int      // bytes of a full chunk
	chunks [][]byte // of each shard, hashes that have not been emitted
	keys   int64    // of the bundle

	readCounter, chunkCounter beam.Counter
}

const (
	hashBytes = 8
	// A chunk is so large that the bytes of its shard and length, and the work of a runner for each
	// element, are negligible.
	maxChunk = 32 << 10
	minChunk = 512
	// chunksBytes bounds the memory of the chunks of all shards, unless chunks would become too
	// small.
	chunksBytes = 64 << 20
)

func init() {
	register.DoFn4x1[context.Context, part, func(int64, []byte), func(int64), error](&hashFn{})
	register.Emitter2[int64, []byte]()
	register.Emitter1[int64]()
}

func (h *hashFn) Setup() (err error) {
	if h.plan, err = sets.DecodePlan("plan", h.Plan); err != nil {
		return err
	}
	h.full = min(maxChunk, max(minChunk, chunksBytes/h.plan.Shards/hashBytes*hashBytes))
	h.readCounter = beam.NewCounter(metrics, "read")
	h.chunkCounter = beam.NewCounter(metrics, "chunks")
	return nil
}

// StartBundle forgets what a bundle that failed may have left.
func (h *hashFn) StartBundle(_ context.Context, _ func(int64, []byte), _ func(int64)) {
	h.chunks, h.keys = make([][]byte, h.plan.Shards), 0
}

func (h *hashFn) ProcessElement(ctx context.Context, p part, emit func(int64, []byte), _ func(int64)) error {
	if p.Path == "" {
		for shard := range h.chunks {
			emit(int64(shard), nil)
		}
		return nil
	}
	for key, err := range p.keys(ctx) {
		if err != nil {
			return err
		}
		hash := h.plan.Hash(key)
		shard := sets.ShardOf(hash, h.plan.Shards)
		c := binary.LittleEndian.AppendUint64(h.chunks[shard], hash)
		if len(c) >= h.full {
			h.send(ctx, shard, c, emit)
			c = make([]byte, 0, h.full) // the emitted chunk must not change
		}
		h.chunks[shard] = c
		h.keys++
	}
	return nil
}

func (h *hashFn) FinishBundle(ctx context.Context, emit func(int64, []byte), emitKeys func(int64)) {
	for shard, c := range h.chunks {
		if len(c) > 0 {
			h.send(ctx, shard, c, emit)
		}
	}
	emitKeys(h.keys)
	h.readCounter.Inc(ctx, h.keys)
	h.chunks = nil
}

func (h *hashFn) send(ctx context.Context, shard int, chunk []byte, emit func(int64, []byte)) {
	emit(int64(shard), chunk)
	h.chunkCounter.Inc(ctx, 1)
}
