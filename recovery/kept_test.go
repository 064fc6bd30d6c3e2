package recovery_test

import (
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
	_, tail, err := hashes.NewBase(h, func(number uint64, p *hashes.Page) error {
		pages[number] = *p
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

// A historian is a writer of a filter that keeps its hashes, and the history that it should have.
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

// fits reports whether the log has room for n operations, and their commit.
func (h *historian) fits(n int) bool { return h.Room(2*n + 2*wal.PageWords/3) }

func (h *historian) sync() {
	h.t.Helper()
	if err := h.Harden(h.EndSegment(true, uint64(len(h.all)))); err != nil {
		h.t.Fatal(err)
	}
}

// operationsOf returns the operations of a file of hashes, which has no base.
func operationsOf(kept *recovery.Kept) (all []hashes.Entry, err error) {
	add := func(e hashes.Entry) { all = append(all, hashes.Entry{Op: e.Op, Items: e.Items, Hash: e.Hash}) }
	h, err := recovery.ReadHashesHeader(kept.File, kept.Counted.Identity)
	if err != nil {
		return nil, err
	}
	var p hashes.Page
	err = kept.File.ReadPage(0, &p)
	at, from := h.Tail(p.Check(0)), h.At
	for at.Number < kept.Counted.Pages && err == nil {
		if err = kept.File.ReadPage(at.Number, &p); err == nil {
			at, from, err = hashes.ReadTail(&p, at, from, add)
		}
	}
	if err == nil && kept.Last != nil {
		at.Number = kept.LastNumber
		_, _, err = hashes.ReadTail(kept.Last, at, from, add)
	}
	for _, e := range kept.More {
		if e.Time == 0 {
			err = errors.New("an operation has no time")
		}
		add(e)
	}
	return all, err
}

// expect checks that NAME.hashes of a file at rest has all operations.
func (h *historian) expect(path string) {
	h.t.Helper()
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	f.Close()
	kept, err := osfile.OpenHashesOf(path, head.Superblock)
	if err != nil {
		h.t.Fatal(err)
	}
	defer kept.File.Close()
	got, err := operationsOf(&kept)
	if err != nil || !slices.Equal(got, h.all) {
		h.t.Errorf("NAME.hashes has %d operations of %d, or others: %v", len(got), len(h.all), err)
	}
}

// A flakyVolume has a file of hashes whose calls may fail. Whenever a superblock is stored, the
// pages that it counts must be in the file, and must have been synced before.
type flakyVolume struct {
	*osfile.Files
	t      *testing.T
	failAt int    // which call fails, from 1 on; 0 if none does
	always bool   // and all later ones
	calls  int    // so far
	failed string // the last call that failed
	hashes recovery.HashFile
	synced []hashes.Page // of it
	bad    error         // what a superblock counts and is not there, or not durable
}

var errDisk = errors.New("the disk fails")

func (v *flakyVolume) call(name string) error {
	if v.calls++; v.failAt != 0 && (v.calls == v.failAt || v.always && v.calls > v.failAt) {
		v.failed = name
		return errDisk
	}
	return nil
}

// fail has call n from now on fail, or all from then on, or none if n is 0.
func (v *flakyVolume) fail(n int, always bool) {
	v.calls, v.failAt, v.always, v.failed = 0, n, always, ""
}

func (v *flakyVolume) OpenHashes(name recovery.HashesName) (recovery.HashFile, error) {
	f, err := v.Files.OpenHashes(name)
	if err != nil {
		return nil, err
	}
	flaky := &flakyHashes{f, v}
	v.hashes = f
	return flaky, flaky.snapshot()
}

func (v *flakyVolume) Filter() recovery.File { return &flakyFilter{v.Files.Filter(), v} }

type flakyFilter struct {
	recovery.File
	volume *flakyVolume
}

func (f *flakyFilter) Store(word, value uint64) {
	f.File.Store(word, value)
	if word >= layout.WordRuntime || word%layout.SuperblockBytes/8 != layout.SuperblockBytes/8-1 || value == 0 {
		return
	}
	sb := new(layout.Superblock)
	copy(recovery.Words(sb[:]), f.Words()[word+1-layout.SuperblockBytes/8:])
	if sb.Hashes().Pages != 0 {
		for _, pages := range []recovery.HashFile{syncedHashes{nil, f.volume.synced}, f.volume.hashes} {
			if _, _, err := recovery.EndOfHashes(pages, sb); err != nil {
				f.volume.bad = err
			}
		}
	}
}

type flakyHashes struct {
	recovery.HashFile
	volume *flakyVolume
}

func (f *flakyHashes) WritePage(number uint64, p *hashes.Page) error {
	if err := f.volume.call("WritePage"); err != nil {
		half := *p // the first half of it is written
		clear(half[hashes.PageWords/2:])
		return errors.Join(err, f.HashFile.WritePage(number, &half))
	}
	return f.HashFile.WritePage(number, p)
}

func (f *flakyHashes) Truncate(pages uint64) error {
	if err := f.volume.call("Truncate"); err != nil {
		return err
	}
	return f.HashFile.Truncate(pages)
}

func (f *flakyHashes) Sync() error {
	if err := f.volume.call("Sync"); err != nil {
		return err
	}
	return f.snapshot()
}

func (f *flakyHashes) snapshot() error {
	n, err := f.Pages()
	f.volume.synced = make([]hashes.Page, n)
	for i := range f.volume.synced {
		err = errors.Join(err, f.ReadPage(uint64(i), &f.volume.synced[i]))
	}
	return err
}

// syncedHashes are pages in memory.
type syncedHashes struct {
	recovery.HashFile
	pages []hashes.Page
}

func (f syncedHashes) Pages() (uint64, error) { return uint64(len(f.pages)), nil }
func (f syncedHashes) ReadPage(number uint64, p *hashes.Page) error {
	if number >= uint64(len(f.pages)) {
		return errors.New("no such page")
	}
	*p = f.pages[number]
	return nil
}

// openFlaky opens a file for writing, with a historian who knows what it has.
func openFlaky(t *testing.T, path string, require bool, all []hashes.Entry) (*historian, *flakyVolume) {
	t.Helper()
	needsWriters(t)
	files, err := osfile.OpenFiles(path)
	must(t, err)
	v := &flakyVolume{Files: files, t: t}
	w, _, err := recovery.NewWriter(v)
	if err == nil {
		err = w.Begin(wal.MinBytes)
	}
	if err != nil {
		t.Fatal(errors.Join(err, files.Close()))
	}
	t.Cleanup(func() { w.Abandon() })
	w.SetMustKeep(require)
	return &historian{w, t, all}, v
}

// keepCalls are the calls that keep hashes, once there are some that are not kept.
var keepCalls = map[string]func(h *historian) error{
	"EndCheckpoint": func(h *historian) error {
		if !h.Checkpointing() {
			h.BeginCheckpoint()
		}
		return h.EndCheckpoint()
	},
	"Clean": func(h *historian) error { return h.Clean() },
	"Seal": func(h *historian) error {
		sb, err := h.BeginSeal()
		if err != nil {
			return err
		}
		return h.Seal(sb, nil)
	},
	"Clean during a checkpoint": func(h *historian) error {
		if !h.Checkpointing() {
			h.BeginCheckpoint()
			h.do(100)
			h.sync()
		}
		return h.Clean()
	},
}

// TestHashesMustBeKept covers K2: if a call on NAME.hashes fails, and the filter must keep its hashes,
// the step that needs the call returns the error and changes nothing. Operations go on until the log
// is full. Once the calls work again, all hashes are there. No superblock counts what is not durable.
func TestHashesMustBeKept(t *testing.T) {
	for name, keep := range keepCalls {
		seen := map[string]bool{}
		for n, done := 1, false; !done; n++ {
			for _, always := range []bool{false, true} {
				path := newKeeping(t, true)
				h, v := openFlaky(t, path, true, nil)
				h.do(100)
				h.sync()
				if n%2 == 0 { // a page of the tail that counts, and is not full
					must(t, h.Writer.Checkpoint(wal.MinBytes))
				}
				h.do(900)
				h.sync()
				before := slices.Clone(h.Superblocks())
				v.fail(n, always)
				err := keep(h)
				if done = v.failed == ""; done {
					break
				}
				seen[v.failed] = true
				switch {
				case !errors.Is(err, errDisk):
					t.Fatalf("%s: %s fails: %v", name, v.failed, err)
				case h.Err() != nil || !h.Live() || h.HashesErr() != nil:
					t.Fatalf("%s: after %s has failed: %v; live %t, hashes: %v", name, v.failed, h.Err(), h.Live(), h.HashesErr())
				case !slices.Equal(before, h.Superblocks()):
					t.Errorf("%s: %s fails, and there is another superblock", name, v.failed)
				}
				for h.fits(1) {
					h.do(1)
				}
				h.sync()
				if err := keep(h); always && (!errors.Is(err, errDisk) || h.Err() != nil) {
					t.Errorf("%s: again: %v, %v", name, err, h.Err())
				}
				failed := v.failed
				v.fail(0, false)
				if h.Live() {
					err := h.EndCheckpoint()
					if err == nil {
						var k recovery.Kept
						if k, err = h.Hashes(); err == nil {
							_, _, err = recovery.EndOfHashes(k.File, h.Superblock())
						}
					}
					if err != nil {
						t.Fatal(name, err)
					}
				}
				if err := h.Clean(); err != nil || v.bad != nil {
					t.Fatalf("%s, once call %d, %s, works: %v; %v", name, n, failed, err, v.bad)
				}
				h.expect(path)
			}
		}
		if !seen["WritePage"] || !seen["Sync"] || !seen["Truncate"] {
			t.Errorf("%s: only %v have failed", name, seen)
		}
	}
}

// TestHashesMustBeKeptByRecovery covers K2: a recovery fails likewise, and can be repeated; or goes on
// without the hashes, if the filter need not keep them.
func TestHashesMustBeKeptByRecovery(t *testing.T) {
	for _, require := range []bool{true, false} {
		for n, done := 1, false; !done; n++ {
			path := newKeeping(t, require)
			h, _ := openFlaky(t, path, require, nil)
			h.do(100)
			h.sync()
			h.checkpoint()
			h.do(900)
			h.sync()
			if n%2 == 0 { // and a checkpoint is under way
				h.BeginCheckpoint()
				h.do(20)
				h.sync()
			}
			h.do(50)
			h.must(h.Abandon())
			lost := false
			for _, fail := range []int{n, n, 0} {
				files, err := osfile.OpenFiles(path)
				must(t, err)
				v := &flakyVolume{Files: files, t: t}
				v.fail(fail, false)
				w, r, err := recovery.NewWriter(v)
				done, lost = fail == n && v.failed == "", v.failed != "" && !require
				switch {
				case v.failed != "" && require:
					if !errors.Is(err, errDisk) {
						t.Errorf("%s fails: %v", v.failed, err)
					}
				case err != nil || !r.Recovered || lost && !errors.Is(w.HashesErr(), errDisk):
					t.Errorf("required %t, call %d: %+v, %v", require, n, r, err)
				}
				if err := files.Close(); err != nil || v.bad != nil {
					t.Error(err, v.bad)
				}
				if done || lost {
					break
				}
			}
			if lost {
				mustHaveLost(t, "a recovery", path)
			} else {
				h.expect(path)
			}
		}
	}
}

// mustHaveLost checks that a file at rest does without its hashes.
func mustHaveLost(t *testing.T, what, path string) {
	t.Helper()
	needsWriters(t)
	files, err := osfile.OpenFiles(path)
	must(t, err)
	defer files.Close()
	w, _, err := recovery.NewWriter(files)
	if _, lost := w.Hashes(); err != nil || lost != w.HashesErr() || !errors.Is(lost, recovery.ErrHashes) || w.Superblock().Hashes().Pages != 0 || w.Superblock().State() == layout.Live {
		t.Errorf("%s: %v; %v, %+v", what, err, w.HashesErr(), w.Superblock().Hashes())
	}
}

// TestHashesNeedNotBeKept covers K2: a filter that need not keep its hashes goes on without them, from
// the next superblock on.
func TestHashesNeedNotBeKept(t *testing.T) {
	for name, keep := range keepCalls {
		for n := 1; ; n++ {
			path := newKeeping(t, false)
			h, v := openFlaky(t, path, false, nil)
			h.do(1000)
			h.sync()
			v.fail(n, false)
			if err := keep(h); err != nil {
				t.Fatalf("%s: %s fails: %v", name, v.failed, err)
			}
			if v.failed == "" {
				break
			}
			if err := h.HashesErr(); !errors.Is(err, recovery.ErrHashes) || !errors.Is(err, errDisk) {
				t.Errorf("%s: after %s has failed: %v", name, v.failed, err)
			}
			if err := errors.Join(h.Begin(wal.MinBytes)); h.Log() == nil && err != nil {
				t.Fatal(err)
			}
			h.do(10)
			h.sync()
			if err := errors.Join(h.EndCheckpoint(), h.Clean(), h.Abandon()); err != nil || v.bad != nil {
				t.Errorf("%s: after %s has failed: %v; %v", name, v.failed, err, v.bad)
			}
			mustHaveLost(t, name, path)
		}
	}
}

// TestUncountedPages covers K2: what a writer that died has appended to NAME.hashes, and no superblock
// counts, is cut off. Otherwise Salvage would take it for a part of the history, whatever came since.
func TestUncountedPages(t *testing.T) {
	w := newHistorian(t, newKeeping(t, false))
	defer w.Abandon()
	tail := *w.KeptTail()
	for h := range uint64(1000) {
		must(t, tail.Add(hashes.Entry{Op: layout.AtLeastOne, Hash: h, Time: 1}))
	}
	before, err := w.KeptFile().Pages()
	must(t, err)
	w.do(1)
	w.sync()
	w.checkpoint()
	pages, err := w.KeptFile().Pages()
	if counted := w.Superblock().Hashes().Pages; err != nil || before <= counted || pages != counted {
		t.Errorf("%d pages are there of %d, and %d count: %v", pages, before, counted, err)
	}
}

// TestWhoMustKeepHashes covers K2: a filter that grows by itself must keep its hashes, and one that is
// opened so, or whose items leave.
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
				t.Error("items leave, and it goes on without the hashes")
			}
			files.Close()
		}
	}
}
