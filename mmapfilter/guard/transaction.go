package guard

import (
	"encoding/binary"
	"errors"
)

// A Tx is a transaction of the store that is about to be committed. It is used by one goroutine, in
// this order: Put and Delete in the order of its operations, Prepare, the commit, Done.
type Tx struct {
	g     *Guard
	gone  int    // keys that were deleted, with deletes: Rebuild
	known uint64 // keys that were put and that the filter had

	keys     map[string]bool // Exact: whether the transaction leaves the key there
	deletes  *pending        // Exact: those of keys that are there
	inserted bool            // Exact: puts are in the filter
	stripes  []int           // Exact: locked

	commit
	prepared bool
	record   *record
	loose    *record
	trims    *trim
	value    []byte   // of the record
	entries  [2]Entry // of the changes
}

// Begin returns a transaction. It is not used after Done.
func (g *Guard) Begin() *Tx {
	if t, ok := g.spare.Get().(*Tx); ok {
		return t
	}
	return &Tx{g: g}
}

// Put says that the transaction puts a key.
func (t *Tx) Put(key []byte) { t.change(key, true) }

// Delete says that the transaction deletes a key.
func (t *Tx) Delete(key []byte) { t.change(key, false) }

// DeleteUnknown says that the transaction may delete keys that are not known, such as those of a
// range. They stay in the filter until it is rebuilt.
func (t *Tx) DeleteUnknown() {
	t.g.mu.Lock()
	defer t.g.mu.Unlock()
	t.g.mu.unknown = true
}

func (t *Tx) change(key []byte, put bool) {
	g := t.g
	switch {
	case !g.covers(key):
	case g.options.Deletes == Exact:
		if t.keys == nil {
			t.keys = map[string]bool{}
		}
		t.keys[string(key)] = put
	case put && g.filter != nil:
		t.puts = append(t.puts, g.filter.Hash(key))
	case !put:
		t.gone++
	}
}

// Prepare puts the keys into the filter (G1) and returns the changes to make in the same transaction
// (G2). Whatever happens to the filter, the transaction can be committed; then call Done. An entry of
// puts alone may also be committed earlier: without its transaction it does no harm. One of deletes
// may not.
func (t *Tx) Prepare() Changes {
	g := t.g
	t.prepared = true
	if g.filter == nil {
		return Changes{}
	}
	if t.keys != nil {
		t.compare()
	}
	if len(t.puts) == 0 && t.deletes == nil {
		return t.changes(nil)
	}
	// From now on a rebuild looks after these keys. If its instant has passed, it learns of what
	// the filter does from then on.
	g.mu.Lock()
	t.at = len(g.mu.open)
	g.mu.open = append(g.mu.open, &t.commit)
	g.mu.prepared++
	g.mu.churning.puts += uint64(len(t.puts))
	if t.deletes != nil {
		g.mu.lastID++
		t.deletes.key = entryKey(keyDeletes, g.mu.lastID)
	}
	g.mu.Unlock()
	return t.changes(t.insert())
}

// compare finds out what the transaction changes: which of its keys are there before and after it.
// Nobody else changes these keys until Done.
func (t *Tx) compare() {
	g := t.g
	hashes := make(map[uint64]struct{}, len(t.keys))
	for key := range t.keys {
		hashes[g.filter.Hash([]byte(key))] = struct{}{}
	}
	t.stripes = g.stripes.lock(hashes)
	for key, after := range t.keys {
		h := g.filter.Hash([]byte(key))
		before, err := false, error(nil)
		if !g.serving.Load() || g.overflow.has(h) || g.filter.ContainsHash(h) {
			before, err = g.store.Has([]byte(key))
		}
		switch {
		case after && (!before || err != nil): // in doubt once more
			t.puts = append(t.puts, h)
		case !after && before && err == nil: // in doubt not at all
			if t.deletes == nil {
				t.deletes = new(pending)
			}
			t.deletes.hashes = append(t.deletes.hashes, h)
		}
	}
}

// insert puts the hashes into the filter. It returns those for which there was no room.
func (t *Tx) insert() (left []uint64) {
	g := t.g
	if len(t.puts) == 0 {
		return nil
	}
	if g.log != nil {
		if err := g.log.put(t.puts); err != nil {
			g.fail(err)
		}
		return nil
	}
	g.order.Lock()
	defer g.order.Unlock()
	t.record = g.newRecord(g.order.operations)
	left, done, err := g.insert(t.puts)
	if err != nil {
		g.fail(err)
	}
	g.order.operations += done.operations
	t.known, t.record.end = done.known, g.order.operations
	t.inserted = err == nil && len(left) == 0 && g.options.Deletes == Exact
	return left
}

// insert puts hashes into the filter, each as one operation. It returns those for which there was no
// room, or, after an error, that may not be there.
func (g *Guard) insert(hashes []uint64) (left []uint64, done inserted, err error) {
	if g.options.Deletes == Exact {
		return insertEach(g.filter, hashes)
	}
	return insertUnique(g.filter, hashes)
}

// newRecord returns a record for the operations from first on. REQUIRES: g.order.
func (g *Guard) newRecord(first uint64) *record {
	var r *record
	if n := len(g.order.free); n > 0 {
		r, g.order.free = g.order.free[n-1], g.order.free[:n-1]
	} else {
		r = &record{key: make([]byte, 9)}
	}
	r.key[0], r.done = keyInserts, false
	binary.BigEndian.PutUint64(r.key[1:], first)
	g.order.records = append(g.order.records, r)
	return r
}

