package writer

import (
	"time"
)

// ready makes room for one operation. It releases w.mu while it waits. REQUIRES: w.mu.
func (w *Writer) ready() error {
	paid := false // an operation sleeps only once: what is owed after that comes from other operations
	for {
		if w.mu.closed != nil {
			return w.mu.closed
		}
		if err := w.sound(); err != nil {
			return err
		}
		if err := w.begin(); err != nil {
			return err
		}
		room := w.protocol.Room(w.most)
		if room && !w.segmentIsFull(1) {
			if paid || !w.mu.pace.due() {
				return nil
			}
			paid = true
			w.sleep(w.mu.pace.pay())
			continue
		}
		if err := w.makeRoom(room); err != nil {
			return err
		}
	}
}

// makeRoom makes room in the segment if the log has room (inLog), and otherwise in the log. It releases
// w.mu meanwhile. REQUIRES: w.mu.
func (w *Writer) makeRoom(inLog bool) error {
	w.mu.waits++
	w.mu.Unlock()
	defer w.mu.Lock()
	defer w.stalled(time.Now())
	if inLog {
		return w.Sync()
	}
	return w.nextHalf()
}

// sleep sleeps, and releases w.mu meanwhile. REQUIRES: w.mu.
func (w *Writer) sleep(d time.Duration) {
	w.mu.waits++
	w.mu.Unlock()
	defer w.mu.Lock()
	defer w.stalled(time.Now())
	time.Sleep(d)
}

// segmentIsFull reports whether the segment might have no room for n more operations.
func (w *Writer) segmentIsFull(n int) bool {
	p := w.overlay.Load()
	most := segmentWords
	if w.Work != nil {
		most = MaxWords // reached only if the Work cannot commit fast enough
	}
	return p != nil && p.Active().Len() >= most-n*w.most
}

// sound returns an error if the writer has failed, or if a panic has left an operation half done. (After
// a panic, w.mu is unlocked before Catch makes the writer fail.) REQUIRES: w.mu.
func (w *Writer) sound() error {
	if err := w.protocol.Err(); err != nil {
		return err
	}
	if w.mu.op.begun() {
		return w.protocol.Fail(errCutOff)
	}
	return nil
}
