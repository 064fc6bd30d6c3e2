package mmapfilter

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

var (
	historyAnswers = flag.Int("history", 1_000_000, "answers that TestHistoryHonest and TestHistoryStrays each check, about")
	historySeed    = flag.Uint64("historyseed", 1, "seed of their first filter; a failure names its seed")
)

// TestHistoryHonest covers K7 and C1: as long as only keys of the filter are deleted, no lookup of a key
// in the filter answers "certainly not", whatever else is done, and the counts are exact.
//
//	go test ./mmapfilter -run TestHistory -history 100000000
func TestHistoryHonest(t *testing.T) { testHistory(t, false) }

// TestHistoryStrays covers K7 and C6: after stray deletes, of keys that are not in the filter, only keys
// of the same classes may be lost, and only until the next rebuild.
func TestHistoryStrays(t *testing.T) { testHistory(t, true) }

func testHistory(t *testing.T, strays bool) {
	for _, rate := range []float64{0.05, 0.2} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			most, seed, random := *historyAnswers/2, *historySeed, rand.Uint64()
			if testing.Short() {
				most = min(most, 300_000)
			}
			t.Logf("seeds from %d on, and %d", seed, random)
			r := historyRun{T: t, strays: strays}
			for ; r.answers < most; seed++ {
				r.run(seed, rate, nil, (*historian).anything)
			}
			r.run(random, rate, nil, (*historian).anything)
			t.Logf("%d answers, %d of them wrong after strays", r.answers, r.wrong)
		})
	}
}

// A historyRun does operations on one filter after another.
type historyRun struct {
	*testing.T
	strays, busy         bool // there are stray deletes; a rebuild is under way
	few                  bool // there are few keys
	rng                  *rand.Rand
	now                  atomic.Uint64 // time of the clock
	dir                  string
	keys                 [][]byte
	hashes               []uint64
	others               [][]byte // keys of another shard
	found                []bool   // the answers of the last lookup of each key
	log                  []string
	step, answers, wrong int
}

// All filters have the same seed, so that they can be merged.
const historyFileSeed = 7

// The clock shows one of a few times.
const firstTime, timeStep, times = uint64(1_700_000_000e9), uint64(10e9), 20

var historyLayouts = []layout.Kind{layout.Auto, layout.Auto, layout.Packed, layout.SemiSorted}

// run makes a filter, calls do, and closes the filter. begin, if not nil, sets properties of the filter.
func (r *historyRun) run(seed uint64, rate float64, begin, do func(h *historian)) {
	r.dir, r.keys, r.others, r.hashes, r.log, r.step, r.busy = memoryDir(r.T), nil, nil, nil, nil, 0, false
	defer os.RemoveAll(r.dir)
	r.now.Store(firstTime)
	defer osfile.SetClock(r.now.Load)()
	r.rng = rand.New(rand.NewPCG(seed, math.Float64bits(rate)))
	n := uint64(300) << r.rng.IntN(4)
	if r.few {
		n = 300
	}
	for key := range numbers(0, n) {
		r.keys = append(r.keys, bytes.Clone(key))
	}
	h := r.create(rate, begin)
	defer func() {
		switch failed := recover().(type) {
		case string:
			h.f.Close()
			r.Fatalf("seed %d, step %d: %s, after\n\t%s", seed, r.step, failed, strings.Join(r.log[max(len(r.log)-20, 0):], "\n\t"))
		case error:
			panic(failed)
		}
	}()
	do(h)
	h.close()
}

func (h *historian) anything() {
	keySteps, rebuildSteps, fileSteps := h.steps()
	h.do(150, slices.Concat(keySteps, rebuildSteps, fileSteps))
}

// note adds an operation to the log, and fails if its error is not nil.
func (r *historyRun) note(err error, format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
	r.want(err == nil, "%v", err)
}

func (r *historyRun) want(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf(format, args...)) // a goroutine of a rebuild passes the panic on
	}
}

func (r *historyRun) newPath() string { return filepath.Join(r.dir, fmt.Sprint(r.rng.Uint64())) }

// A historian does operations on a filter that keeps its hashes, and checks the filter by K7.
type historian struct {
	*historyRun
	f, reader      *Filter
	follower       *Follower
	path           string
	unique         int    // how often InsertUnique is called
	auto, checked  bool   // the filter grows by itself; it is open with Checked
	hashless       bool   // the hashes are lost, or the file is a shard, which has none
	shard          bool   // the file is one of two shards, and all keys are its own
	meaning               // the keys in the filter
	items, ages    int    // items of the file; the most ages that the hashes may have
	stolen         []int  // keys whose stray deletes have removed items since the last rebuild
	leans, mayLean bool   // since then, a key not in the filter was left out, or may have been
	rebuilds, seq  uint64 // number of rebuilds of f; sequence of its last SyncAt
	ops, changed   int    // operations since this SyncAt: all; up to the last that changed something
	last           uint64 // the latest time that the clock has shown at a commit
	replica        replicaOf
}