// changes returns the changes to the entries. left could not be inserted.
func (t *Tx) changes(left []uint64) (c Changes) {
	g := t.g
	if t.record != nil {
		t.value = appendHashes(t.value[:0], t.puts)
		c.Set = append(t.entries[:0], Entry{t.record.key, t.value})
	}
	if t.deletes != nil {
		c.Set = append(c.Set, Entry{t.deletes.key, appendHashes(nil, t.deletes.hashes)})
	}
	if len(left) > 0 {
		t.overflows(left, &c)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.failed != nil && !g.failureIsDurable.Load() {
		c.Set = append(c.Set, Entry{entryKey(keyFailed), nil})
	}
	if c.Set != nil || t.keys == nil && t.gone > 0 {
		if t.trims, g.mu.trim = g.mu.trim, nil; t.trims != nil {
			c = t.trims.with(c)
		}
	}
	return c
}

// overflows remembers hashes for which the filter has no room, and has the store remember them.
func (t *Tx) overflows(left []uint64, c *Changes) {
	g := t.g
	g.mu.Lock()
	g.mu.lastID++
	t.loose = &record{key: entryKey(keyLoose, g.mu.lastID)}
	g.mu.loose = append(g.mu.loose, t.loose)
	g.mu.Unlock()
	c.Set = append(c.Set, Entry{t.loose.key, appendHashes(nil, left)})
	g.overflows(left)
}

func (g *Guard) overflows(left []uint64) {
	if !g.overflow.addAll(left) {
		g.mu.Lock()
		g.mu.lost = true
		g.serving.Store(false)
		g.mu.Unlock()
	}
	g.kick()
}

// An Outcome is how a commit has ended.
type Outcome uint8

const (
	Unknown   Outcome = iota // it failed, but the transaction may be visible, now or after a crash
	Committed                // it is visible
	Aborted                  // it is not visible, and never will be
)

// Done says how the commit has ended.
func (t *Tx) Done(o Outcome) {
	g := t.g
	if !t.prepared || g.filter == nil {
		return
	}
	back := false
	if o == Aborted && t.inserted {
		// In a store with one writer at a time, that writer may wait for these keys, and what holds
		// g.work for the writer.
		g.stripes.unlock(t.stripes)
		t.stripes = nil
		back = t.takeBack()
	}
	if t.record != nil {
		g.order.Lock()
		t.record.done = true
		g.order.Unlock()
	}
	g.mu.Lock()
	if n := len(g.mu.open); t.at < n && g.mu.open[t.at] == &t.commit {
		last := g.mu.open[n-1]
		g.mu.open[t.at], last.at = last, t.at
		g.mu.open = g.mu.open[:n-1]
	}
	if t.listed {
		g.mu.listed--
		g.mu.done.Broadcast()
	}
	if t.loose != nil {
		t.loose.done = true
	}
	if t.trims != nil && o != Committed {
		g.mu.trim = t.trims // once more
	} else if t.trims != nil {
		g.mu.trimOut = false
	}
	if o == Unknown {
		g.unsure(t.puts)
	}
	switch {
	case o == Aborted || t.deletes == nil:
	case o == Unknown || t.listed: // the new filter may not have them. Until there is one, the next open does them
		g.mu.dropped = append(g.mu.dropped, t.deletes)
	default:
		g.mu.deletes = append(g.mu.deletes, t.deletes)
	}
	switch {
	case o == Committed:
		g.mu.leave(uint64(t.gone))
		g.mu.know(t.known)
	case o == Aborted && !back: // the store never has these
		g.mu.leave(uint64(len(t.puts)) - t.known)
	}
	g.mu.Unlock()
	g.stripes.unlock(t.stripes)
	if g.isFull() {
		g.kick()
	}
	*t = Tx{g: g, commit: commit{puts: t.puts[:0]}, value: t.value[:0]}
	g.spare.Put(t)
}

// unsure remembers what the store may have after a crash though a snapshot of now lacks it. REQUIRES:
// g.mu.
func (g *Guard) unsure(hashes []uint64) {
	if len(hashes) > 0 && g.mu.unsure == nil {
		g.mu.unsure = map[uint64]struct{}{}
	}
	for _, h := range hashes {
		g.mu.unsure[h] = struct{}{}
	}
	if len(g.mu.unsure) > mostOverflow && g.mu.failed == nil {
		g.mu.failed = errUnsure
		g.serving.Store(false)
	}
}

var errUnsure = errors.New("too many commits ended without an answer")

// takeBack deletes what a transaction has inserted that is certainly not committed. A new filter that
// is being built may have got it again, or not: there it stays, and the result is false.
func (t *Tx) takeBack() bool {
	g := t.g
	g.work.Lock() // so no rebuild has its instant meanwhile
	defer g.work.Unlock()
	g.mu.Lock()
	listed := t.listed
	g.mu.Unlock()
	if listed {
		return false
	}
	g.order.Lock()
	defer g.order.Unlock()
	for _, h := range t.puts {
		if _, err := g.filter.DeleteHash(h); err != nil {
			g.fail(err)
			return false
		}
		g.order.operations++
	}
	return true
}
