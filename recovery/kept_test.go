package recovery_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// newKeeping makes an empty filter that keeps its hashes.
func newKeeping(t *testing.T, grows bool) (path string) {
	t.Helper()
	g, err := layout.NewGeometry(layout.Compact, layout.Params{Quotients: 25, RemainderBits: 26}, 8)
	must(t, err)
	path = filepath.Join(t.TempDir(), "f")
	h := hashes.Header{Identity: 1, Ages: []hashes.Age{{}}}
	pages := make([]hashes.Page, hashes.FirstBase)
	_, tail, err := hashes.NewBase(h, func(number uint64, page []uint64) error {
		pages[number] = hashes.Page(page)
		return nil
	}).End()
	var sb layout.Superblock
	sb.SetGeneration(1)
	sb.SetState(layout.Clean)
	sb.SetGeometry(g)
	sb.SetSeed(7)
	sb.SetCapacity(g.Slots())
	sb.SetTargetRate(0.01)
	sb.SetDesignLoad(0.95)
	sb.SetUUID([16]byte{1})
	sb.SetKeepsHashes(grows)
	sb.SetHashes(layout.Hashes{Identity: h.Identity, Pages: tail.Number, Check: tail.Before})
	sb.SetDescent(h.Identity)
	sb.Sign()
	words := make([]uint64, g.SealedBytes/8)
	for slot := range layout.SuperblockSlots {
		copy(words[slot*layout.SuperblockBytes/8:], recovery.Words(sb[:]))
	}
	all := make([]uint64, 0, len(pages)*hashes.PageWords)
	for i := range pages {
		all = append(all, pages[i][:]...)
	}
	must(t, errors.Join(err, os.WriteFile(path, recovery.Bytes(words), 0o600), os.WriteFile(path+".hashes", recovery.Bytes(all), 0o600)))
	return path
}

// A historian is a writer of a filter that keeps its hashes, and the history that is expected of it.
type historian struct {
	*recovery.Writer
	t   *testing.T
	all []hashes.Entry
}

// do does n operations of all kinds.
func (h *historian) do(n int) {
	for range n {
		i := uint64(len(h.all))
		e, stores := hashes.Entry{Hash: (i + 1) * 0x9E3779B97F4A7C15}, []wal.Store(nil)
		switch i % 8 {
		case 5:
			e.Op = layout.AtLeastOne
		case 6:
			e.Op = layout.Delete
		default:
			e.Op, e.Items = layout.Insert, 1
			stores = []wal.Store{{Word: layout.WordRegion + i%64, Value: i}}
		}
		h.Append(stores, e.Items, e.Op, e.Hash)
		h.all = append(h.all, e)
	}
}

func (h *historian) sync() {
	h.t.Helper()
	if err := h.Harden(h.EndSegment(true, uint64(len(h.all)))); err != nil {
		h.t.Fatal(err)
	}
}

// operationsOf returns the operations of kept hashes without a base.
func operationsOf(kept *recovery.Kept) (all []hashes.Entry, err error) {
	timeless := false
	err = kept.Operations(context.Background(), kept.Header.FirstTail(), func(e hashes.Entry) {
		all = append(all, hashes.Entry{Op: e.Op, Items: e.Items, Hash: e.Hash})
		timeless = timeless || e.Time == 0
	})
	if timeless {
		err = errors.New("an operation has no time")
	}
	return all, err
}

// A failingVolume has a file of hashes where one write fails and leaves half a page, or Truncate fails.
type failingVolume struct {
	*osfile.Files
	tearAt int // number of the write, from 1 on; 0 if none fails
	uncut  bool
}

// openFailing opens a filter that must keep its hashes.
func openFailing(t *testing.T) (*historian, *failingVolume) {
	t.Helper()
	needsWriters(t)
	files, err := osfile.OpenFiles(newKeeping(t, true))
	must(t, err)
	v := &failingVolume{Files: files}
	w, _, err := recovery.NewWriter(v)
	must(t, err)
	t.Cleanup(func() { w.Abandon() })
	must(t, w.Begin(wal.MinBytes))
	return &historian{w, t, nil}, v
}

