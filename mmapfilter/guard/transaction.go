package guard

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A Tx is a transaction of the store that is about to be committed. One goroutine calls Put and Delete
// in the order of the operations, then Prepare, then commits the transaction, and calls Done.
type Tx struct {
	g     *Guard
	gone  int    // Rebuild: keys that were deleted
	known uint64 // keys that were put and that the filter already had

	keys     map[string]bool // Exact: whether the store has the key after the transaction
	unknown  bool            // it may delete keys that the caller does not know
	deletes  *deletion       // Exact: the deletes of keys that the store has
	inserted bool            // Exact: all puts are in the filter
	stripes  []int           // Exact: the stripes that it has locked

	commit
	prepared bool
	record   *record  // of puts
	loose    *record  // of hashes that overflowed
	value    []byte   // of the record
	entries  [2]Entry // of the changes
}

// Begin returns a transaction. Do not use it after Done.
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

// DeleteUnknown says that the transaction may delete keys which the caller does not know, such as the
// keys of a range. Such keys stay in the filter until it is rebuilt. If the transaction also puts keys,
// call DeleteUnknown before Prepare, since the transaction may delete the keys that it puts. With
// [Exact], no other transaction may be between Prepare and Done while such keys are deleted, unless
// Store.Has already reports them as absent.
func (t *Tx) DeleteUnknown() {
	if t.unknown {
		return
	}
	t.unknown = true
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

// Prepare puts the keys into the filter (G1) and returns changes to make in the same transaction (G2);
// they remove nothing. The transaction can be committed whatever happens to the filter. After the
// commit, call Done. If the transaction has no deletes, the changes may also be committed before it,
// and do no harm if it then fails.
func (t *Tx) Prepare() Changes {
	g := t.g
	t.prepared = true
	if g.filter == nil {
		return Changes{}
	}
	if !g.serving.Load() && g.isFailed() {
		return t.changes(nil) // nothing ever takes records and deletes out of memory again
	}
	if t.keys != nil {
		t.compare()
	}
	if len(t.puts) == 0 && len(t.again) == 0 && t.deletes == nil {
		return t.changes(nil)
	}
	// From here on, no rebuild misses these keys. Either it lists them at its instant, or, if its
	// instant has passed, it repeats the filter's operations in the new filter.
	g.mu.Lock()
	t.at = len(g.mu.open)
	g.mu.open = append(g.mu.open, &t.commit)
	g.mu.churning.puts += uint64(len(t.puts))
	if t.deletes != nil {
		g.mu.lastID++
		t.deletes.key = entryKey(keyDeletes, g.mu.lastID)
	}
	g.mu.Unlock()
	return t.changes(t.insert())
}

// compare finds out which keys the transaction adds to the store and which it deletes. The locked
// stripes keep other transactions from changing these keys until Done.
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
		case after && (!before || err != nil): // if in doubt, insert
			t.puts = append(t.puts, h)
		case !after && before && err == nil: // if in doubt, do not delete
			if t.deletes == nil {
				t.deletes = new(deletion)
			}
			t.deletes.hashes = append(t.deletes.hashes, h)
		case after && t.unknown:
			t.again = append(t.again, h)
		}
	}
}

// insert puts the hashes into the filter. It returns the hashes that found no room.
func (t *Tx) insert() (unplaced []uint64) {
	g := t.g
	if len(t.puts) == 0 {
		return nil
	}
	if g.positions != nil {
		g.put(t.puts)
		return nil
	}
	g.order.Lock()
	defer g.order.Unlock()
	t.record = g.newRecord(g.order.operations)
	unplaced, done, err := g.insert(t.puts, false)
	if err != nil {
		g.fail(err)
	}
	g.order.operations += done.operations
	t.known, t.record.end = done.known, g.order.operations
	t.inserted = err == nil && len(unplaced) == 0 && g.options.Deletes == Exact
	return unplaced
}

// inserted counts operations that insert hashes.
type inserted struct {
	operations uint64
	known      uint64 // operations whose hash the filter already had
}

// insert puts hashes into the filter, each as one operation. If Options.Deletes is Rebuild, it does not
// add hashes that the filter already has. It returns the hashes that found no room or, after an error,
// all hashes that may not be in the filter. If someRoom is set, it stops at the first hash that finds
// no room, since a search in vain is slow.
func (g *Guard) insert(hashes []uint64, someRoom bool) (unplaced []uint64, done inserted, err error) {
	for len(hashes) > 0 {
		n, added, err := g.filter.InsertHashes(hashes, g.options.Deletes == Rebuild)
		done.operations += uint64(n)
		done.known += uint64(n - added)
		if hashes = hashes[n:]; err == nil {
			break
		}
		if !errors.Is(err, mmapfilter.ErrFull) {
			return append(unplaced, hashes...), done, err
		}
		if done.operations++; someRoom {
			return hashes, done, nil
		}
		unplaced, hashes = append(unplaced, hashes[0]), hashes[1:]
	}
	return unplaced, done, nil
}

