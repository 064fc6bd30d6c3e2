package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A buildFn builds a shard from its chunks, in one pass, and emits its sets.Built in JSON.
type buildFn struct {
	Plan   []byte
	Dir    string // path or URL
	Memory int64

	plan         *sets.Plan
	builtCounter beam.Counter
}

// An assembleFn gets the sets.Built of all shards, and the numbers of keys of all bundles. It writes
// the manifest.
type assembleFn struct {
	Plan     []byte
	Manifest string // path or URL

	plan    *sets.Plan
	counter func(name string) beam.Counter
}

func init() {
	register.DoFn4x1[context.Context, int64, func(*[]byte) bool, func([]byte), error](&buildFn{})
	register.DoFn4x1[context.Context, int, func(*[]byte) bool, func(*int64) bool, error](&assembleFn{})
	register.Emitter1[[]byte]()
	register.Iter1[[]byte]()
	register.Iter1[int64]()
}

func (b *buildFn) Setup() (err error) {
	b.builtCounter = beam.NewCounter(metrics, "built")
	b.plan, err = sets.DecodePlan("plan", b.Plan)
	return err
}

func (b *buildFn) ProcessElement(ctx context.Context, shard int64, chunks func(*[]byte) bool, emit func([]byte)) error {
	built, err := placeOf(b.Dir).build(ctx, b.plan, int(shard), sets.Work{MemoryBudget: b.Memory}, hashesOf(chunks))
	if err != nil {
		return fmt.Errorf("shard %d: %w", shard, err)
	}
	text, err := json.Marshal(built)
	if err != nil {
		return err
	}
	b.builtCounter.Inc(ctx, 1)
	emit(text)
	return nil
}

// hashesOf yields the hashes of chunks. If the chunks cannot be read, the iterator of Beam panics;
// the builder then removes what it has written so far.
func hashesOf(chunks func(*[]byte) bool) iter.Seq2[[]uint64, error] {
	return func(yield func([]uint64, error) bool) {
		var chunk []byte
		var hashes []uint64
		for chunks(&chunk) {
			if len(chunk)%hashBytes != 0 {
				yield(nil, fmt.Errorf("a chunk has %d bytes, not a multiple of %d", len(chunk), hashBytes))
				return
			}
			hashes = hashes[:0]
			for ; len(chunk) > 0; chunk = chunk[hashBytes:] {
				hashes = append(hashes, binary.LittleEndian.Uint64(chunk))
			}
			if !yield(hashes, nil) {
				return
			}
		}
	}
}

func (a *assembleFn) Setup() (err error) {
	a.counter = func(name string) beam.Counter { return beam.NewCounter(metrics, name) }
	a.plan, err = sets.DecodePlan("plan", a.Plan)
	return err
}

func (a *assembleFn) ProcessElement(ctx context.Context, _ int, texts func(*[]byte) bool, keys func(*int64) bool) error {
	built := make([]*sets.Built, a.plan.Shards)
	for text := []byte(nil); texts(&text); {
		b := new(sets.Built)
		if err := json.Unmarshal(text, b); err != nil {
			return err
		}
		if b.Shard < 0 || b.Shard >= len(built) || built[b.Shard] != nil {
			return fmt.Errorf("shard %d is not one of %d shards, or has been built twice", b.Shard, len(built))
		}
		built[b.Shard] = b
	}
	read := int64(0)
	for n := int64(0); keys(&n); {
		read += n
	}
	dir, name := split(a.Manifest)
	s, err := placeOf(dir).assemble(ctx, a.plan, uint64(read), built, name)
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	log.Infof(ctx, "%s: %d shards, %d keys read, %d items, %d bytes", a.Manifest, s.Shards, s.Read, s.Keys, s.Bytes)
	a.counter("shards").Inc(ctx, int64(s.Shards))
	a.counter("items").Inc(ctx, int64(s.Keys))
	a.counter("bytes").Inc(ctx, s.Bytes)
	return nil
}
