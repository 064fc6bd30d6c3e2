package crashsim

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A life is one process on a volume. It opens the filter and continues with the trace.
type life struct {
	x     *worker
	v     *Volume
	st    State // state in which it found the volume
	depth int   // number of crashes before it

	w       Writer // nil while the filter is being opened
	op      int    // current operation
	end     int    // operation to stop before
	opened  bool   // the filter has been opened at least once
	counts  Counts
	must    Counts
	floor   uint64
	torn    bool
	dead    bool   // a sync has failed
	unnamed bool   // the file that the writer has moved to may not survive a power loss
	synced  Counts // what the current sync or handover makes durable, less what is deleted meanwhile

	next     Writer  // of the current handover, once operations are done in both files
	doubling []Point // after each of these, in its file

	readers bool     // simulate readers
	history *history // what readers read; nil before there are any

	// points are the states of the filter after each operation. A life with forks is
	// lived twice. The first time, the rehearsal, finds the points, since an operation
	// that a crash interrupts may or may not have its effect.
	points    []Point
	rehearsal *life
}

func (l *life) u() *Universe { return l.x.trace.Universe }

func (l *life) fail(oracle, format string, args ...any) {
	when := "while it is opened: "
	if l.opened {
		when = fmt.Sprintf("at operation %d: ", l.op)
	}
	panic(&Violation{Oracle: oracle, What: when + fmt.Sprintf(format, args...), Chain: l.x.chainText(), Trace: l.x.trace})
}

// call runs a call of the library. A panic in it is a violation.
func (l *life) call(f func() error) error {
	defer func() {
		if r := recover(); r != nil {
			if v, ok := r.(*Violation); ok {
				panic(v)
			}
			l.fail("O6", "panic: %v\n%s", r, debug.Stack())
		}
	}()
	err := f()
	if slot := l.v.patched - 1; slot >= 0 {
		l.fail("O7", "a superblock was stored over a half-written one, with its checksum, in slot %d of the disk", slot)
	}
	return err
}

// words returns a word of the cache, as a reader in another process sees it.
func (l *life) words(word uint64) uint64 { return l.v.filter.cache.words[word] }

// known returns what the filter may be if there is a crash now.
func (l *life) known() []Point {
	switch {
	case !l.opened:
		return l.st.points
	case l.rehearsal != nil:
		return l.rehearsal.points
	}
	return l.points
}

// state returns what is known if there is a crash now.
func (l *life) state() State {
	st := State{points: l.known(), floor: l.floor, must: l.must, torn: l.torn}
	if l.w != nil && !l.unnamed {
		_, _, lsn := l.w.Durable()
		st.floor = max(st.floor, lsn)
	}
	from := l.rehearsal
	if from == nil {
		from = l
	}
	if from.history != nil && !l.torn && !l.x.trace.rebuilds() {
		st.past = from.history
	}
	return st
}

// forReaders are the words of the runtime page that lookups read.
var forReaders = func() (words [layout.RuntimeWords]bool) {
	words[layout.RuntimeEpoch] = true
	layout.Counters(func(word uint64) { words[word] = true })
	return words
}()

// begin starts the life. readers says whether to simulate readers.
func (l *life) begin(readers bool) {
	l.readers = readers
	l.floor, l.must, l.torn, l.op = l.st.floor, l.st.must, l.st.torn, -1
	if l.words(layout.WordRuntime+layout.RuntimeEpoch)&1 != 0 {
		l.torn = false
	}
	switch {
	case readers && l.st.past != nil:
		l.history = l.st.past
	case readers && !l.torn:
		l.record()
	}
	if readers || l.torn {
		l.v.watch = l.watch
	}
}

// record starts a history.
func (l *life) record() {
	l.history = newHistory(l.v.filter.cache.words[layout.WordRuntime : layout.WordRegion+l.u().geometry.RegionBytes/8])
	l.history.require(new(Counts), &l.must, l.v.events)
}

