package tabletest

import (
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
	"pgregory.net/rapid"
)

// A Volume is a volume in the heap, where the race detector sees every load and every store that would
// otherwise be in mapped memory.
type Volume struct {
	NoHashes
	File    *File  // the filter file
	LogSync func() // called by every sync of a log, if not nil
	Mu      struct {
		sync.Mutex
		Logs   [2]*File
		Random uint64
	}
}

// A File is a file in the heap.
type File struct {
	Mem    []uint64
	Synced func() // called by Sync, if not nil
	Stored func() // called by Store, if not nil
}

// Words implements recovery.File.
func (f *File) Words() []uint64 { return f.Mem }

// Store implements recovery.File.
func (f *File) Store(word, value uint64) {
	atomic.StoreUint64(&f.Mem[word], value)
	if f.Stored != nil {
		f.Stored()
	}
}

// Prefetch implements recovery.File.
func (f *File) Prefetch(word uint64) { kernel.Prefetch(&f.Mem[word]) }

// Close implements recovery.File.
func (f *File) Close() error { return nil }

// Sync implements recovery.File.
func (f *File) Sync() error {
	if f.Synced != nil {
		f.Synced()
	}
	return nil
}

// Filter implements recovery.Volume.
func (v *Volume) Filter() recovery.File { return v.File }

// Whole implements recovery.Volume.
func (v *Volume) Whole() error { return nil }

// RequiresHashes implements recovery.Volume.
func (v *Volume) RequiresHashes() bool { return false }

// Catch implements recovery.Volume. A panic whose value has an address is a fault that a test causes.
func (v *Volume) Catch(f func(), failed func(error)) (fault error) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		fault = fmt.Errorf("panic: %v", r)
		failed(fault)
		if _, ok := r.(interface{ Addr() uintptr }); !ok {
			panic(r)
		}
	}()
	f()
	return nil
}

// Named implements recovery.Volume.
func (v *Volume) Named() error { return nil }

// Close implements recovery.Volume.
func (v *Volume) Close() error { return nil }

// OpenLog implements recovery.Volume.
func (v *Volume) OpenLog(name recovery.LogName) (recovery.File, error) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	if v.Mu.Logs[name] == nil {
		return nil, fs.ErrNotExist
	}
	return v.Mu.Logs[name], nil
}

// CreateLog implements recovery.Volume.
func (v *Volume) CreateLog(bytes int64) (recovery.File, error) {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.Mu.Logs[recovery.NextLog] = &File{Mem: make([]uint64, bytes/8), Synced: v.LogSync}
	return v.Mu.Logs[recovery.NextLog], nil
}

// KeepLog implements recovery.Volume.
func (v *Volume) KeepLog() error {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.Mu.Logs = [2]*File{recovery.CurrentLog: v.Mu.Logs[recovery.NextLog]}
	return nil
}

// RemoveLogs implements recovery.Volume.
func (v *Volume) RemoveLogs() error {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.Mu.Logs = [2]*File{}
	return nil
}

// SyncNames implements recovery.Volume.
func (v *Volume) SyncNames() error { return nil }

// DropLargePages implements recovery.Volume.
func (*Volume) DropLargePages(int64) (next, dropped int64) { return 0, 0 }

// Random implements recovery.Volume.
func (v *Volume) Random() uint64 {
	v.Mu.Lock()
	defer v.Mu.Unlock()
	v.Mu.Random++
	return v.Mu.Random
}

// Volume returns a volume with an empty filter of a shape.
func (s Shape) Volume(tb rapid.TB, lines uint64) *Volume {
	tb.Helper()
	return s.volume(tb, lines, func(*layout.Superblock) {})
}

// Keeping is Volume for a filter that keeps its hashes but has lost NAME.hashes. Its log
// still has the history.
func (s Shape) Keeping(tb rapid.TB, lines uint64) *Volume {
	tb.Helper()
	return s.volume(tb, lines, func(sb *layout.Superblock) { sb.SetKeepsHashes(false) })
}

func (s Shape) volume(tb rapid.TB, lines uint64, change func(sb *layout.Superblock)) *Volume {
	tb.Helper()
	g := s.Geometry(tb, lines)
	var sb layout.Superblock
	sb.SetGeneration(1)
	sb.SetGeometry(g)
	sb.SetSeed(1)
	sb.SetCapacity(g.Slots())
	sb.SetTargetRate(0.01)
	sb.SetDesignLoad(1)
	sb.SetState(layout.Clean)
	change(&sb)
	sb.Sign()
	v := &Volume{File: &File{Mem: make([]uint64, g.SealedBytes/8)}}
	file := recovery.Bytes(v.File.Mem)
	for i := range layout.SuperblockSlots {
		copy(file[i*layout.SuperblockBytes:], sb[:])
	}
	return v
}

// Create writes the file of an empty filter of a shape.
func (s Shape) Create(tb rapid.TB, path string, lines uint64) {
	tb.Helper()
	if err := os.WriteFile(path, recovery.Bytes(s.Volume(tb, lines).File.Mem), 0o666); err != nil {
		tb.Fatal(err)
	}
}

// CreateKeeping is Create for a filter that keeps its hashes, with its NAME.hashes.
func (s Shape) CreateKeeping(tb rapid.TB, path string, lines uint64) {
	tb.Helper()
	var pages [hashes.FirstBase * hashes.PageWords]uint64
	h := hashes.Header{Identity: 1, Ages: []hashes.Age{{}}}
	_, tail, err := hashes.NewBase(h, func(number uint64, page []uint64) error {
		copy(pages[number*hashes.PageWords:], page)
		return nil
	}).End()
	if err == nil {
		err = os.WriteFile(path+".hashes", recovery.Bytes(pages[:]), 0o666)
	}
	v := s.volume(tb, lines, func(sb *layout.Superblock) {
		sb.SetKeepsHashes(false)
		sb.SetHashes(layout.Hashes{Identity: h.Identity, Pages: tail.Number, Check: tail.Before})
		sb.SetDescent(h.Identity)
	})
	if err == nil {
		err = os.WriteFile(path, recovery.Bytes(v.File.Mem), 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// NoHashes are the methods of a recovery.Volume that has no file of hashes, and no set of changes.
type NoHashes struct{}

// OpenHashes implements recovery.Volume.
func (NoHashes) OpenHashes(recovery.HashesName) (recovery.HashFile, error) {
	return nil, fs.ErrNotExist
}

// KeepHashes implements recovery.Volume.
func (NoHashes) KeepHashes() error { return fs.ErrNotExist }

// RemoveHashes implements recovery.Volume.
func (NoHashes) RemoveHashes(recovery.HashesName) error { return nil }

// CreateSet implements recovery.Volume.
func (NoHashes) CreateSet() (recovery.HashFile, error) { return nil, fs.ErrInvalid }

// OpenSet implements recovery.Volume.
func (NoHashes) OpenSet() (recovery.HashFile, error) { return nil, fs.ErrNotExist }

// RemoveSet implements recovery.Volume.
func (NoHashes) RemoveSet() error { return nil }

// TakePlace implements recovery.Volume.
func (NoHashes) TakePlace(recovery.Volume) (bool, error) { return false, fs.ErrInvalid }

// Now implements recovery.Volume.
func (NoHashes) Now() uint64 { return 1 }
