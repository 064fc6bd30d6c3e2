package mmapfilter

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A damagedFile is a recovery.File in the heap. The test that damages it has full access to it.
type damagedFile struct {
	words  []uint64
	stored bool   // a store happened since the test last looked
	watch  func() // if not nil, called after each store
}

func (f *damagedFile) Words() []uint64 { return f.words }
func (f *damagedFile) Prefetch(uint64) {}
func (f *damagedFile) Sync() error     { return nil }
func (f *damagedFile) Close() error    { return nil }

func (f *damagedFile) Store(word, value uint64) {
	atomic.StoreUint64(&f.words[word], value)
	f.stored = true
	if f.watch != nil {
		f.watch()
	}
}

// A damagedVolume is a filter file and its logs in the heap, which makes opening it many times
// fast.
type damagedVolume struct {
	tabletest.NoHashes
	filter damagedFile
	logs   [2]*damagedFile
	rng    *rand.Rand
	spare  *damagedFile // a log that was removed, for undo
}

func newDamagedVolume(im fileImage) *damagedVolume {
	v := &damagedVolume{rng: rand.New(rand.NewPCG(1, 2))}
	v.set(im)
	return v
}

func (v *damagedVolume) Filter() recovery.File { return &v.filter }
func (v *damagedVolume) Named() error          { return nil }
func (v *damagedVolume) Whole() error          { return nil }
func (v *damagedVolume) RequiresHashes() bool  { return false }
func (v *damagedVolume) Random() uint64        { return v.rng.Uint64() }
func (v *damagedVolume) Close() error          { return nil }

func (v *damagedVolume) Catch(f func(), failed func(error)) error {
	f()
	return nil
}

func (v *damagedVolume) OpenLog(name recovery.LogName) (recovery.File, error) {
	if v.logs[name] == nil {
		return nil, fs.ErrNotExist
	}
	return v.logs[name], nil
}

func (v *damagedVolume) CreateLog(bytes int64) (recovery.File, error) {
	v.logs[recovery.NextLog] = &damagedFile{words: make([]uint64, bytes/8)}
	return v.logs[recovery.NextLog], nil
}

func (v *damagedVolume) KeepLog() error {
	v.logs = [2]*damagedFile{recovery.CurrentLog: v.logs[recovery.NextLog]}
	return nil
}

func (v *damagedVolume) SyncNames() error { return nil }

func (v *damagedVolume) RemoveLogs() error {
	if v.logs[recovery.CurrentLog] != nil {
		v.spare = v.logs[recovery.CurrentLog]
	}
	v.logs = [2]*damagedFile{}
	return nil
}

// set makes the volume hold a copy of an image.
func (v *damagedVolume) set(im fileImage) {
	v.filter.words = append(v.filter.words[:0], im.filter...)
	for name, words := range im.logs {
		v.logs[name] = nil
		if words != nil {
			v.logs[name] = &damagedFile{words: slices.Clone(words)}
		}
	}
}

// image returns a copy of the contents of the volume.
func (v *damagedVolume) image() fileImage {
	im := fileImage{filter: slices.Clone(v.filter.words)}
	for name, log := range v.logs {
		if log != nil {
			im.logs[name] = slices.Clone(log.words)
		}
	}
	return im
}

// A fileImage is a filter file and its logs at one instant.
type fileImage struct {
	filter []uint64
	logs   [2][]uint64
}

// undo restores an image that the volume has held before. If nothing was stored, the caller has
// changed only a few words that it knows of.
func (v *damagedVolume) undo(im fileImage) {
	copy(v.filter.words, im.filter)
	for name, words := range im.logs {
		switch {
		case words == nil:
			v.logs[name] = nil
		case v.logs[name] == nil || len(v.logs[name].words) != len(words):
			if v.spare == nil || len(v.spare.words) != len(words) {
				v.spare = &damagedFile{words: make([]uint64, len(words))}
			}
			v.spare.stored, v.spare.watch = false, nil
			copy(v.spare.words, words)
			v.logs[name], v.spare = v.spare, nil
		default:
			copy(v.logs[name].words, words)
		}
	}
}

// writeImage writes an image to files.
func writeImage(t *testing.T, path string, im fileImage) {
	t.Helper()
	for suffix, words := range map[string][]uint64{"": im.filter, ".stash": im.logs[0], ".stash.new": im.logs[1]} {
		if words == nil {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			continue
		}
		must(t, os.WriteFile(path+suffix, recovery.Bytes(words), 0o600))
	}
}
