package crashsim

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// begin starts the life. readers says whether to look keys up after each store.
func (l *life) begin(readers bool) {
	l.readers = readers
	l.floor, l.must, l.torn, l.op = l.st.floor, l.st.must, l.st.torn, -1
	if l.words(layout.WordRuntime+layout.RuntimeEpoch)&1 != 0 {
		l.torn = false
	}
	if readers || l.torn {
		l.at = l.words
		l.v.watch = l.watch
	}
}

// open opens the filter, and tries again if a sync fails. ops says whether the life will do
// operations afterwards.
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
			l.w, l.seen = w, w
			if w != nil && w.History() != l.kept {
				l.fail("O8", "the writer goes on from %+v, not from %+v", w.History(), l.kept)
			}
			return true
		}
		if l.v.Failed == failed {
			l.fail("O6", "open: %v", err)
		}
	}
	l.dead = true
	return false
}

// retries is how often opening is tried if a sync in it fails.
const retries = 3

// found checks the result of opening.
func (l *life) found(r *recovery.Recovery) {
	p := l.recovered(r)
	for i, n := range l.must {
		if p.Meant[i] < n {
			l.fail("O3", "%d copies of key %d are left, of %d that were synced", p.Meant[i], i, n)
		}
	}
	if err := l.v.superseded(); err != nil {
		l.fail("O4", "%v", err)
	}
	if epoch := l.words(layout.WordRuntime + layout.RuntimeEpoch); epoch&1 != 0 {
		l.fail("O3", "the recovery epoch is odd for ever: %d", epoch)
	}
	layout.Counters(func(word uint64) {
		if n := l.words(layout.WordRuntime + word); n&1 != 0 {
			l.fail("O4", "word %d of the runtime page is %d: the counter is odd, and even in the middle of the next operation", word, n)
		}
	})
	if !l.v.named() {
		l.fail("O9", "a power loss would bring back the file that had the name before")
	}
	// The keys of a point are checked against its image once, when the point is noted (O2, O3). The
	// image that the recovery leaves is the image of a point, bit for bit, and no counter is odd. So
	// only the fillers are left to check, each time a few of them.
	image := l.x.look(l.u().image(l.v), l.v.filter.cache.words[layout.WordRuntime:layout.WordStash])
	if l.depth == 0 && !l.opened { // the point at which the trace starts has not been checked
		l.keysPresent(&p.Counts, &p.Meant, image)
	}
	l.fillersPresent(image)
	_, sb, _, err := layout.Newest(recovery.Bytes(l.v.filter.cache.words[:layout.WordRuntime]))
	l.sealed(sb, err)
	l.hashes(&p, sb, err)
	// The recovery may count more operations than OpMin. The operations after OpMin have no record:
	// they are inserts that found no room, or a Unique whose key the history has. The client skips
	// them, too.
	for ; p.OpMin < r.Operations; p.Next++ {
		if p.Next == len(l.x.trace.Ops) {
			l.fail("O1", "%d operations more than the client has done", r.Operations-p.OpMin)
		}
		if kind := l.x.trace.Ops[p.Next].Kind; kind == Insert || kind == Unique {
			p.OpMin++
		}
	}
	p.OpMax = p.OpMin
	l.content, l.meant = content{p.Counts, p.Kept}, p.Meant
	l.floor, l.torn, l.op = p.LSN, false, p.Next-1
	l.must = p.Meant
	if l.opened {
		return // closed cleanly and opened again: the points continue
	}
	l.opened = true
	l.points = []Point{p}
}