// watch is called after every store that readers can see, and checks O4.
func (l *life) watch(word, value uint64) {
	if word == layout.WordRuntime+layout.RuntimeEpoch && value&1 != 0 && l.torn {
		l.torn = false
		if l.readers {
			l.record()
		}
		return
	}
	if l.history == nil || word < layout.WordStash && !forReaders[word-layout.WordRuntime] ||
		word >= layout.WordRegion+uint64(l.u().geometry.RegionBytes)/8 {
		return
	}
	l.history.store(word, value, l.v.events+1)
	u := l.u()
	lines := ^uint64(0)
	if word >= layout.WordRegion {
		lines = u.linesOf[word-layout.WordRegion]
	}
	for i := range u.keys {
		if l.must[i] != 0 && u.keys[i].lines&lines != 0 && !layout.Lookup(u.table, l.words, u.keys[i].hash) {
			l.fail("O4", "key %d is answered absent after a store of %#x to word %d", i, value, word)
		}
	}
	for range min(4, len(u.fillers)) {
		i := l.x.rng.IntN(len(u.fillers))
		if u.fillers[i].lines&lines != 0 && !layout.Lookup(u.table, l.words, u.fillers[i].hash) {
			l.fail("O4", "filler %d is answered absent after a store of %#x to word %d", i, value, word)
		}
	}
}

func (l *life) setMust(must Counts) {
	if l.history != nil {
		l.history.require(&l.must, &must, l.v.events)
	}
	l.must = must
}

// retries is how often opening is tried if a sync in it fails.
const retries = 3

// open opens the filter, and tries again if a sync fails. If ops is set, the life then does
// operations.
func (l *life) open(ops bool) (ok bool) {
	for range retries {
		failed := l.v.Failed
		var r *recovery.Recovery
		var w Writer
		err := l.call(func() (err error) {
			if ops {
				w, r, err = l.x.sys.Open(l.v)
			} else {
				_, r, err = recovery.NewWriter(l.v)
			}
			return err
		})
		if err == nil {
			l.found(r)
			l.w = w
			return true
		}
		if l.v.Failed == failed {
			l.fail("O6", "open: %v", err)
		}
	}
	l.dead = true
	return false
}

// found checks the result of opening.
func (l *life) found(r *recovery.Recovery) {
	p := l.recovered(r)
	for i, n := range l.must {
		if p.Counts[i] < n {
			l.fail("O3", "%d copies of key %d are left, of %d that were synced", p.Counts[i], i, n)
		}
	}
	if err := l.v.superseded(); err != nil {
		l.fail("O4", "%v", err)
	}
	if epoch := l.words(layout.WordRuntime + layout.RuntimeEpoch); epoch&1 != 0 {
		l.fail("O3", "the recovery epoch is odd for ever: %d", epoch)
	}
	if !l.v.named() {
		l.fail("O9", "a power loss would bring back the file that had the name before")
	}
	l.present(&p.Counts, l.words)
	l.sealed()
	l.hashes(&p)
	// The client skips the operations that the recovery counts. Operations without a
	// record are inserts that found no room.
	for ; p.OpMin < r.Operations; p.Next++ {
		if p.Next == len(l.x.trace.Ops) {
			l.fail("O1", "%d operations more than the client has done", r.Operations-p.OpMin)
		}
		if l.x.trace.Ops[p.Next].Kind == Insert {
			p.OpMin++
		}
	}
	p.OpMax = p.OpMin
	l.counts, l.floor, l.torn, l.op = p.Counts, p.LSN, false, p.Next-1
	l.setMust(p.Counts)
	if l.opened {
		return // closed cleanly and opened again: the points continue
	}
	l.opened = true
	l.points = []Point{p}
}

