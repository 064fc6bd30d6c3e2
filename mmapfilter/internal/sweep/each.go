package sweep

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// Each runs the tasks 0 to n-1, each once, on at most workers goroutines. A goroutine calls
// start once, then run for each of its tasks, then finish. A fault in data, a mapping that the
// tasks use, becomes the error of the task. After the first error or a cancelled context no
// further tasks start. A panic in a task becomes a panic in the caller, whose deferred functions
// clean up.
func Each(ctx context.Context, workers, n int, data []byte, start func() (run func(i int) error, finish func() error)) error {
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
					if fault := recovery.Catch(data, func() { err = run(i) }); fault != nil {
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
