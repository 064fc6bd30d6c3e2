package recovery

import (
	"encoding/binary"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// Begin makes the file ready for the first operation (W7): it creates a durable log of
// logBytes bytes, and then makes a superblock in state live durable.
func (w *Writer) Begin(logBytes int64) error {
	if err := w.Err(); err != nil {
		return err
	}
	// CreateLog may remove the log of a dead writer, so the superblock that does not
	// need that log must be durable first.
	if err := w.settle(); err != nil {
		return err
	}
	next := w.next(layout.Live)
	if w.sb.State() == layout.Sealed {
		// The trailer, and copies of the file, have the UUID of the old content.
		next.SetUUID(wal.NextUUID(w.sb.UUID(), next.LogSalt()))
	}
	return w.startLog(&next, logBytes)
}

// startLog creates the log of a live superblock. The log and its header are durable before
// the superblock that has its salt.
func (w *Writer) startLog(next *layout.Superblock, logBytes int64) error {
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	log, err := w.vol.CreateLog(logBytes)
	if err != nil {
		return w.Fail(fmt.Errorf("create the log: %w", err))
	}
	next.SetLogBytes(logBytes)
	wal.PutHeader(log.Store, wal.Header{
		UUID: next.UUID(), Generation: next.Generation(), Salt: next.LogSalt(), Bytes: logBytes,
	})
	if err = w.sync("the log", log); err == nil {
		err = w.putSuperblock(next)
	}
	if err != nil {
		log.Close()
		return err
	}
	w.log = log
	w.lw = wal.NewWriter(log.Words(), storeRun(log), next.Generation(), next.LogSalt(), next.CheckpointLSN())
	d := *w.durable.Load()
	d.lsn = w.lw.LSN()
	w.durable.Store(&d)
	if err := w.vol.KeepLog(); err != nil {
		return w.Fail(fmt.Errorf("rename the log: %w", err))
	}
	w.growth.Lock()
	w.growth.live = true
	w.growth.Unlock()
	return nil
}

// Clean makes the file complete without its log (W7). Every segment must have been
// hardened, and none may be open.
func (w *Writer) Clean() error {
	if err := w.Err(); err != nil {
		return err
	}
	if w.log == nil {
		return w.whole()
	}
	if err := w.keepAll(); err != nil {
		return err
	}
	if err := w.syncRegion(); err != nil {
		return err
	}
	next := w.next(layout.Clean)
	return w.rest(&next)
}

// BeginSeal returns the superblock that Seal stores. Every segment must have been hardened, and none
// may be open. Nothing may happen between BeginSeal and Seal.
func (w *Writer) BeginSeal() (*layout.Superblock, error) {
	if err := w.Err(); err != nil {
		return nil, err
	}
	if err := w.settle(); err != nil {
		return nil, err
	}
	next := w.next(layout.Sealed)
	next.Sign()
	// The checksums cover what the cache shows. After a failed sync of an earlier writer, some
	// of it may be only in the cache. So store again what recovery does not: the runtime page.
	for i := range uint64(layout.RuntimeWords) {
		w.storeRuntime(i, w.filter.Words()[layout.WordRuntime+i])
	}
	return &next, nil
}

// Seal is Clean with a checksum for every chunk. sb is the superblock from BeginSeal, and tail has the
// checksums and the trailer that go with sb.
func (w *Writer) Seal(sb *layout.Superblock, tail []byte) error {
	if err := w.Err(); err != nil {
		return err
	}
	for i := 0; i < len(tail); i += 8 {
		w.filter.Store(uint64(w.geometry.OffTable+int64(i))/8, binary.LittleEndian.Uint64(tail[i:]))
	}
	if err := w.keepAll(); err != nil { // not earlier: after an error, operations go on in this generation
		return err
	}
	sb.SetHashes(w.kept.counted)
	if err := w.syncRegion(); err != nil {
		return err
	}
	return w.rest(sb)
}

// rest puts a file whose mapping is durable to rest. It stores the superblock in one slot
// and, once this slot is durable, in all slots, so that the file can be read if a slot is
// damaged. Then it removes the log.
func (w *Writer) rest(sb *layout.Superblock) error {
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	if err := w.putSuperblock(sb); err != nil {
		return err
	}
	w.history = w.sb.Kept() // if the file has departed, without the position in the other history
	if err := w.copySuperblock(allSlots &^ (1 << w.slot)); err != nil {
		return err
	}
	w.growth.Lock()
	defer w.growth.Unlock()
	w.closeLogs()
	if err := w.vol.RemoveLogs(); err != nil {
		return w.Fail(fmt.Errorf("remove the log: %w", err))
	}
	return nil
}

// keepAll keeps the hashes of everything that has been hardened. No segment may be open.
func (w *Writer) keepAll() error {
	if c := w.underWay.Load(); c != nil {
		if err := w.kept.keepEnded(c.ended, c.generation, c.salt); err != nil {
			return err
		}
	}
	if w.lw == nil {
		return nil
	}
	generation, salt := w.lw.Generation()
	return w.kept.keepEnded(w.log, generation, salt)
}

// Detach lets go of the files at once, and returns a function that closes them and releases the
// lock. Neither Detach nor the function writes anything: the next open recovers a live file.
// Closing a file that has no name any more may take long. So the function may run while other
// code goes on.
func (w *Writer) Detach() (closeFiles func() error) {
	logs := w.takeLogs()
	kept := w.kept.file
	w.kept.file = nil
	w.kept.lose(errClosed)
	return func() error {
		for _, log := range logs {
			closeLog(log)
		}
		if kept != nil {
			kept.Close()
		}
		return w.vol.Close()
	}
}

// closeLogs closes all logs. REQUIRES: w.growth, unless nobody else uses the writer.
func (w *Writer) closeLogs() {
	for _, log := range w.takeLogs() {
		closeLog(log)
	}
}

// takeLogs lets go of all logs, and returns them. REQUIRES: w.growth, unless nobody else uses the
// writer.
func (w *Writer) takeLogs() []File {
	logs := []File{w.log, w.growth.larger}
	if c := w.underWay.Load(); c != nil {
		logs = append(logs, c.old)
	}
	w.log, w.lw = nil, nil
	w.growth.larger, w.growth.live = nil, false
	w.underWay.Store(nil)
	return logs
}
