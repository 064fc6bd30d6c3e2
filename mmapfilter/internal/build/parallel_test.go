package build

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestPieces checks that the pieces of a file have each chunk, byte and line exactly once, in order.
func TestPieces(t *testing.T) {
	for _, s := range tabletest.OneEach() {
		for _, lines := range []uint64{1, 100, 40_000, 1_000_003} {
			g, err := layout.NewGeometry(s.Kind, s.Params, lines)
			must(t, err)
			p := newPieces(g)
			chunk, line := int64(0), uint64(0)
			offset, _ := g.Chunk(0)
			for i := range p.n {
				firstChunk, endChunk := p.chunks(i)
				first, end := p.bytes(i)
				firstLine, endLine := p.lines(i)
				if firstChunk != chunk || first != offset || firstLine != line || endChunk == firstChunk {
					t.Fatalf("%s, %d lines: piece %d starts with chunk %d, offset %d and line %d, not %d, %d and %d", s, lines, i, firstChunk, first, firstLine, chunk, offset, line)
				}
				chunk, offset, line = endChunk, end, endLine
			}
			if _, end := g.Chunk(g.Chunks - 1); chunk != g.Chunks || offset != end || line != lines {
				t.Errorf("%s, %d lines: the pieces end at chunk %d, offset %d and line %d", s, lines, chunk, offset, line)
			}
		}
	}
}

// TestParallel checks that every task runs once. If a task fails or panics, or the context is cancelled,
// no further task may start. No two goroutines may have the same number at the same time.
func TestParallel(t *testing.T) {
	const n = 100
	broken := errors.New("broken")
	run := func(ctx context.Context, workers int, task func(i int) error) ([]atomic.Int64, error) {
		ran, busy := make([]atomic.Int64, n), make([]atomic.Bool, min(workers, n))
		return ran, Parallel(ctx, workers, n, nil, func(_ context.Context, worker, i int) error {
			if busy[worker].Swap(true) {
				t.Errorf("%d workers: two have number %d", workers, worker)
			}
			defer busy[worker].Store(false)
			ran[i].Add(1)
			return task(i)
		})
	}
	for _, workers := range []int{1, 3, 2 * n} {
		ran, err := run(context.Background(), workers, func(int) error { return nil })
		for i := range ran {
			if ran[i].Load() != 1 {
				t.Errorf("%d workers: task %d ran %d times", workers, i, ran[i].Load())
			}
		}
		if err != nil {
			t.Errorf("%d workers: %v", workers, err)
		}

		if workers > n {
			continue // all tasks start at once
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		for _, fail := range []func() error{
			func() error { return broken },
			func() error { cancel(broken); return nil },
		} {
			failed := make(chan struct{})
			ran, err := run(ctx, workers, func(i int) error {
				switch {
				case i == 5:
					defer close(failed)
					return fail()
				case i > 5:
					<-failed // otherwise the other goroutines might have run all tasks by then
				}
				return nil
			})
			if err != broken || workers == 1 && ran[6].Load() != 0 {
				t.Errorf("%d workers: %v; the task after a failed one ran %d times", workers, err, ran[6].Load())
			}
		}
	}
	defer func() {
		if r := recover(); r != broken {
			t.Errorf("recovered %v", r)
		}
	}()
	run(context.Background(), 2, func(i int) error {
		if i == 5 {
			panic(broken)
		}
		return nil
	})
	t.Error("a panic is lost")
}