// hashes checks the kept hashes of a file at rest (O8).
func (l *life) hashes(p *Point) {
	_, sb, _, err := layout.Newest(recovery.Bytes(l.v.filter.cache.words[:layout.WordRuntime]))
	if err != nil || !sb.KeepsHashes() {
		return
	}
	counted := sb.Hashes()
	if counted.Pages == 0 {
		if l.x.trace.failOdds == 0 {
			l.fail("O8", "the hashes are lost, and nothing failed")
		}
		return
	}
	sum, items, err := l.v.sumOf(counted)
	want := l.u().sum
	for i, n := range p.Counts[:len(l.u().keys)] {
		want += uint64(n) * mix(l.u().keys[i].hash)
	}
	if err != nil || sum != want || items != p.Length {
		l.fail("O8", "the kept hashes are not those of the items: %d of %d, %v", items, p.Length, err)
	}
}

// sealed checks a file in state sealed against its checksums.
func (l *life) sealed() {
	words := l.v.filter.cache.words
	_, sb, _, err := layout.Newest(recovery.Bytes(words[:layout.WordRuntime]))
	if err == nil && sb.State() == layout.Sealed {
		err = l.x.sys.Verify(words)
	}
	if err != nil {
		l.fail("O6", "a sealed file: %v", err)
	}
}

// live opens the filter and continues with the trace, up to operation end.
func (l *life) live(end int) {
	if !l.open(true) {
		return
	}
	l.end = end
	for l.op+1 < end && !l.dead {
		l.op++
		if l.depth == 0 && l.x.trace.failOdds != 0 && l.op >= l.x.trace.failFrom {
			l.v.FailOdds = l.x.trace.failOdds
		}
		switch op := l.x.trace.Ops[l.op]; op.Kind {
		case Insert, Delete:
			l.mutate(op)
		case Reopen:
			l.reopen()
		case Rebuild:
			l.rebuild()
		default:
			l.commit(op)
		}
	}
	if l.dead && l.w != nil {
		if err := l.call(func() error { return l.w.Sync(true, 1<<40) }); err == nil {
			l.fail("O6", "a sync returned no error after another one had failed")
		}
		if err := l.call(func() error { return l.w.Insert(l.u().keys[0].hash) }); err == nil || errors.Is(err, l.x.sys.Full) {
			l.fail("O6", "an insert returned %v after a sync had failed", err)
		}
	}
}

// mutate does an insert or a delete. It reports false if the client is to try it again.
func (l *life) mutate(op Op) bool {
	k := &l.u().keys[op.Key]
	if op.Kind == Delete && l.counts[op.Key] == 0 {
		return true
	}
	length, failed := l.w.Length(), l.v.Failed
	deleted, grow := true, int64(1)
	err := l.call(func() (err error) {
		if op.Kind == Insert {
			return l.w.Insert(k.hash)
		}
		grow = -1
		if must := l.must; must[op.Key] != 0 {
			must[op.Key]--
			l.setMust(must)
		}
		if l.synced[op.Key] != 0 {
			l.synced[op.Key]--
		}
		deleted, err = l.w.Delete(k.hash)
		return err
	})
	did := l.w.Length() != length
	switch {
	case op.Kind == Insert && errors.Is(err, l.x.sys.Again) && !did && l.next != nil:
		return false
	case op.Kind == Insert && errors.Is(err, l.x.sys.Full):
		if did {
			l.fail("O6", "an insert that was refused changes the length")
		}
		if n := l.u().stashLen(l.w); n < layout.StashEntries {
			l.fail("O6", "an insert was refused, and %d stash entries of %d are in use", n, layout.StashEntries)
		}
	case err != nil:
		if l.v.Failed == failed {
			l.fail("O6", "%s: %v", op, err)
		}
		l.dead = true
	case !deleted:
		l.fail("O3", "delete(%d) says that it is not there", op.Key)
	case !did:
		l.fail("O6", "%s does not change the length", op)
	}
	if did {
		if l.w.Length() != length+uint64(grow) {
			l.fail("O6", "%s changes the length from %d to %d", op, length, l.w.Length())
		}
		l.counts[op.Key] += uint8(grow)
	}
	note := func() {
		l.point(func(p *Point) {
			if did || err == nil {
				p.OpMin, p.OpMax = p.OpMax+1, p.OpMax+1
			}
		}, errors.Is(err, l.x.sys.Full))
	}
	note()
	l.inNext(note)
	return true
}

