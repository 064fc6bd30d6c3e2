package crashsim

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Heap is a volume in memory that never fails. It is for tests with several goroutines,
// since the race detector does not see the memory of a mapping.
type Heap struct {
	filter heapFile
	mu     struct {
		sync.Mutex
		logs   [2]heapFile
		hashes [2]*heapHashes
		rng    rand.PCG
		clock  uint64
	}
}

type heapFile []uint64

func (f heapFile) Words() []uint64          { return f }
func (f heapFile) Store(word, value uint64) { atomic.StoreUint64(&f[word], value) }
func (f heapFile) Prefetch(uint64)          {}
func (f heapFile) Sync() error              { return nil }
func (f heapFile) Close() error             { return nil }

// NewHeap makes a volume with an empty filter. keep says whether it keeps its hashes.
func NewHeap(g layout.Geometry, seed uint64, keep bool) *Heap {
	h := &Heap{filter: make(heapFile, g.SealedBytes/8)}
	copy(h.filter, emptyHead(g, seed, keep))
	h.mu.rng.Seed(seed, 1)
	if keep {
		header := hashes.Header{Identity: identityOf(seed)}
		h.mu.hashes[recovery.CurrentHashes] = &heapHashes{[]hashes.Page{*header.Page(0), {}, {}}}
	}
	return h
}

func (h *Heap) Filter() recovery.File { return h.filter }
func (h *Heap) Named() error          { return nil }
func (h *Heap) RequiresHashes() bool  { return false }

func (h *Heap) Catch(f func(), failed func(error)) error {
	f()
	return nil
}

func (h *Heap) Close() error { return nil }

func (h *Heap) OpenLog(name recovery.LogName) (recovery.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.logs[name] == nil {
		return nil, fs.ErrNotExist
	}
	return h.mu.logs[name], nil
}

func (h *Heap) CreateLog(bytes int64) (recovery.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.logs[recovery.NextLog] = make(heapFile, bytes/8)
	return h.mu.logs[recovery.NextLog], nil
}

func (h *Heap) KeepLog() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.logs = [2]heapFile{recovery.CurrentLog: h.mu.logs[recovery.NextLog]}
	return nil
}

func (h *Heap) SyncNames() error { return nil }

func (h *Heap) RemoveLogs() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.logs = [2]heapFile{}
	return nil
}

// heapHashes are the pages of a file of hashes.
type heapHashes struct{ pages []hashes.Page }

func (f *heapHashes) Pages() (uint64, error) { return uint64(len(f.pages)), nil }
func (f *heapHashes) Sync() error            { return nil }
func (f *heapHashes) Close() error           { return nil }

func (f *heapHashes) ReadPage(number uint64, p *hashes.Page) error {
	if number >= uint64(len(f.pages)) {
		return io.EOF
	}
	*p = f.pages[number]
	return nil
}

func (f *heapHashes) WritePage(number uint64, p *hashes.Page) error {
	for uint64(len(f.pages)) <= number {
		f.pages = append(f.pages, hashes.Page{})
	}
	f.pages[number] = *p
	return nil
}

func (f *heapHashes) Truncate(pages uint64) error {
	f.pages = f.pages[:min(pages, uint64(len(f.pages)))]
	return nil
}

func (h *Heap) OpenHashes(name recovery.HashesName) (recovery.HashFile, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.hashes[name] == nil {
		return nil, fs.ErrNotExist
	}
	return h.mu.hashes[name], nil
}

func (h *Heap) KeepHashes() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.hashes = [2]*heapHashes{recovery.CurrentHashes: h.mu.hashes[recovery.NextHashes]}
	return nil
}

func (h *Heap) RemoveHashes(name recovery.HashesName) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.hashes[name] = nil
	return nil
}

func (h *Heap) TakePlace(recovery.Volume) (bool, error) { return false, errors.ErrUnsupported }

// Now returns a time that goes on by a third of a second.
func (h *Heap) Now() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.clock += 333_333_333
	return h.mu.clock
}

func (h *Heap) Random() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rng.Uint64()
}
