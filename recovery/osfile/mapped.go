package osfile

import (
	"errors"
	"os"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A mappedFile is a File of the operating system. The filter is mapped twice, for loads
// and for stores: a sync write-protects only the pages that are mapped for stores. See
// leavePageTable.
type mappedFile struct {
	loads, stores *Mapping // the same mapping for a log
	file          *os.File
	words, stored []uint64 // of loads and of stores
	sync          func(stores *Mapping, file *os.File) error
	kept          bool // Close must not unmap loads
}

func (f *mappedFile) Words() []uint64          { return f.words }
func (f *mappedFile) Store(word, value uint64) { atomic.StoreUint64(&f.stored[word], value) }
func (f *mappedFile) Prefetch(word uint64)     { kernel.Prefetch(&f.stored[word]) }
func (f *mappedFile) Sync() error              { return f.sync(f.stores, f.file) }

func (f *mappedFile) Close() error {
	var err error
	if f.loads != f.stores {
		err = f.stores.Unmap()
	}
	if !f.kept {
		err = errors.Join(err, f.loads.Unmap())
	}
	return errors.Join(err, f.file.Close())
}

// A logFile is a mappedFile that is not read while it is written. So it uses plain stores,
// which are much cheaper on amd64 than ordered stores. In whatever order the processor makes
// stores visible, the death of a process leaves exactly the stores before some instruction.
type logFile struct{ *mappedFile }

func (f logFile) Store(word, value uint64) { f.stored[word] = value }

// StoreRun does not use copy, which guarantees no order: the last word of a record has its
// check and must be stored last, so that a record that is cut off has none.
func (f logFile) StoreRun(word uint64, values []uint64) {
	for _, v := range values {
		f.stored[word] = v
		word++
	}
}

// mapLog maps a log of size bytes, once for loads and stores: no lookup loads from it.
func mapLog(f *os.File, size int64) (recovery.File, error) {
	m, err := mapRandom(f, size, true)
	if err != nil {
		return nil, err
	}
	words := recovery.Words(m.Data)
	return logFile{&mappedFile{loads: m, stores: m, file: f, words: words, stored: words, sync: syncLog}}, nil
}

// mapRandom is Map for a file that is written to, without read-ahead (R4).
func mapRandom(f *os.File, size int64, writable bool) (*Mapping, error) {
	m, err := Map(f, size, writable)
	if err != nil {
		return nil, err
	}
	if err := m.AdviseRandom(); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return m, nil
}