func (r *historyRun) create(rate float64, begin func(h *historian)) *historian {
	h := &historian{historyRun: r, path: r.newPath(), auto: r.rng.IntN(2) == 0}
	h.unique = []int{0, 1, 10}[r.rng.IntN(3)] // once a key is left out, deletes remove no item
	o := Options{Capacity: 10 + r.rng.Uint64N(uint64(len(r.keys))), FalsePositiveRate: rate, Layout: historyLayouts[r.rng.IntN(len(historyLayouts))]}
	if o.validate() != nil {
		o.Layout = layout.Auto
	}
	if begin != nil {
		begin(h)
	}
	r.note(nil, "create for %d of %d keys, rate %v, %v, grows: %t, shard: %t", o.Capacity, len(r.keys), rate, o.Layout, h.auto, h.shard)
	o.Seed, o.KeepHashes, o.AutoGrow, o.CommitInterval = historyFileSeed, !h.shard, h.auto, -1
	if !h.shard {
		o.KeepChanges = time.Hour
	}
	var f *Filter
	var err error
	if h.shard {
		f, err = h.createShard(o)
	} else {
		f, err = Create(h.path, &o)
	}
	if err != nil {
		r.Fatal(err)
	}
	for h.f = f; len(r.hashes) < len(r.keys); {
		r.hashes = append(r.hashes, f.Hash(r.keys[len(r.hashes)]))
	}
	h.meaning, r.found = make(meaning, len(r.keys)), make([]bool, len(r.keys))
	h.last = h.time()
	h.syncAt()
	return h
}

// do does n random steps.
func (h *historian) do(n int, steps []func()) {
	for range n {
		h.step++
		steps[h.rng.IntN(len(steps))]()
		h.count(h.items, h.items, 0)
		h.check(h.f)
	}
}

// steps returns steps with keys, with the whole filter, and with its file.
func (h *historian) steps() (keySteps, rebuildSteps, fileSteps []func()) {
	each := func(weight, most int, do func(key int)) {
		keySteps = append(keySteps, slices.Repeat([]func(){func() {
			for i, key := range h.some(most) {
				if do(key); i%3 == 0 {
					h.check(h.f)
				}
			}
		}}, weight)...)
	}
	picked := func(in, found bool, do ...func(key int)) func(int) {
		return func(int) {
			if key := h.pick(in, found); key >= 0 {
				do[h.rng.IntN(len(do))](key)
			}
		}
	}
	insert, insertUnique := func(key int) { h.insert(false, key) }, func(key int) { h.insert(true, key) }
	each(10, 30, insert)
	each(h.unique, 30, insertUnique)
	each(10, 30, picked(true, true, h.delete))
	each(1, 300, picked(true, true, h.delete))
	each(4, 10, picked(true, true, func(key int) { h.delete(key); insert(key) }))
	if h.strays {
		each(1, 10, func(key int) { h.delete(key); insert(key) })
		each(3, 10, picked(false, true, h.delete))
		each(2, 3, picked(true, false, insert, insertUnique, h.delete)) // lost keys
	}
	keySteps = append(keySteps, func() { h.insert(false, h.some(100)...) }, func() { h.insert(h.unique > 0, h.some(300)...) },
		func() { h.insert(false, slices.Repeat(h.some(1), 1+h.rng.IntN(40))...) })
	rebuild := func() { h.rebuild(nil) }
	rebuildSteps = []func(){h.setClock, h.setClock, h.expire, h.expire, rebuild, rebuild, func() { h.rebuild(keySteps) }}
	return keySteps, rebuildSteps, []func(){
		func() { h.note(h.f.Sync(), "sync"); h.durable() },
		func() { h.note(h.f.Checkpoint(h.Context()), "checkpoint"); h.durable() },
		func() { h.note(h.f.Seal(h.Context()), "seal"); h.durable(); h.verify() },
		func() { h.note(h.f.Close(), "close"); h.verify(); h.open() },
		h.syncAt, h.kill, h.merge, h.repair, h.change, h.change, h.look, h.look, h.look,
	}
}

// some returns 1 to most random keys.
func (h *historian) some(most int) (keys []int) {
	for range 1 + h.rng.IntN(most) {
		keys = append(keys, h.rng.IntN(len(h.keys)))
	}
	return keys
}

