package recovery

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// Internals of a writer for the tests. These are in a package of their own because they need osfile.

// Abandon closes the files as if the writer died: a live file stays live.
func (w *Writer) Abandon() error { return w.Detach()() }

// Checkpoint makes a checkpoint, with a log of so many bytes.
func (w *Writer) Checkpoint(logBytes int64) error {
	if size, _ := w.LogBytes(); size != logBytes {
		if err := w.GrowLog(logBytes); err != nil {
			return err
		}
	}
	w.BeginCheckpoint()
	return w.EndCheckpoint()
}

// StoreSame appends an operation that stores a word's own value to it.
func (w *Writer) StoreSame(word uint64) {
	w.Append([]wal.Store{{Word: word, Value: w.Words()[word]}}, 0, layout.Insert, 0)
}

func (w *Writer) MustKeep() bool         { return w.kept.must }
func (w *Writer) KeptFile() HashFile     { return w.kept.file }
func (w *Writer) KeptTail() *hashes.Tail { return &w.kept.tail }
func (w *Writer) KeepAll() error         { return w.keepAll() }
func (w *Writer) Volume() Volume         { return w.vol }
func (w *Writer) Log() File              { return w.log }
func (w *Writer) DurableLSN() uint64     { return w.durable.Load().lsn }
func (w *Writer) LogEnd() uint64         { return w.lw.End() }

func (s Segment) Commit() wal.Commit { return s.commit }
func (s Segment) Salt() uint64       { return s.salt }
func (s Segment) Start() uint64      { return s.start }
