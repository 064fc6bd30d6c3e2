package mmapfilter

import (
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
)

// TestHistoryPairs uses each two features of a filter together (pairs.md), in both orders, with inserts
// and deletes in between, and checks the filter by K7 as TestHistoryHonest does. A shard, and a filter
// that has lost its hashes, must refuse what needs hashes.
func TestHistoryPairs(t *testing.T) {
	names := slices.Sorted(maps.Keys(pairUses))
	for i, a := range names {
		for j, b := range names[:i] {
			t.Run(b+" x "+a, func(t *testing.T) {
				has := func(name string) bool { return a == name || b == name }
				r := historyRun{T: t, few: true}
				r.run(*historySeed+uint64(100*i+j), 0.2, func(h *historian) {
					h.auto, h.checked, h.shard = has("AutoGrow") && !has("sets"), has("Checked"), has("sets")
				}, func(h *historian) { h.pair(a, b) })
			})
		}
	}
}

// pairUses maps the names in pairs.md of the features of this package to functions that use them.
var pairUses = map[string]func(h *historian){
	"KeepHashes":    func(h *historian) { h.close(); h.open() },
	"AutoGrow":      func(h *historian) { h.insert(false, h.some(60)...) },
	"InsertUnique":  func(h *historian) { h.insert(true, h.some(200)...) },
	"Delete":        func(h *historian) { h.deleteSome(40) },
	"ExpireBefore":  func(h *historian) { h.setClock(); h.insert(false, h.some(10)...); h.expire() },
	"ExpireAfter":   (*historian).expireAfter,
	"Merge":         (*historian).merge,
	"Rebuild":       func(h *historian) { h.rebuild(nil) },
	"Keys":          (*historian).rebuildFromKeys,
	"Repair":        (*historian).repair,
	"DiscardLog":    (*historian).discard,
	"Seal":          func(h *historian) { h.note(h.f.Seal(h.Context()), "seal"); h.durable(); h.verify() },
	"Sync":          func(h *historian) { h.syncAt(); h.note(h.f.Checkpoint(h.Context()), "checkpoint"); h.durable() },
	"InsertBatch":   func(h *historian) { h.insert(false, h.some(100)...) },
	"Distinct":      (*historian).buildDistinct,
	"Count":         (*historian).countAll,
	"Follow":        (*historian).look,
	"ResidencyHeap": (*historian).lookInHeap,
	"Checked":       (*historian).cutShort,
	"Snapshot":      func(h *historian) { h.snapshot() },
	"Changes":       (*historian).change,
	"sets":          (*historian).otherShard,
	"names":         (*historian).rename,
	"short runs":    (*historian).shortRuns,
	"kill":          (*historian).kill,
}

func (h *historian) pair(a, b string) {
	for _, name := range []string{a, b, b, a} {
		h.do(1, []func(){func() { h.insert(false, h.some(60)...) }, func() { h.insert(false, h.some(1)...) }})
		h.note(nil, "use %s", name)
		h.do(1, []func(){func() { pairUses[name](h) }})
		h.do(1, []func(){func() { h.deleteSome(50) }})
	}
	if h.replica.path != "" { // the changes now include uses of both features
		h.change()
	}
}

// expireAfter opens the file for a while with ExpireAfter.
func (h *historian) expireAfter() {
	h.setClock()
	h.now.Store(h.time()) // if the clock was set back, a rebuild would change times
	after := timeStep + timeStep*h.rng.Uint64N(times) + timeStep/2
	open := func(after time.Duration) bool {
		h.close()
		f, err := Open(h.path, &OpenOptions{CommitInterval: -1, Checked: h.checked, ExpireAfter: after})
		if after > 0 && h.refused(err, "let keys leave") {
			h.open()
			return false
		}
		h.note(err, "let keys leave after %v", after)
		h.f, h.rebuilds = f, 0
		return true
	}
	if !open(time.Duration(after)) {
		return
	}
	_, err := h.f.Expire(h.Context())
	cut := build.Window{Length: after, Now: h.now.Load()}.Cut()
	want := h.meaning.expire(cut - 1e9 + 1)
	h.note(err, "%d have left", want)
	h.deleted(want, !h.strays)
	h.durable()
	open(-1)
	h.count(h.items, h.items, 0)
}

