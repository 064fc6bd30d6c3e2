package build

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Parallel runs the tasks 0 to n-1, each once, on at most workers goroutines. run gets the number of
// its goroutine, from 0. A fault in data, a mapping that the tasks use, becomes the error of the task.
// After the first error or a cancelled context no further tasks start. A panic in a task becomes a
// panic in the caller, whose deferred functions clean up. After each task, a goroutine lets others run.
// Otherwise, with more goroutines than processors, operations would wait for 10 ms and longer.
func Parallel(ctx context.Context, workers, n int, data []byte, run func(worker, i int) error) error {
	var (
		group  sync.WaitGroup
		next   atomic.Int64
		mu     sync.Mutex
		first  error
		panics any
	)
	for worker := range min(workers, n) {
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
			for ; ; runtime.Gosched() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				err := context.Cause(ctx)
				if err == nil {
					if fault := osfile.Catch(data, func() { err = run(worker, i) }); fault != nil {
						err = fault
					}
				}
				if err != nil {
					next.Store(int64(n)) // no more tasks
					mu.Lock()
					defer mu.Unlock()
					if first == nil {
						first = err
					}
					return
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