func (v *failingVolume) OpenHashes(name recovery.HashesName) (recovery.HashFile, error) {
	f, err := v.Files.OpenHashes(name)
	return &failingHashes{f, v}, err
}

type failingHashes struct {
	recovery.HashFile
	volume *failingVolume
}

var errDisk = errors.New("the disk fails")

func (f *failingHashes) WritePages(first uint64, words []uint64) error {
	if f.volume.tearAt--; f.volume.tearAt != 0 {
		return f.HashFile.WritePages(first, words)
	}
	half := slices.Clone(words)
	clear(half[len(half)/2:])
	return errors.Join(errDisk, f.HashFile.WritePages(first, half))
}

func (f *failingHashes) Truncate(pages uint64) error {
	if f.volume.uncut {
		return errDisk
	}
	return f.HashFile.Truncate(pages)
}

// TestTornLastPage covers K2: while a checkpoint is under way, a clean close writes the last page once
// for the checkpoint. Its second write, for later operations, fails and leaves half a page, but not of
// the page that the newest superblock counts. The end of the checkpoint writes the page again.
func TestTornLastPage(t *testing.T) {
	h, v := openFailing(t)
	h.do(10)
	h.sync()
	must(t, h.Writer.Checkpoint(wal.MinBytes))
	h.do(10)
	h.sync()
	h.BeginCheckpoint()
	h.do(10)
	h.sync()
	v.tearAt = 2
	if err := h.Clean(); !errors.Is(err, errDisk) || h.Err() != nil {
		t.Fatal(err, h.Err())
	}
	whole := func() {
		if _, err := recovery.EndOfHashes(h.KeptFile(), h.Superblock()); err != nil {
			t.Error(err)
		}
	}
	whole()
	must(t, h.EndCheckpoint())
	whole()
	h.must(h.Clean())
	k, err := h.Hashes()
	must(t, err)
	if all, err := operationsOf(&k); err != nil || !slices.Equal(all, h.all) {
		t.Errorf("NAME.hashes has %d operations of %d, or wrong ones: %v", len(all), len(h.all), err)
	}
}

// TestUncountedPages covers K2: a writer cuts off pages that another writer appended to NAME.hashes
// before it died, if no superblock counts them. Salvage would take these pages for a part of the
// history, whatever came since.
func TestUncountedPages(t *testing.T) {
	w, v := openFailing(t)
	tail := *w.KeptTail()
	for h := range uint64(1000) {
		must(t, tail.Add(hashes.Entry{Op: layout.AtLeastOne, Hash: h, Time: 1}))
	}
	before, err := w.KeptFile().Pages()
	must(t, err)
	w.do(1)
	w.sync()
	v.uncut = true
	if err := w.Writer.Checkpoint(wal.MinBytes); !errors.Is(err, errDisk) || w.Err() != nil {
		t.Error(err, w.Err())
	}
	v.uncut = false
	must(t, w.EndCheckpoint())
	pages, err := w.KeptFile().Pages()
	if counted := w.Superblock().Hashes().Pages; err != nil || before <= counted || pages != counted {
		t.Errorf("%d pages of %d are left, and %d count: %v", pages, before, counted, err)
	}
}

// TestWhoMustKeepHashes covers K2: a filter must keep its hashes if it grows by itself, if its items
// expire, or if it was opened with RequireHashes.
func TestWhoMustKeepHashes(t *testing.T) {
	needsWriters(t)
	for _, grows := range []bool{false, true} {
		for _, required := range []bool{false, true} {
			files, err := osfile.OpenFiles(newKeeping(t, grows))
			must(t, err)
			files.RequireHashes = required
			w, _, err := recovery.NewWriter(files)
			if err != nil || !w.KeepsHashes() || w.MustKeep() != (grows || required) {
				t.Errorf("grows %t, required %t: %v", grows, required, err)
			} else if w.SetExpireAfter(1); !w.MustKeep() {
				t.Error("items expire, but the writer may go on without the hashes")
			}
			files.Close()
		}
	}
}
