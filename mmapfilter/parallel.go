package mmapfilter

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A worker is what one goroutine of a build keeps from task to task.
type worker struct {
	hashes, tmp []uint64
	read        int // hashes that the last load read, equal ones counted each
	line        layout.Line
	beyond      []uint64 // of the hashes of a line, those that it has no room for
	victims     []layout.Item
	crowd       layout.Crowd
	overflow    *spoolWriter
}

// manyHashes is how many hashes of a partition are gathered, 32 MiB, before equal ones
// are dropped. Hashes are uniform, so a partition has that many only if there are many
// billions of keys or a few keys have very many copies.
const manyHashes = 4 << 20

// load reads and sorts the hashes of the partitions [from, to). If distinct, it keeps
// one of each group of equal hashes.
func (w *worker) load(s *spool, from, to int, drop, distinct bool) ([]uint64, error) {
	n, limit := s.size(from, to), manyHashes
	if distinct {
		n = min(n, limit)
	}
	w.hashes, w.read = slices.Grow(w.hashes[:0], n), 0
	err := s.each(from, to, drop, func(chunk []uint64) {
		w.read += len(chunk)
		w.hashes = append(w.hashes, chunk...)
		if distinct && len(w.hashes) > limit {
			slices.Sort(w.hashes)
			w.hashes = slices.Compact(w.hashes)
			limit = max(limit, 2*len(w.hashes))
		}
	})
	if err != nil {
		return nil, err
	}
	w.tmp = slices.Grow(w.tmp[:0], len(w.hashes))
	sorted := sortHashes(w.hashes, w.tmp[:len(w.hashes)], s.prefixBits(to-from))
	if distinct {
		sorted = slices.Compact(sorted)
	}
	return sorted, nil
}

// parallel runs the tasks 0 to n-1 of a stage of the build, each once, on all workers.
// What they spool goes to overflows, if not nil. It ends early on the first error, a
// fault in the draft, or a cancelled context.
func (b *builder) parallel(ctx context.Context, overflows *spool, n int, task func(w *worker, i int) error) error {
	return forEach(ctx, b.options.Workers, n, b.draft.Data, func() (func(i int) error, func() error) {
		w := &worker{}
		run := func(i int) error { return task(w, i) }
		if overflows == nil {
			return run, func() error { return nil }
		}
		w.overflow = overflows.writer()
		return run, w.overflow.flush
	})
}

// forEach runs the tasks 0 to n-1, each once, on as many goroutines as there are
// workers. Each goroutine calls start once, then run for its tasks, then finish. A
// fault in data becomes the error of the task. After the first error or a cancelled
// context no further tasks start. A panic of a task becomes a panic of the caller,
// whose deferred functions clean up.
func forEach(ctx context.Context, workers, n int, data []byte, start func() (run func(i int) error, finish func() error)) error {
	var (
		group  sync.WaitGroup
		next   atomic.Int64
		mu     sync.Mutex
		first  error
		panics any
	)
	for range min(workers, n) {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if r := recover(); r != nil {
					next.Store(int64(n))
					mu.Lock()
					defer mu.Unlock()
					panics = r
				}
			}()
			run, finish := start()
			var err error
			for err == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					err = finish()
					break
				}
				if err = context.Cause(ctx); err == nil {
					if fault := recovery.Guard(data, func() { err = run(i) }); fault != nil {
						err = fault
					}
				}
			}
			if err != nil {
				next.Store(int64(n)) // no more tasks
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		}()
	}
	group.Wait()
	if panics != nil {
		panic(panics)
	}
	return first
}

// pieceChunks is how many chunks a task checks or makes checksums of: 1 MiB, which
// stays in a cache while first its chunks and then its lines are read.
const pieceChunks = 16

// pieces cuts a file into tasks: the chunks of piece i, and as large a part of
// the lines.
type pieces struct {
	g layout.Geometry
	n int
}

func newPieces(g layout.Geometry) pieces {
	return pieces{g, int((g.Chunks + pieceChunks - 1) / pieceChunks)}
}

func (p pieces) chunks(i int) (from, to int64) {
	return int64(i) * pieceChunks, min(int64(i+1)*pieceChunks, p.g.Chunks)
}

// bytes returns the size of the chunks of piece i.
func (p pieces) bytes(i int) int64 {
	first, end := p.chunks(i)
	from, _ := p.g.Chunk(first)
	_, to := p.g.Chunk(end - 1)
	return to - from
}

// lines returns the lines that start in the chunks of piece i.
func (p pieces) lines(i int) (from, to uint64) {
	first, end := p.chunks(i)
	start, _ := p.g.Chunk(first)
	_, stop := p.g.Chunk(end - 1)
	return p.g.LineFrom(start), p.g.LineFrom(stop)
}