// createShard makes the first of two shards, and gives it its part of the keys.
func (h *historian) createShard(o Options) (*Filter, error) {
	hasher := layout.NewHasher(o.Seed)
	h.others = slices.Clone(h.keys)
	of := func(shard int) func([]byte) bool {
		return func(key []byte) bool {
			number, _ := layout.ShardOf(hasher.Hash(key), 2)
			return int(number) != shard
		}
	}
	h.keys, h.others = slices.DeleteFunc(h.keys, of(0)), slices.DeleteFunc(h.others, of(1))
	h.path, h.hashless = filepath.Join(h.dir, "shard.mmf"), true
	if err := h.buildShard(&o, func(func([]uint64, error) bool) {}); err != nil {
		return nil, err
	}
	return Open(h.path, &OpenOptions{CommitInterval: -1})
}

// buildShard builds the first of two shards from hashes, at the path.
func (h *historian) buildShard(o *Options, hashes iter.Seq2[[]uint64, error]) error {
	c, err := o.buildingShard(layout.Shard{Count: 2})
	if err == nil {
		_, err = build.FromHashes(h.Context(), h.path, c, hashes)
	}
	return err
}

// deleteSome deletes keys. A shard has no history that says which keys InsertUnique left out, so it
// deletes none while there may be such keys.
func (h *historian) deleteSome(most int) {
	for range 1 + h.rng.IntN(most) {
		if key := h.pick(true, true); key >= 0 && !(h.shard && h.mayLean) {
			h.delete(key)
		}
	}
}

// all yields each key as often as the filter has it and, for a shard, also the keys of the other shard.
func (h *historian) all(yield func([]byte, error) bool) {
	for key, times := range h.meaning {
		for range times {
			if !yield(h.keys[key], nil) {
				return
			}
		}
	}
	for _, key := range h.others {
		if !yield(key, nil) {
			return
		}
	}
}

// anew records that the file was made from keys, so that it has hashes unless it is a shard.
func (h *historian) anew() {
	for _, times := range h.meaning {
		for i := range times {
			times[i] = h.time()
		}
	}
	h.fromHashes()
	h.hashless = h.shard
}

func (h *historian) rebuildFromKeys() {
	n := uint64(h.meaning.len())
	err := h.f.Rebuild(h.Context(), &RebuildOptions{Capacity: n + 1, Workers: 1, Keys: func() (iter.Seq2[[]byte, error], error) { return h.all, nil }})
	h.note(err, "rebuild from keys")
	h.anew()
	h.rebuilds++
	h.count(int(n), int(n), 0)
	h.durable()
}

// buildDistinct replaces the file by one that Build makes, with each key once.
func (h *historian) buildDistinct() {
	h.close()
	o := Options{Capacity: uint64(len(h.keys)), Seed: historyFileSeed, Distinct: true, Workers: 1}
	if h.shard {
		h.path, h.seq, h.ops, h.changed = filepath.Join(h.dir, "distinct.mmf"), 0, 0, 0
		err := h.buildShard(&o, func(yield func([]uint64, error) bool) {
			for key, times := range h.meaning {
				for range times {
					if !yield(h.hashes[key:key+1], nil) {
						return
					}
				}
			}
		})
		h.note(err, "build a shard")
	} else {
		f, err := Build(h.Context(), h.path, &o, h.all)
		h.note(err, "build")
		h.note(f.Close(), "close")
	}
	h.anew()
	h.replica.gone = true
	h.meaning.merge(make(meaning, len(h.keys)), true)
	h.items = h.meaning.len()
	h.verify()
	h.open()
}