// pick returns a random key that is in the filter or not, and that the last lookup found or not, as
// asked for. It returns -1 if there is none.
func (h *historian) pick(in, found bool) int {
	for i, first := 0, h.rng.IntN(len(h.keys)); i < len(h.keys); i++ {
		if key := (first + i) % len(h.keys); (len(h.meaning[key]) > 0) == in && h.found[key] == found {
			return key
		}
	}
	return -1
}

// mayBeLost reports whether a stray delete has removed an item of the class of a key.
func (h *historian) mayBeLost(key int) bool {
	table := writerOf(h.f).Table()
	class := func(key int) layout.Class { return table.Class(table.Split(h.hashes[key])) }
	return slices.ContainsFunc(h.stolen, func(s int) bool { return class(s) == class(key) })
}

// check looks all keys up, and asks for the count of one.
func (h *historian) check(f interface{ ContainsBatch([][]byte, []bool) }) {
	f.ContainsBatch(h.keys, h.found)
	h.answers += len(h.keys)
	for key, found := range h.found {
		if n := len(h.meaning[key]); n > 0 && !found {
			h.want(h.mayBeLost(key), "a %T says that key %d is certainly not in the filter; it has %d copies", f, key, n)
			h.wrong++
		}
	}
	if key := h.pick(true, true); key >= 0 && !h.mayBeLost(key) {
		n, least := h.f.Count(h.keys[key]), len(h.meaning[key])
		h.want(n > 0 && (h.mayLean || n >= uint64(least)), "the count of key %d is %d; it has %d copies", key, n, least)
	}
}

// count checks the number of items after some operations. If the filter has grown meanwhile, it has an
// item for each key, except for at most loose keys that InsertUnique left out.
func (h *historian) count(least, most, loose int) {
	if !h.busy {
		awaitGrowth(h.f)
	}
	o := h.f.open.Load()
	if o.rebuilds != h.rebuilds {
		h.fromHashes()
		h.rebuilds, h.mayLean = o.rebuilds, loose > 0
		least, most = h.meaning.len()-loose, h.meaning.len()
	}
	h.items = int(h.f.Len())
	h.want(h.items >= least && h.items <= most, "%d items, not %d to %d, for %d copies of keys", h.items, least, most, h.meaning.len())
	h.want(h.f.growthErr(o) == nil || h.hashless, "growth: %v", h.f.growthErr(o))
}

// fromHashes records that a new file was made.
func (h *historian) fromHashes() {
	h.stolen, h.leans, h.mayLean = nil, false, false
	h.ages++
}

// durable checks that all operations are durable. The last ones need not be counted if they changed
// nothing.
func (h *historian) durable() { h.durableIn(h.f) }

func (h *historian) durableIn(f *Filter) {
	seq, ops := f.DurableSeq(), int(f.DurableOps())
	h.want(seq == h.seq && ops >= h.changed && ops <= h.ops, "%d + %d are durable, not %d + %d to %d", seq, ops, h.seq, h.changed, h.ops)
}

// insert inserts one key, or several keys in a batch.
func (h *historian) insert(unique bool, keys ...int) {
	var list [][]byte
	var hashes []uint64
	for _, key := range keys {
		list, hashes = append(list, h.keys[key]), append(hashes, h.hashes[key])
	}
	n, added, err := 1, 0, error(nil)
	switch {
	case unique:
		are := make([]bool, len(hashes))
		n, err = h.f.InsertUniqueHashBatch(hashes, are)
		for _, is := range are[:n] {
			if is {
				added++
			}
		}
	case h.meaning.len() > 2*len(h.keys):
		return
	case len(keys) > 1:
		n, err = h.f.InsertBatch(list)
	default:
		if err = h.f.Insert(list[0]); err != nil {
			n = 0
		}
	}
	fresh, loose := 0, n
	if !unique {
		added, loose = n, 0
	}
	for i, key := range keys[:n] {
		if !unique {
			h.meaning.insert(key, h.time())
		} else if !h.meaning.insertUnique(key, h.time()) {
			continue
		}
		fresh++
		h.changed = h.ops + i + 1
	}
	h.leans, h.mayLean = h.leans || added < fresh, h.mayLean || added < n
	if h.ops += n; errors.Is(err, ErrFull) && (!h.auto || h.hashless) { // the failed insert counts, too
		h.ops++
		err = nil
	}
	h.note(err, "insert %v, unique: %t: %d, added %d", keys, unique, n, added)
	h.want(added <= fresh || h.strays, "only %d keys were new", fresh)
	h.count(h.items+added, h.items+added, loose)
}