// live opens the filter and continues with the trace, up to operation end.
func (l *life) live(end int) {
	ok := l.open(true)
	l.recoverForks()
	if !ok {
		return
	}
	l.end = end
	for l.op+1 < end && !l.dead {
		l.op++
		if l.depth == 0 && l.x.trace.failOdds != 0 && l.op >= l.x.trace.failFrom {
			l.v.FailOdds = l.x.trace.failOdds
		}
		switch op := l.x.trace.Ops[l.op]; op.Kind {
		case Insert, Delete, Unique:
			l.mutate(op)
		case Reopen:
			l.reopen()
		case Rebuild:
			l.rebuild()
		default:
			l.commit(op)
		}
		l.recoverForks()
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

// mutate does an insert or a delete.
func (l *life) mutate(op Op) {
	k := &l.u().keys[op.Key]
	if op.Kind == Delete && l.meant[op.Key] == 0 {
		return
	}
	failed, deleted := l.v.Failed, true
	err := l.call(func() (err error) {
		switch op.Kind {
		case Insert:
			return l.w.Insert(k.hash)
		case Unique:
			_, err := l.w.InsertUnique(k.hash)
			return err
		}
		if l.must[op.Key] != 0 {
			l.must[op.Key]--
		}
		if l.synced[op.Key] != 0 {
			l.synced[op.Key]--
		}
		deleted, err = l.w.Delete(k.hash)
		return err
	})
	did := l.did(op)
	switch {
	case op.Kind != Delete && errors.Is(err, l.x.sys.Full):
		if did {
			l.fail("O6", "an insert that was refused changes the length, or the history")
		}
		if n := stashLen(l.w, make([]uint64, layout.StashWords)); n < layout.StashEntries {
			l.fail("O6", "an insert was refused, and %d stash entries of %d are in use", n, layout.StashEntries)
		}
	case err != nil:
		l.failed(failed, op, err)
	case !deleted:
		l.fail("O3", "delete(%d) says that the key is not there", op.Key)
	case !did && (op.Kind != Unique || l.meant[op.Key] == 0):
		l.fail("O6", "%s changes neither the length nor the history", op)
	}
	switch {
	case !did:
	case op.Kind == Delete:
		l.meant[op.Key]--
	case op.Kind == Insert || l.meant[op.Key] == 0:
		l.meant[op.Key]++
	}
	l.point(func(p *Point) {
		if did || err == nil {
			p.OpMin, p.OpMax = p.OpMax+1, p.OpMax+1
		}
	}, errors.Is(err, l.x.sys.Full) || err == nil && !did)
	if did && l.after != nil { // the new file will get the operation, too
		l.after.does(op, l.u(), map[OpKind]int64{Insert: 1, Delete: -1}[op.Kind])
	}
}

// failed checks the error of an operation. before is the number of calls that had failed when the
// operation began: another call must have failed since. The writer must have failed, too, unless
// hashes that it must keep could not be written.
func (l *life) failed(before int, op Op, err error) {
	l.dead = l.w.Err() != nil
	if l.v.Failed == before || !l.dead && !l.v.RequireHashes {
		l.fail("O6", "%s: %v", op, err)
	}
}

// did notes what an insert or a delete has done to the file, and reports whether it has done anything.
func (l *life) did(op Op) bool {
	was, grew, kept := l.content, int64(l.w.Length()-l.items()), l.w.History()
	if grew == 0 && kept.At == was.kept.At {
		return false
	}
	want := grew // a Unique may leave its key out
	switch {
	case op.Kind == Insert, op.Kind == Unique && grew != 0:
		want = 1
	case op.Kind == Delete && was.kept.LeftOut == 0:
		want = -1
	case op.Kind == Delete:
		want = 0
	}
	l.does(op, l.u(), grew)
	if grew != want || kept != l.kept {
		l.fail("O6", "%s changes the length by %d and the history from %+v to %+v", op, grew, was.kept, kept)
	}
	return true
}

// does does an insert or a delete, which changes the number of items by grow.
func (c *content) does(op Op, u *Universe, grow int64) {
	c.counts[op.Key] += uint8(grow)
	if u.keeps {
		c.kept.Add([...]layout.Op{Insert: layout.Insert, Delete: layout.Delete, Unique: layout.AtLeastOne}[op.Kind], int(grow), u.keys[op.Key].hash)
	}
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
	// The commit makes all operations up to lsn durable, and those that are done until the segment ends.
	l.synced = l.meant
	lsn := l.w.LSN()
	after := lsn // LSN of the last operation that runs beside the commit
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
			l.synced = l.meant
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
		l.failed(failed, op, err)
	}
	if op.Kind == EndCheckpoint {
		return // it commits nothing
	}
	if l.op == first || l.w.LSN() != after {
		// No operation ran meanwhile, or the operations that ran are in the segment.
		ended()
		lsn, l.synced = l.w.LSN(), l.meant
	}
	if err == nil {
		l.floor = lsn
		l.must = l.synced
	}
}

// beside runs a few inserts and deletes while a commit waits for the disk. While a new file is being
// made, it runs no Unique, since it cannot know what the Unique will do when it is replayed there.
func (l *life) beside() {
	random := mix(l.x.trace.Seed + uint64(l.op) + uint64(l.v.events)<<16)
	n := random % 4
	if l.after != nil && random>>32%4 != 0 {
		n = 0 // a replacement has many syncs: leave some operations for the last ones
	}
	for ; n > 0 && l.op+1 < l.end && l.w.Idle(); n-- {
		op := l.x.trace.Ops[l.op+1]
		if op.Kind != Insert && op.Kind != Delete && (op.Kind != Unique || l.after != nil) {
			return
		}
		l.op++
		l.mutate(op)
	}
}

// point notes the state of the filter after an operation. next updates a copy of the
// previous point. skipped says whether the operation has no record.
func (l *life) point(next func(*Point), skipped bool) {
	last := &l.points[len(l.points)-1]
	lsn := l.w.LSN()
	p := *last
	p.LSN, p.Length, p.Counts, p.Meant, p.Kept, p.Next = lsn, l.w.Length(), l.counts, l.meant, l.kept, l.op+1
	// Once the writer has failed, pages may have fallen back to an earlier state.
	if l.w.Err() == nil || l.w != l.seen || l.counts != last.Counts || l.kept != last.Kept {
		p.Image, l.seen = l.newest(last.Image), l.w
	}
	l.present(&l.counts, &l.meant, p.Image)
	if lsn == last.LSN {
		if p.Counts != last.Counts || p.Kept != last.Kept || &p.Image[0] != &last.Image[0] {
			l.fail("O6", "%s changes the filter and has no record", l.x.trace.Ops[l.op])
		}
		if skipped {
			last.OpMax++
		}
		return
	}
	if skipped { // the new record belongs to a commit before the operation
		p.OpMin, p.OpMax, p.Next = p.OpMax, p.OpMax+1, l.op
	} else {
		next(&p)
	}
	if sum := l.items(); p.Length != sum {
		l.fail("O6", "the length is %d, but there are %d items", p.Length, sum)
	}
	l.points = append(l.points, p)
}

// newest returns the image with all operations, even those that are not durable. If nothing has
// changed, it returns old, the previous image.
func (l *life) newest(old []uint64) []uint64 {
	now := make([]uint64, len(old))
	l.w.Newest(layout.WordStash, now)
	if equal(now, old) == len(old) {
		return old
	}
	return now
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
	l.must = l.meant
	op := l.op
	l.w = nil
	if l.open(true) {
		l.op = op
	}
}

// rebuild creates a new file with the keys of the filter, which takes the place of the old file.
// No crash is tried while the new file is filled, since nobody uses it yet.
func (l *life) rebuild() {
	u, v, old := l.u(), l.v, l.w
	lsn := old.LSN() + 1<<20
	failed := v.Failed
	v.muted = true
	b := v.NewBeside(u.geometry, uint64(u.Number)+uint64(l.op+1)<<8+uint64(l.depth)<<16, u.keeps, lsn, nil)
	var next Writer
	err := l.call(func() (err error) {
		next, err = l.x.sys.fill(b, l.hashesIn())
		return err
	})
	v.muted = false
	if err == nil {
		l.after = &content{l.meant, next.History()}
		if l.x.trace.beside {
			v.during = l.beside
		}
		err = l.call(func() error { return l.x.sys.Replace(old, next, l.beside) })
		v.during = nil
	}
	after := l.after
	l.after = nil
	switch {
	case err == nil:
		l.moved(next, after)
		_, _, l.floor = next.Durable()
		l.must = l.meant
		return
	case errors.Is(err, l.x.sys.Full):
		return
	case v.Failed == failed:
		l.fail("O6", "rebuild: %v", err)
	}
	if b.first == 0 {
		l.unnamed = true
		l.moved(next, after)
	} else if l.words(layout.WordRuntime+layout.RuntimeEpoch) == layout.Superseded {
		l.fail("O6", "the old file, which goes on, says that it is superseded")
	}
	l.dead = l.w.Err() != nil // otherwise only the new file has failed, and the old one goes on
}

// moved continues in the new file, which has the content after.
func (l *life) moved(next Writer, after *content) {
	if err := l.v.superseded(); err != nil {
		l.fail("O4", "%v", err)
	}
	if after.kept != next.History() {
		l.fail("O6", "the new file has the history %+v, not %+v", next.History(), after.kept)
	}
	l.w, l.content = next, *after
	l.point(func(p *Point) { p.OpMin = p.OpMax }, false)
}

// hashesIn returns the hashes of the items that a new file must have.
func (l *life) hashesIn() (all []uint64) {
	for i, n := range l.meant[:len(l.u().keys)] {
		for range n {
			all = append(all, l.u().keys[i].hash)
		}
	}
	for _, k := range l.u().fillers {
		all = append(all, k.hash)
	}
	return all
}