// discard kills the writer, removes the log or not, and calls DiscardLog.
func (h *historian) discard() {
	h.note(h.f.Checkpoint(h.Context()), "checkpoint") // so that the log has nothing to lose
	h.killAnd(func(path string) error {
		lost := h.rng.IntN(2) == 0 && os.Remove(path+".stash") == nil
		found, err := DiscardLog(path)
		h.want(err != nil || found.Discarded == lost, "the log is gone: %t; %+v", lost, found)
		h.hashless = h.hashless || lost
		return err
	})
}

func (h *historian) countAll() {
	f, err := OpenReadOnly(h.path, nil)
	h.note(errors.Join(h.f.Sync(), err), "sync, and count")
	defer f.Close()
	for key, times := range h.meaning {
		n, read := h.f.Count(h.keys[key]), f.Count(h.keys[key])
		h.want(n == read && n >= uint64(min(len(times), 1)) && (h.mayLean || n >= uint64(len(times))), "the counts of key %d are %d and %d; it has %d copies", key, n, read, len(times))
	}
}

// lookInHeap opens the file as a copy in the heap, which fails while the file is live.
func (h *historian) lookInHeap() {
	heap := &OpenOptions{Residency: ResidencyHeap, FollowInterval: -1, Checked: h.checked}
	live := h.f.Stats().State == "live"
	f, err := OpenReadOnly(h.path, heap)
	h.note(nil, "copy: %v", err)
	h.want(errors.Is(err, ErrBusy) == live && (err == nil) != live, "a copy of a file, live %t: %v", live, err)
	if err == nil {
		h.check(f)
		f.Close()
	}
	h.close()
	follower, err := Follow(h.path, heap)
	h.note(err, "follow with copies")
	defer follower.Close()
	h.open()
	h.check(follower)
}

// cutShort cuts a copy of the file short while a writer and a reader have it open.
func (h *historian) cutShort() {
	path, checked := h.newPath(), &OpenOptions{Checked: true, CommitInterval: -1}
	h.note(h.f.Sync(), "cut short")
	h.close()
	h.note(copyOver(path, h.path), "copy")
	if !h.hashless {
		h.note(copyOver(path+".hashes", h.path+".hashes"), "copy the hashes")
	}
	h.open()
	w, err := Open(path, checked)
	h.note(err, "open the copy")
	defer w.Close()
	if !h.hashless {
		h.note(w.Rebuild(h.Context(), nil), "rebuild the copy, which stays checked")
	}
	f, err := OpenReadOnly(path, checked)
	h.note(err, "open the copy")
	defer f.Close()
	size := w.open.Load().geometry.RegionBytes
	h.note(os.Truncate(path, layout.OffRegion+h.rng.Int64N(size)&^(layout.PageBytes-1)), "truncate")
	h.check(f)
	h.check(w)
}

// otherShard checks that a shard refuses keys of the other shard.
func (h *historian) otherShard() {
	for _, key := range h.others[:min(len(h.others), 3)] {
		err := h.f.Insert(key)
		there, err2 := h.f.Delete(key)
		h.want(errors.Is(err, ErrOtherShard) && !there && err2 == nil && !h.f.Contains(key), "another shard's key: %v, %t, %v", err, there, err2)
	}
}

// rename renames the file and all files beside it.
func (h *historian) rename() {
	to, link := h.newPath(), h.newPath()
	h.close()
	err := os.Rename(h.path, to)
	beside, _ := filepath.Glob(h.path + ".*")
	for _, name := range beside {
		err = errors.Join(err, os.Rename(name, to+strings.TrimPrefix(name, h.path)))
	}
	h.note(errors.Join(err, os.Symlink(to, link)), "rename")
	h.path = to
	h.open()
	f, err := OpenReadOnly(link, nil)
	h.note(err, "open by a link")
	defer f.Close()
	h.check(f)
}

// shortRuns opens the file three times, and does one operation each time.
func (h *historian) shortRuns() {
	for range 3 {
		h.close()
		h.open()
		h.insert(false, h.some(1)...)
	}
}