func (h *historian) delete(key int) {
	n := len(h.meaning[key])
	there, err := h.f.Delete(h.keys[key])
	h.note(err, "delete %d, which has %d copies: %t", key, n, there)
	if h.ops++; !there {
		h.want(n == 0 || h.mayBeLost(key), "the delete does not find key %d", key)
		return
	}
	if h.changed = h.ops; !h.meaning.delete(key) && (h.busy || int(h.f.Len()) != h.items) {
		h.stolen = append(h.stolen, key)
	}
	h.deleted(1, true)
}

// deleted checks that n items are gone, or none if InsertUnique has left keys out.
func (h *historian) deleted(n int, exact bool) {
	least, most := h.items-n, h.items
	if h.leans {
		least = most
	} else if exact && !h.mayLean {
		most = least
	}
	h.count(least, most, 0)
}

// time returns the time of an operation. This is the time of its commit, which is never before that of
// the commit before it.
func (h *historian) time() uint64 { return max(h.last, h.now.Load()) }

func (h *historian) setClock() {
	err := h.f.Sync()
	h.now.Store(firstTime + timeStep*h.rng.Uint64N(times))
	h.note(err, "the clock says %d", h.now.Load())
	h.last = h.time()
	h.syncAt()
	h.ages++
}

func (h *historian) expire() {
	if h.ages > 64 {
		return // a rebuild may have joined some ages
	}
	before := firstTime + timeStep*h.rng.Uint64N(times) - timeStep/2
	n, err := h.f.ExpireBefore(h.Context(), time.Unix(0, int64(before)))
	if h.refused(err, "expire") {
		return
	}
	want := h.meaning.expire(before)
	h.note(err, "expire before %d: %d", before, n)
	h.want(int(n) == want || h.strays, "%d keys expired, not %d", n, want)
	h.deleted(want, !h.strays)
	h.syncAt()
}

func (h *historian) syncAt() {
	h.seq, h.ops, h.changed = h.rng.Uint64(), 0, 0
	h.note(h.f.SyncAt(h.seq), "sync at %d", h.seq)
	h.durable()
}

// rebuild rebuilds the file. During the rebuild, it does some steps of meanwhile.
func (h *historian) rebuild(meanwhile []func()) {
	n, before, since := uint64(h.meaning.len()), h.ops, len(h.stolen)
	o := &RebuildOptions{Capacity: []uint64{0, n + 1, 2*n + 10}[h.rng.IntN(3)], Layout: historyLayouts[h.rng.IntN(len(historyLayouts))], Workers: 1}
	o.FalsePositiveRate = []float64{0, 0, 0.05, 0.2, 0.3, 0.001}[h.rng.IntN(6)]
	begun := meanwhile == nil || h.auto // an insert into a growing filter may wait for the end
	o.Progress = func(string, uint64, uint64) {
		h.f.Stats() // may be called at any stage
		if !begun {
			begun, h.busy = true, true
			h.do(3, meanwhile)
			h.busy = false
		}
	}
	err := h.f.Rebuild(h.Context(), o)
	if h.refused(err, "rebuild") {
		return
	}
	loose := h.ops - before
	h.note(nil, "rebuild for %d, rate %v, %v, %d operations meanwhile: %v", o.Capacity, o.FalsePositiveRate, o.Layout, loose, err)
	if errors.As(err, new(*OptionError)) || errors.Is(err, ErrFull) && loose > 0 {
		return
	}
	h.want(err == nil, "%v", err)
	if h.unique == 0 && !h.strays {
		loose = 0
	}
	stolen := h.stolen[since:]
	h.fromHashes()
	h.stolen, h.mayLean = stolen, loose > 0
	h.rebuilds++
	h.count(h.meaning.len()-loose, h.meaning.len()+loose, 0)
	h.durable()
}

// refused reports whether a call was refused because there are no hashes.
func (h *historian) refused(err error, what string) bool {
	if h.hashless {
		h.note(nil, "%s: %v", what, err)
		h.want(errors.Is(err, ErrNoHashes), "%s: %v, without hashes", what, err)
	}
	return h.hashless
}

// open opens the file again.
func (h *historian) open() {
	f, err := Open(h.path, &OpenOptions{CommitInterval: -1, RequireHashes: !h.hashless, Checked: h.checked})
	h.note(err, "open")
	h.f, h.rebuilds = f, 0
	h.count(h.items, h.items, 0)
	h.durable()
	h.ops = int(f.DurableOps()) // the last ones may be missing if they changed nothing
}

