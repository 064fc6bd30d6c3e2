package crashsim

import (
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Heap is a volume in memory that never fails. It is for tests with several goroutines,
// since the race detector does not see the memory of a mapping.
type Heap struct {
	filter heapFile
	mu     struct {
		sync.Mutex
		logs [2]heapFile
		rng  rand.PCG
	}
}

type heapFile []uint64

func (f heapFile) Words() []uint64          { return f }
func (f heapFile) Store(word, value uint64) { atomic.StoreUint64(&f[word], value) }
func (f heapFile) Prefetch(uint64)          {}
func (f heapFile) Sync() error              { return nil }
func (f heapFile) Close() error             { return nil }

// NewHeap makes a volume with an empty filter.
func NewHeap(g layout.Geometry, seed uint64) *Heap {
	h := &Heap{filter: make(heapFile, g.SealedBytes/8)}
	copy(h.filter, emptyHead(g, seed))
	h.mu.rng.Seed(seed, 1)
	return h
}

func (h *Heap) Filter() recovery.File { return h.filter }
func (h *Heap) Named() error          { return nil }
func (h *Heap) Close() error          { return nil }

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

func (h *Heap) RemoveLogs() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.logs = [2]heapFile{}
	return nil
}

func (h *Heap) Random() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.rng.Uint64()
}