// newRecord returns a record for operations; first is the number of the first one. REQUIRES: g.order.
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

// changes returns the changes to the entries. unplaced has the hashes that found no room.
func (t *Tx) changes(unplaced []uint64) (c Changes) {
	g := t.g
	if t.record != nil {
		t.value = appendHashes(t.value[:0], t.puts)
		c.Set = append(t.entries[:0], Entry{t.record.key, t.value})
	}
	if t.deletes != nil {
		c.Set = append(c.Set, Entry{t.deletes.key, appendHashes(nil, t.deletes.hashes)})
	}
	if len(unplaced) > 0 {
		t.overflows(unplaced, &c)
	}
	if g.isFailed() && !g.failureIsDurable.Load() {
		c.Set = append(c.Set, Entry{entryKey(keyFailed), nil})
	}
	return c
}

// overflows puts hashes into the overflow, and adds an entry with them to the changes.
func (t *Tx) overflows(unplaced []uint64, c *Changes) {
	g := t.g
	g.mu.Lock()
	g.mu.lastID++
	t.loose = &record{key: entryKey(keyLoose, g.mu.lastID)}
	g.mu.loose = append(g.mu.loose, t.loose)
	g.mu.Unlock()
	c.Set = append(c.Set, Entry{t.loose.key, appendHashes(nil, unplaced)})
	g.overflows(unplaced)
}

func (g *Guard) overflows(unplaced []uint64) {
	if !g.overflow.addAll(unplaced) {
		g.mu.Lock()
		g.mu.lost = true
		g.serving.Store(false)
		g.mu.Unlock()
	}
	g.kick()
}

// An Outcome says how a commit has ended.
type Outcome uint8

const (
	Unknown   Outcome = iota // it failed, but the transaction may be visible now, or become visible after a crash
	Committed                // the transaction is visible
	Aborted                  // the transaction is not visible, and never will be
)

// Done says how the commit has ended.
func (t *Tx) Done(o Outcome) {
	g := t.g
	if !t.prepared || g.filter == nil {
		return
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
	if o == Unknown {
		g.unsure(t.puts)
		g.unsure(t.again)
	}
	g.mu.unknown = g.mu.unknown || t.unknown // again, since a rebuild may have cleared it
	switch {
	case o == Aborted || t.deletes == nil:
	case o == Unknown || t.listed:
		// The store may still have the keys, or the new filter may lack them. So only the next Open
		// does these deletes, if the store still has their entry then. A rebuild removes it.
		g.mu.dropped = append(g.mu.dropped, t.deletes)
	default:
		g.mu.deletes = append(g.mu.deletes, t.deletes)
	}
	switch {
	case o == Committed:
		g.mu.addGone(uint64(t.gone))
		g.mu.addKnown(t.known)
	case o == Aborted && t.inserted && !t.listed: // the next round removes the keys from the filter
		g.mu.deletes = append(g.mu.deletes, &deletion{hashes: slices.Clone(t.puts)})
	case o == Aborted: // nobody knows how many copies of the keys the filter has
		g.mu.addGone(uint64(len(t.puts)) - t.known)
	}
	g.mu.Unlock()
	g.stripes.unlock(t.stripes)
	if g.isFull() {
		g.kick()
	}
	*t = Tx{g: g, commit: commit{puts: t.puts[:0], again: t.again[:0]}, value: t.value[:0]}
	g.spare.Put(t)
}

// unsure remembers hashes of keys that the store may have after a crash, though a snapshot lacks them
// now. REQUIRES: g.mu.
func (g *Guard) unsure(hashes []uint64) {
	if g.mu.failed != nil {
		return
	}
	if len(hashes) > 0 && g.mu.unsure == nil {
		g.mu.unsure = map[uint64]struct{}{}
	}
	for _, h := range hashes {
		g.mu.unsure[h] = struct{}{}
	}
	if len(g.mu.unsure) > mostOverflow {
		g.mu.failed = errUnsure
		g.serving.Store(false)
	}
}

var errUnsure = errors.New("too many commits ended with an unknown outcome")

// stripes are locks, each for all keys whose hashes have the same remainder.
type stripes [256]sync.Mutex

// lock locks the stripes of hashes, and returns them for unlock.
func (s *stripes) lock(hashes map[uint64]struct{}) (locked []int) {
	for h := range hashes {
		locked = append(locked, int(h%uint64(len(s))))
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, i := range locked {
		s[i].Lock()
	}
	return locked
}

func (s *stripes) unlock(locked []int) {
	for _, i := range locked {
		s[i].Unlock()
	}
}