// close closes the filter, its reader and its follower.
func (h *historian) close() {
	if h.reader != nil {
		h.reader.Close()
		h.follower.Close()
		h.reader = nil
	}
	h.note(h.f.Close(), "close")
	h.changed = h.ops // Close makes the count durable, too
	h.verify()
}

// verify checks that a file at rest has no damage.
func (h *historian) verify() {
	r, err := Verify(h.Context(), h.path)
	if h.shard || !h.refused(r.HashesErr, "verify") {
		err = errors.Join(err, r.HashesErr)
	}
	h.want(err == nil && r.Items == uint64(h.items), "Verify: %v; %d items, not %d", err, r.Items, h.items)
}

// look syncs, and looks keys up as other processes do.
func (h *historian) look() {
	var err, err2 error
	if h.reader == nil {
		h.reader, err = OpenReadOnly(h.path, &OpenOptions{Checked: h.checked})
		h.follower, err2 = Follow(h.path, byHand)
	}
	h.note(errors.Join(err, err2, h.f.Sync()), "sync, and look")
	_, err = h.follower.Refresh()
	h.want(err == nil, "refresh: %v", err)
	h.check(h.reader)
	h.check(h.follower)
}

// kill goes on with a copy of the files, as a kill of the process would leave them.
func (h *historian) kill() { h.killAnd(func(string) error { return nil }) }

// killAnd is kill, and calls then with the copy before it opens it.
func (h *historian) killAnd(then func(path string) error) {
	to, unlock := h.newPath(), writerOf(h.f).LockAll()
	files, err := filepath.Glob(h.path + "*")
	for _, from := range files {
		err = errors.Join(err, copyOver(to+strings.TrimPrefix(from, h.path), from))
	}
	unlock()
	h.note(err, "kill")
	changed := h.changed
	h.close()
	h.path, h.changed = to, changed
	h.note(then(to), "recover")
	h.open()
}

// merge merges this file, or this file and another one, into a new file.
func (h *historian) merge() {
	h.close()
	if h.hashless {
		h.refused(Merge(h.Context(), h.newPath(), nil, h.path), "merge")
		h.open()
		return
	}
	inputs, distinct, other := []string{h.path}, h.rng.IntN(3) == 0, make(meaning, len(h.keys))
	if h.rng.IntN(2) == 0 {
		o := h.create(0.1, nil)
		defer o.f.Close()
		keySteps, rebuildSteps, _ := o.steps()
		o.do(30, append(keySteps, rebuildSteps...))
		o.close()
		h.ages += o.ages
		h.last = max(h.last, o.last)
		inputs, other = [][]string{{h.path, o.path}, {o.path, h.path}}[h.rng.IntN(2)], o.meaning
	}
	grows := h.rng.IntN(2) == 0
	if h.rng.IntN(2) == 0 { // a file merged in place keeps its growth and its sequence
		h.path, h.auto = h.newPath(), false
		h.seq, h.ops, h.changed = 0, 0, 0
	}
	h.auto = h.auto || grows
	h.meaning.merge(other, distinct)
	h.items = h.meaning.len()
	o := &Options{Capacity: uint64(h.items + 1), KeepChanges: time.Hour, AutoGrow: grows, Distinct: distinct, Workers: 1}
	o.FalsePositiveRate = []float64{0, 0.05, 0.2}[h.rng.IntN(3)]
	err := Merge(h.Context(), h.path, o, inputs...)
	h.replica.gone = true
	h.note(err, "merge %v to %s for %d, rate %v, distinct: %t", inputs, h.path, o.Capacity, o.FalsePositiveRate, distinct)
	h.fromHashes()
	h.verify()
	h.open()
}

// repair damages the lines of the file, and calls Repair.
func (h *historian) repair() {
	size := writerOf(h.f).Protocol().Geometry().RegionBytes
	h.close()
	path := h.path
	if h.hashless {
		path = h.newPath() // a copy, because the damage cannot be repaired
		h.note(copyOver(path, h.path), "copy")
	}
	h.note(flipByte(path, layout.OffRegion+h.rng.Int64N(size)), "damage")
	_, damage := Verify(h.Context(), path)
	repaired, err := Repair(h.Context(), path, nil)
	if h.hashless && damage != nil {
		h.refused(err, "repair")
		h.open()
		return
	}
	h.note(err, "repair of %v: %t", damage, repaired)
	h.want(repaired == errors.Is(damage, ErrCorrupt), "repaired: %t", repaired)
	if repaired {
		h.replica.gone = true
		h.fromHashes()
		h.items = h.meaning.len()
	}
	h.verify()
	h.open()
}
