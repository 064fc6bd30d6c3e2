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
// The first error cancels the context that run gets, and becomes its cause. Once this context is
// cancelled, no further tasks start. A panic in a task becomes a panic in the caller, whose deferred
// functions clean up. After each task, a goroutine lets others run. Otherwise, with more goroutines than
// processors, operations would wait for 10 ms and longer.
func Parallel(ctx context.Context, workers, n int, data []byte, run func(ctx context.Context, worker, i int) error) error {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		group    sync.WaitGroup
		next     atomic.Int64
		panicked atomic.Pointer[any]
	)
	for worker := range min(workers, n) {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if r := recover(); r != nil {
					panicked.Store(&r)
					stop(errStopped)
				}
			}()
			for ; inner.Err() == nil; runtime.Gosched() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				err := context.Cause(ctx) // inner may learn of the end of ctx a little later
				if err == nil {
					if fault := osfile.Catch(data, func() { err = run(inner, worker, i) }); fault != nil {
						err = fault
					}
				}
				if err != nil {
					stop(err)
				}
			}
		}()
	}
	group.Wait()
	if r := panicked.Load(); r != nil {
		panic(*r)
	}
	return context.Cause(inner)
}
