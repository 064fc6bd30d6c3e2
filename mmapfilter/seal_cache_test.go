package mmapfilter

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A cachedFile is a file with separate contents in the page cache and on the disk. A sync that
// fails writes none of the stored words, or every other one, and counts all of them as written.
type cachedFile struct {
	*tabletest.File
	volume *cachedVolume
	disk   []uint64
	dirty  map[uint64]struct{}
}

func (f *cachedFile) Store(word, value uint64) {
	f.File.Store(word, value)
	f.dirty[word] = struct{}{}
}

var errCached = errors.New("input/output error")

func (f *cachedFile) Sync() error {
	v := f.volume
	v.syncs++
	fails := v.syncs == v.failing
	for word := range f.dirty {
		if !fails || v.half && word%2 == 0 {
			f.disk[word] = f.Mem[word]
		}
	}
	clear(f.dirty)
	if fails {
		return errCached
	}
	return nil
}

// A cachedVolume is a volume in the heap of which one sync fails, of the filter file or of a
// log.
type cachedVolume struct {
	*tabletest.Volume
	file           *cachedFile
	syncs, failing int
	half           bool
}

func newCachedVolume(t *testing.T, failing int, half bool) *cachedVolume {
	v := &cachedVolume{Volume: compact26.Volume(t, 3), failing: failing, half: half}
	v.file = &cachedFile{v.File, v, slices.Clone(v.File.Mem), map[uint64]struct{}{}}
	return v
}

func (v *cachedVolume) Filter() recovery.File { return v.file }

// A countedLog has no disk: no power is lost here while there is a log.
type countedLog struct {
	recovery.File
	volume *cachedVolume
}

func (l countedLog) Sync() error {
	if l.volume.syncs++; l.volume.syncs == l.volume.failing {
		return errCached
	}
	return nil
}

func (v *cachedVolume) CreateLog(bytes int64) (recovery.File, error) {
	f, err := v.Volume.CreateLog(bytes)
	return countedLog{f, v}, err
}

func (v *cachedVolume) OpenLog(name recovery.LogName) (recovery.File, error) {
	f, err := v.Volume.OpenLog(name)
	if err != nil {
		return nil, err
	}
	return countedLog{f, v}, nil
}

// TestSealStoresWhatIsInTheCache covers W6 and F13 after a failed sync. The checksums of a
// sealed file are over the contents of the cache, so the disk must have all of it, including the
// words of the runtime page, which are in no log. Each sync of a life fails in turn; the filter
// is opened again, on the same cache, and sealed.
func TestSealStoresWhatIsInTheCache(t *testing.T) {
	for _, half := range []bool{false, true} {
		failing := 1
		for ; sealAfterFailure(t, newCachedVolume(t, failing, half)); failing++ {
		}
		if t.Logf("%d syncs", failing-1); failing < 20 {
			t.Error("too few")
		}
	}
}

// sealAfterFailure lives a life up to the sync that fails, and reports whether there was one.
func sealAfterFailure(t *testing.T, v *cachedVolume) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	var keys []uint64
	live := func(w *writer.Writer, err error) error {
		for range 3 {
			for range 6 {
				if err == nil {
					keys = append(keys, rng.Uint64())
					err = w.Insert(keys[len(keys)-1])
				}
			}
			for _, call := range []func() error{
				func() error { return w.SyncAt(func(uint64) uint64 { return 1 }) },
				func() error { _, err := w.Delete(keys[0]); keys = keys[1:]; return err },
				func() error { return w.Sync() },
				w.Checkpoint,
				func() error { return w.Insert(keys[0]) },
				func() error { keys = append(keys, keys[0]); return w.Sync() },
				func() error { return w.Seal(context.Background()) },
			} {
				if err == nil {
					err = call()
				}
			}
		}
		return err
	}
	open := func() (*writer.Writer, error) {
		w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
		return w, err
	}
	if err := live(open()); err != nil && !errors.Is(err, errCached) {
		t.Fatal(err)
	} else if err == nil && v.syncs < v.failing {
		return false
	} else if err == nil {
		t.Errorf("sync %d failed, and nothing says so", v.failing)
	}
	w, err := open()
	if err == nil {
		err = w.Seal(context.Background())
	}
	if err != nil {
		t.Fatalf("after sync %d: %v", v.failing, err)
	}
	for word := layout.WordRuntime; word < len(v.file.Mem); word++ { // a slot before it may have an older superblock
		if disk, cache := v.file.disk[word], v.file.Mem[word]; disk != cache {
			t.Fatalf("after sync %d had failed, word %d of the file is %#x in the cache, and %#x on the disk", v.failing, word, cache, disk)
		}
	}
	// After a power loss a superblock copy may be cut short until a process opens the file for
	// writing.
	copy(v.file.Mem, v.file.disk)
	if _, err := open(); err != nil {
		t.Errorf("after sync %d and a loss of power: %v", v.failing, err)
	}
	path := filepath.Join(t.TempDir(), "filter.mmf")
	err = os.WriteFile(path, recovery.Bytes(v.file.Mem), 0o600)
	if err == nil {
		_, err = Verify(context.Background(), path)
	}
	if err != nil {
		t.Errorf("after sync %d and a loss of power: %v", v.failing, err)
	}
	return true
}
