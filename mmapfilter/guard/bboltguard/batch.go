package bboltguard

import (
	"errors"
	"fmt"
	"time"
)

// Batch is bbolt.DB.Batch, and may also run fn several times. The filter gets only the keys of the
// transaction that is committed.
func (d *DB) Batch(fn func(*Tx) error) error {
	done := make(chan error, 1)
	d.batches.Lock()
	b := d.batches.batch
	if b == nil || len(b.calls) >= d.MaxBatchSize {
		b = &batch{db: d}
		b.timer = time.AfterFunc(d.MaxBatchDelay, b.trigger)
		d.batches.batch = b
	}
	b.calls = append(b.calls, call{fn, done})
	if len(b.calls) >= d.MaxBatchSize {
		go b.trigger()
	}
	d.batches.Unlock()
	err := <-done
	if err == errSolo {
		return d.Update(fn)
	}
	return err
}

// errSolo tells a caller to run its function in a transaction of its own.
var errSolo = errors.New("run it alone")

func (b *batch) trigger() { b.once.Do(b.run) }

func (b *batch) run() {
	b.db.batches.Lock()
	b.timer.Stop()
	if b.db.batches.batch == b {
		b.db.batches.batch = nil
	}
	b.db.batches.Unlock()
	for len(b.calls) > 0 {
		failed := -1
		err := b.db.Update(func(t *Tx) error {
			for i, c := range b.calls {
				if err := safely(c.fn, t); err != nil {
					failed = i
					return err
				}
			}
			return nil
		})
		if failed < 0 {
			for _, c := range b.calls {
				c.done <- err
			}
			return
		}
		b.calls[failed].done <- errSolo
		last := len(b.calls) - 1
		b.calls[failed], b.calls = b.calls[last], b.calls[:last]
	}
}

// safely runs fn and turns a panic into an error. When fn is then run alone, it may panic again.
func safely(fn func(*Tx) error, t *Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn(t)
}