// commit does a sync, a checkpoint, half of one, or a seal.
func (l *life) commit(op Op) {
	failed, first := l.v.Failed, l.op
	seq := uint64(l.op + 1)
	ended := func() { // notes the point at which the segment ends
		l.point(func(p *Point) {
			p.OpMin = p.OpMax
			if op.Kind == SyncSeq {
				p.UserSeq, p.OpMin, p.OpMax = seq, 0, 0
			}
		}, false)
	}
	// What is durable afterwards: all that was done up to lsn, and more if the segment ends
	// later.
	l.synced = l.counts
	lsn := l.w.LSN()
	after := lsn // the operations beside it
	if l.x.trace.beside {
		l.v.during = func() {
			if !l.w.Idle() {
				return
			}
			l.v.during = nil
			if l.w.LSN() != lsn {
				ended()
			}
			lsn = l.w.LSN()
			l.synced = l.counts
			l.beside()
			after = l.w.LSN()
		}
	}
	err := l.call(func() error {
		switch op.Kind {
		case Checkpoint:
			return l.w.Checkpoint()
		case Seal:
			return l.w.Seal()
		case BeginCheckpoint:
			return l.w.BeginCheckpoint()
		case EndCheckpoint:
			return l.w.EndCheckpoint()
		}
		return l.w.Sync(op.Kind == SyncSeq, seq)
	})
	l.v.during = nil
	if err != nil {
		if l.v.Failed == failed {
			l.fail("O6", "%s: %v", op, err)
		}
		l.dead = true
	}
	if op.Kind == EndCheckpoint {
		return // it commits nothing
	}
	if l.op == first || l.w.LSN() != after {
		// No operation ran meanwhile, or those that did are in the segment.
		ended()
		lsn, l.synced = l.w.LSN(), l.counts
	}
	if err == nil {
		l.floor = lsn
		l.setMust(l.synced)
	}
}

// beside runs a few inserts and deletes while a commit waits for the disk.
func (l *life) beside() {
	for n := mix(l.x.trace.Seed+uint64(l.op)) % 4; n > 0 && l.op+1 < l.end && l.w.Idle(); n-- {
		op := l.x.trace.Ops[l.op+1]
		if op.Kind != Insert && op.Kind != Delete {
			return
		}
		l.op++
		if !l.mutate(op) {
			l.op--
			return
		}
	}
}

// besideHandover is beside at an instant of a handover to next.
func (l *life) besideHandover(next Writer) {
	if !l.w.Idle() {
		return
	}
	if l.next == nil && l.w.Doubles() {
		l.next, l.synced = next, l.counts
		if l.rehearsal == nil {
			p := l.points[len(l.points)-1]
			p.LSN, p.OpMin = next.LSN(), p.OpMax // it has counted them all
			l.doubling = []Point{p}
			l.inNext(func() { l.points[0].Image = l.newest(p.Image) })
		}
	}
	l.beside()
}

// inNext calls note for the other file, if operations are done in both.
func (l *life) inNext(note func()) {
	if l.next == nil || l.rehearsal != nil {
		return
	}
	l.w, l.next, l.points, l.doubling = l.next, l.w, l.doubling, l.points
	note()
	l.w, l.next, l.points, l.doubling = l.next, l.w, l.doubling, l.points
}

// point notes the state of the filter after an operation. next updates a copy of the
// previous point.
func (l *life) point(next func(*Point), skipped bool) {
	if l.rehearsal != nil {
		return
	}
	last := &l.points[len(l.points)-1]
	lsn := l.w.LSN()
	p := *last
	p.LSN, p.Length, p.Counts, p.Next = lsn, l.w.Length(), l.counts, l.op+1
	p.Image = l.newest(last.Image)
	l.present(&l.counts, func(word uint64) uint64 {
		if word < layout.WordStash {
			return 0
		}
		return p.Image[word-layout.WordStash]
	})
	if lsn == last.LSN {
		if p.Counts != last.Counts || !slices.Equal(p.Image, last.Image) {
			l.fail("O6", "%s changes the filter and has no record", l.x.trace.Ops[l.op])
		}
		if skipped {
			last.OpMax++
		}
		return
	}
	if skipped { // but a commit came before it
		p.OpMin, p.OpMax, p.Next = p.OpMax, p.OpMax+1, l.op
	} else {
		next(&p)
	}
	if sum := l.items(); p.Length != sum {
		l.fail("O6", "the length is %d, and there are %d items", p.Length, sum)
	}
	l.points = append(l.points, p)
}

