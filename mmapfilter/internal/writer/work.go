package writer

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Work does what goes on beside the operations of a writer.
type Work struct {
	// These never change. Files are the files of the writer, locked and mapped. Interval is the time
	// from the first pending operation to the commit; if it is not above 0, only large segments are
	// committed.
	Writer   *Writer
	Files    *osfile.Files
	Interval time.Duration
	// OnError, if not nil, is called with errors of the background.
	OnError func(error)

	group sync.WaitGroup // of the goroutines, and of the timer
	mu    struct {
		sync.Mutex
		timer         *time.Timer // until the next commit, or nil
		committing    bool
		growing       bool
		checkpointing bool
		room          int // the room that a checkpoint after the current one must make; 0 if none is due
		closed        bool
	}
}

// NewWork returns a Work for a writer. It begins once Writer.Work is set to it.
func NewWork(files *osfile.Files, w *Writer, interval time.Duration) *Work {
	return &Work{Writer: w, Files: files, Interval: interval}
}

// KeepMapping keeps the mapping that lookups load from until k is garbage. Without this call,
// closing the files unmaps it.
func (k *Work) KeepMapping() {
	k.Files.KeepMapping()
	runtime.AddCleanup(k, func(m *osfile.Mapping) { m.Unmap() }, k.Files.Mapping())
}

// Catch runs f. A fault in a mapped file makes the writer fail (W8), and so does a panic, since it may
// leave an operation half done.
func (k *Work) Catch(f func() error) (err error) {
	if k.Files.Catch(func() { err = f() }, k.Writer.Fail) != nil {
		err = k.Writer.Err()
	}
	runtime.KeepAlive(k) // keeps the mapping until here
	return err
}

// Report passes an error from the background to OnError, unless the error only says that another writer
// has taken over or that the filter is closed.
func (k *Work) Report(err error) {
	if err != nil && err != ErrMoved && err != ErrClosed && k.OnError != nil {
		k.OnError(err)
	}
}

// Close ends the work, commits and checkpoints, and closes the files.
func (k *Work) Close() error {
	k.stop()
	return errors.Join(k.Catch(k.Writer.Clean), k.Writer.Close())
}

// Retire ends the work and closes the files without writing to them.
func (k *Work) Retire() error {
	k.stop()
	return k.Writer.Close()
}

// stop lets no further work begin, and waits until all work has ended.
func (k *Work) stop() {
	k.mu.Lock()
	k.mu.closed = true
	if k.mu.timer != nil && k.mu.timer.Stop() {
		k.group.Done()
	}
	k.mu.Unlock()
	k.group.Wait()
}