// newest returns the image that includes operations that are not durable. If nothing has
// changed, it returns old, the previous image.
func (l *life) newest(old []uint64) []uint64 {
	image := old
	for i, w := range old {
		now := l.w.Word(layout.WordStash + uint64(i))
		if now == w {
			continue
		}
		if &image[0] == &old[0] {
			image = slices.Clone(old)
		}
		image[i] = now
	}
	return image
}

func (l *life) items() uint64 {
	n := uint64(len(l.u().fillers))
	for _, c := range l.counts {
		n += uint64(c)
	}
	return n
}

// reopen closes the filter cleanly and opens it again.
func (l *life) reopen() {
	failed := l.v.Failed
	err := l.call(l.w.Clean)
	l.point(func(p *Point) { p.OpMin = p.OpMax }, false)
	if err != nil {
		if l.v.Failed == failed {
			l.fail("O6", "close: %v", err)
		}
		l.dead = true
		return
	}
	l.floor = l.w.LSN()
	l.setMust(l.counts)
	op := l.op
	l.w = nil
	if l.open(true) {
		l.op = op
	}
}

// rebuild has a new file with the items of the filter take its place. What makes the new file is
// not explored, since nobody uses it before.
func (l *life) rebuild() {
	u, v, old := l.u(), l.v, l.w
	lsn := old.LSN() + 1<<20
	failed := v.Failed
	v.muted = true
	b := v.newBeside(u.geometry, uint64(u.Number)+uint64(l.op+1)<<8+uint64(l.depth)<<16, u.keeps, lsn)
	var next Writer
	err := l.call(func() (err error) {
		next, err = l.x.sys.fill(b, l.hashesIn())
		return err
	})
	v.muted = false
	if err == nil {
		if l.x.trace.beside {
			v.during = func() { l.besideHandover(next) }
		}
		err = l.call(func() error { return l.x.sys.Handover(old, next, l.beside) })
		v.during = nil
	}
	doubling, doubled := l.doubling, l.next != nil
	l.next, l.doubling = nil, nil
	if errors.Is(err, l.x.sys.Full) {
		return
	}
	if err != nil {
		if v.Failed == failed {
			l.fail("O6", "rebuild: %v", err)
		}
		if b.first == 0 {
			l.unnamed = true
			l.moved(next, doubling)
		}
		l.dead = l.w.Err() != nil // otherwise the new file has failed, and nothing has happened
		return
	}
	l.moved(next, doubling)
	_, _, l.floor = next.Durable()
	if !doubled {
		l.synced = l.counts
	}
	l.setMust(l.synced)
}

// moved goes on in the new file, after operations that were done in both. The last readers of the old
// one have seen that it is superseded.
func (l *life) moved(next Writer, doubling []Point) {
	l.points = append(l.points, doubling...)
	if l.history != nil {
		l.read(6)
	}
	if err := l.v.superseded(); err != nil {
		l.fail("O4", "%v", err)
	}
	l.w = next
	if l.history != nil {
		l.record()
	}
	l.point(func(p *Point) { p.OpMin = p.OpMax }, false)
}

// hashesIn returns the hashes of the items.
func (l *life) hashesIn() (all []uint64) {
	for i, n := range l.counts[:len(l.u().keys)] {
		for range n {
			all = append(all, l.u().keys[i].hash)
		}
	}
	for _, k := range l.u().fillers {
		all = append(all, k.hash)
	}
	return all
}
