package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// forEachShape runs a test for every layout, with some f and b.
func forEachShape(t *testing.T, test func(t *testing.T, p shape)) {
	for _, p := range shapes() {
		t.Run(p.String(), func(t *testing.T) { test(t, p) })
	}
}

// newLines is createLines in its own directory, in memory.
func newLines(t *testing.T, p shape, lines uint64, opts Options) (f *Filter, path string) {
	t.Helper()
	path = filepath.Join(memoryDir(t), "filter.mmf")
	f = createLines(t, path, p, lines, opts)
	t.Cleanup(func() { f.Close() })
	return f, path
}

// fill inserts random hashes until one is refused, and returns that one.
func fill(t *testing.T, f *Filter, rng *rand.Rand, m *keySet) (refused uint64) {
	t.Helper()
	for {
		h := rng.Uint64()
		if err := f.InsertHash(h); errors.Is(err, ErrFull) {
			return h
		} else if err != nil {
			t.Fatal(err)
		}
		m.apply(change{h, 1})
	}
}

// mustHold compares a filter with its keys.
func mustHold(t *testing.T, f *Filter, m *keySet) {
	t.Helper()
	if f.Len() != uint64(len(m.hashes)) {
		t.Fatalf("Len is %d, not %d", f.Len(), len(m.hashes))
	}
	for _, h := range m.hashes {
		if !f.ContainsHash(h) {
			t.Fatalf("%+v is lost", m.table.Split(h))
		}
	}
	m.check(t, newestState(writerOf(f)))
}

// TestEqualKeysCount covers C7: 25 equal keys, more than the buckets of most layouts hold, go in
// one by one, survive a crash, and come out one by one.
func TestEqualKeysCount(t *testing.T) {
	forEachShape(t, func(t *testing.T, p shape) {
		f, path := newLines(t, p, 50, Options{Seed: 1}) // with others, a key may have one line
		key := []byte("twenty-five times")
		const n = 25
		for i := range n {
			if err := f.Insert(key); err != nil {
				t.Fatal(err)
			}
			if f.Count(key) != uint64(i+1) || f.Len() != uint64(i+1) {
				t.Fatalf("after %d inserts: count %d, length %d", i+1, f.Count(key), f.Len())
			}
		}
		places := 2 * int(p.slots()) // in Compact fewer, since a guest takes more
		if stashed := writerOf(f).State().StashLen; (stashed == 1) != (n > places) {
			t.Errorf("%d entries of the stash are in use", stashed)
		}
		crashCopy(t, f, path, path+".killed", nil, nil)
		g := openQuiet(t, path+".killed", nil)
		defer g.Close()
		for i := n; i > 0; i-- {
			if g.Count(key) != uint64(i) || g.Len() != uint64(i) || !g.Contains(key) {
				t.Fatalf("%d keys: count %d, length %d", i, g.Count(key), g.Len())
			}
			if ok, err := g.Delete(key); !ok || err != nil {
				t.Fatalf("delete: %t, %v", ok, err)
			}
		}
		if ok, err := g.Delete(key); ok || err != nil || g.Contains(key) || g.Count(key) != 0 || g.Len() != 0 {
			t.Fatalf("of no keys one is deleted: %t, %v; %d are left", ok, err, g.Len())
		}
	})
}

// TestStashCounts covers C7 for a full stash: a class that has an entry is still counted, up to
// the maximum count; then the insert returns ErrFull.
func TestStashCounts(t *testing.T) {
	f, _ := newLines(t, compact26, 3, Options{})
	w := writerOf(f)
	m := newKeySet(w.Table())
	fill(t, f, seeded(t, 1), &m)
	if n := w.State().StashLen; n != layout.StashEntries {
		t.Fatalf("it is full with %d entries of the stash in use", n)
	}
	view := newestState(w)
	i := slices.IndexFunc(m.hashes, func(h uint64) bool { return layout.StashCount(view.Stash, w.Table().Class(w.Table().Split(h))) == 1 })
	h := m.hashes[i]
	for range 3 {
		if err := f.InsertHash(h); err != nil {
			t.Fatal(err)
		}
		m.apply(change{h, 1})
	}
	mustHold(t, f, &m)

	// Four billion inserts later.
	const end = 1<<32 - 1
	for i := 1; i < len(w.Stash()); i += 2 {
		if c := w.Table().Class(w.Table().Split(h)); w.Stash()[i]>>32 == uint64(c.Fp) && w.Stash()[i-1]&(1<<56-1) == c.Line {
			w.Stash()[i] |= end
		}
	}
	class := w.Table().Split(h)
	if n := layout.StashCount(w.Stash(), w.Table().Class(class)); n != end {
		t.Fatalf("the count is %d", n)
	}
	for range 2 {
		if err := f.InsertHash(h); !errors.Is(err, ErrFull) {
			t.Fatalf("one more than the stash can count: %v", err)
		}
	}
	if n := layout.StashCount(w.Stash(), w.Table().Class(class)); n != end || f.Len() != uint64(len(m.hashes)) {
		t.Fatalf("the count is %d, %d keys", n, f.Len())
	}
}

// TestTwins covers the reason for the order of a delete (place, P5). Keys have the same class,
// and the home of each is the alternate line of the other. Deleting one never makes the other
// absent. Other keys surround them, so that the twins are in all three places.
func TestTwins(t *testing.T) {
	forEachShape(t, func(t *testing.T, p shape) {
		rng := seeded(t, p.Fingerprints())
		f, _ := newLines(t, p, p.lines(3), Options{})
		table := writerOf(f).Table()
		m := newKeySet(table)
		var twins []uint64
		for fp := uint32(1); len(twins) < 12; fp++ {
			it := layout.Item{Line: 1, Fp: fp}
			if other := table.Alternate(it); other.Line != it.Line {
				twins = append(twins, multiset.HashOf(table, it), multiset.HashOf(table, other))
			}
		}
		stashed, deleted := 0, 0
		for range 6000 {
			h := twins[rng.IntN(len(twins))]
			switch {
			case rng.IntN(4) == 0: // another key comes: a new one, or a copy
				if i := rng.IntN(2 * layout.SlotsPerLine(table.Kind(), table.Params()) * int(table.Lines())); i < len(m.hashes) {
					h = m.hashes[i]
				} else {
					h = rng.Uint64()
				}
				fallthrough
			case rng.IntN(2) == 0:
				if n := m.Copies(h); n < 3 && f.InsertHash(h) == nil {
					m.apply(change{h, 1})
				}
			case m.Copies(h) > 0:
				if layout.StashCount(writerOf(f).Stash(), table.Class(table.Split(h))) > 0 {
					stashed++
				}
				if ok, err := f.DeleteHash(h); !ok || err != nil {
					t.Fatalf("delete: %t, %v", ok, err)
				}
				m.apply(change{h, -1})
				deleted++
			}
			for _, h := range twins {
				if m.Copies(h) > 0 && !f.ContainsHash(h) {
					t.Fatalf("%+v is lost", table.Split(h))
				}
			}
		}
		mustHold(t, f, &m)
		if stashed == 0 || stashed == deleted {
			t.Errorf("of %d deletes, %d were of a twin in the stash", deleted, stashed)
		}
	})
}

// TestFull covers C3: up to ErrFull and beyond, every accepted key is found, and a refused key
// is refused again; deleting a key makes room for one.
func TestFull(t *testing.T) {
	t.Parallel() // uses only one processor
	forEachShape(t, func(t *testing.T, p shape) {
		for _, lines := range []uint64{1, 3, 40} {
			rng := seeded(t, lines)
			f, path := newLines(t, p, p.lines(lines), Options{})
			m := newKeySet(writerOf(f).Table())
			refused := fill(t, f, rng, &m)
			ops := len(m.hashes) + 1
			for range 500 {
				for range 2 {
					if err := f.InsertHash(refused); !errors.Is(err, ErrFull) {
						t.Fatalf("refused before, and now: %v", err)
					}
					ops++
				}
				for h := rng.Uint64(); ; h = rng.Uint64() {
					err := f.InsertHash(h)
					ops++
					if errors.Is(err, ErrFull) {
						refused = h
						break
					}
					m.apply(change{h, 1}) // a class that is already in the stash
				}
			}
			mustHold(t, f, &m)

			for range 200 {
				h := m.hashes[rng.IntN(len(m.hashes))]
				if ok, err := f.DeleteHash(h); !ok || err != nil {
					t.Fatalf("delete: %t, %v", ok, err)
				}
				if err := f.InsertHash(h); err != nil {
					t.Fatalf("there is no room for the key that was just deleted: %v", err)
				}
				ops += 2
			}
			mustHold(t, f, &m)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f = openQuiet(t, path, nil)
			mustHold(t, f, &m)
			if f.DurableOps() != uint64(ops) {
				t.Errorf("%d operations, not %d", f.DurableOps(), ops)
			}
			f.Close()
		}
	})
}

// TestDeletesDrainTheStash: when some keys of a full filter are deleted, the items of the stash
// find room in the lines; nothing is lost.
func TestDeletesDrainTheStash(t *testing.T) {
	t.Parallel() // uses only one processor
	forEachShape(t, func(t *testing.T, p shape) {
		rng := seeded(t, 5)
		f, path := newLines(t, p, p.lines(200), Options{})
		w := writerOf(f)
		m := newKeySet(w.Table())
		fill(t, f, rng, &m)
		if w.State().StashLen < layout.StashEntries*9/10 {
			t.Fatalf("full with %d entries of the stash in use", w.State().StashLen)
		}
		n := len(m.hashes)
		deleted := 0
		for ; w.State().StashLen > 0 && deleted < n/2; deleted++ {
			h := m.hashes[rng.IntN(len(m.hashes))]
			if ok, err := f.DeleteHash(h); !ok || err != nil {
				t.Fatalf("delete: %t, %v", ok, err)
			}
			m.apply(change{h, -1})
		}
		t.Logf("of %d keys, %d were deleted until the stash was empty", n, deleted)
		mustHold(t, f, &m)
		if w.State().StashLen > 0 {
			t.Errorf("%d entries of the stash are in use", w.State().StashLen)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(context.Background(), path); err != nil || r.Items != uint64(len(m.hashes)) || r.StashLen != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestDeletesBesideADamagedStash: damaged stash entries never move into a line. Neither they nor
// the deletes that make room lose anything else, and nothing panics.
func TestDeletesBesideADamagedStash(t *testing.T) {
	type words = [2]uint64
	for name, damage := range map[string]func(place uint64, entry words) (uint64, words){
		"no items":       func(place uint64, e words) (uint64, words) { return place, words{e[0], e[1] &^ (1<<32 - 1)} },
		"another group":  func(place uint64, e words) (uint64, words) { return (place + 16) % layout.StashWords, e },
		"no line":        func(place uint64, e words) (uint64, words) { return place, words{1 << 40, e[1]} },
		"no bucket":      func(place uint64, e words) (uint64, words) { return place, words{e[0] | 127<<56, e[1]} },
		"no fingerprint": func(place uint64, e words) (uint64, words) { return place, words{e[0], e[1] | 1<<63} },
	} {
		t.Run(name, func(t *testing.T) {
			forEachShape(t, func(t *testing.T, p shape) {
				if p.FingerprintBits == 32 && name == "no fingerprint" {
					return // every value is a fingerprint
				}
				rng := seeded(t, 1)
				f, path := newLines(t, p, p.lines(20), Options{LogBytes: wal.MinBytes})
				table := writerOf(f).Table()
				hashes := make([]uint64, int(table.Lines())*layout.SlotsPerLine(table.Kind(), table.Params())/2)
				for i := range hashes {
					hashes[i] = rng.Uint64()
					if err := f.InsertHash(hashes[i]); err != nil {
						t.Fatal(err)
					}
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				stash := make([]uint64, layout.StashWords)
				var entry words
				var place uint64
				layout.StashAdd(stash, table.Class(table.Split(rng.Uint64())), func(word, value uint64, _ bool) {
					entry[word%2] = value
					place = (word - layout.WordStash) &^ 1
				})
				place, entry = damage(place, entry)
				image, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				binary.LittleEndian.PutUint64(image[layout.OffStash+8*place:], entry[0])
				binary.LittleEndian.PutUint64(image[layout.OffStash+8*place+8:], entry[1])
				if err := os.WriteFile(path, image, 0o644); err != nil {
					t.Fatal(err)
				}
				if f, err = Open(path, &OpenOptions{CommitInterval: -1}); err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				half := len(hashes) / 2
				for i, h := range hashes[:half] {
					if ok, err := f.DeleteHash(h); !ok || err != nil {
						t.Fatalf("delete %d: %t, %v", i, ok, err)
					}
				}
				for i, h := range hashes[half:] {
					if !f.ContainsHash(h) {
						t.Fatalf("item %d is lost", half+i)
					}
				}
				if n := f.Stats().StashLen; n != 1 {
					t.Errorf("%d entries", n)
				}
			})
		})
	}
}

// A client runs the operations of a stream in order, each SyncAt with its position in the
// stream. After a crash it resumes where DurableSeq and DurableOps say. It remembers the result
// of each insert, since a refused key must not be deleted.
type client struct {
	stream  []clientStep
	refused []bool // inserts, by position
	done    []int  // positions of the operations since the last SyncAt
	at      int
}

// A clientStep is an insert of a hash, or the delete of a hash that an earlier step inserted.
type clientStep struct {
	hash     uint64
	inserted int // the earlier step, or -1
}

// newStream makes a stream of which a third are deletes. Keys are equal, twins, or neither.
func newStream(t *testing.T, rng *rand.Rand, table layout.Table, n int) (stream []clientStep) {
	var pool []uint64
	values := uint32(min(table.Params().Fingerprints(), 1<<31) - 1)
	for fp := range uint32(20) {
		it := layout.Item{Line: rng.Uint64N(table.Lines()), Fp: fp%values + 1}
		pool = append(pool, multiset.HashOf(table, it), multiset.HashOf(table, table.Alternate(it)))
	}
	var present []int
	for i := range n {
		s := clientStep{rng.Uint64(), -1}
		switch r := rng.IntN(6); {
		case r < 2 && len(present) > 0:
			j := rng.IntN(len(present))
			s = clientStep{stream[present[j]].hash, present[j]}
			present[j] = present[len(present)-1]
			present = present[:len(present)-1]
		case r == 2:
			s.hash = pool[rng.IntN(len(pool))]
			fallthrough
		default:
			present = append(present, i)
		}
		stream = append(stream, s)
	}
	return stream
}

// do runs the next operation.
func (c *client) do(t *testing.T, f *Filter) {
	s := c.stream[c.at]
	switch {
	case s.inserted < 0:
		err := f.InsertHash(s.hash)
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		c.refused[c.at] = err != nil
	case c.refused[s.inserted]:
		c.at++ // nothing to delete: no operation
		return
	default:
		if ok, err := f.DeleteHash(s.hash); !ok || err != nil {
			t.Fatalf("delete of step %d: %t, %v", s.inserted, ok, err)
		}
	}
	c.done = append(c.done, c.at)
	c.at++
}

// resume goes back to the last durable operation.
func (c *client) resume(t *testing.T, seq, ops uint64, noted int) (lost int) {
	if seq != uint64(noted) || ops > uint64(len(c.done)) {
		t.Fatalf("%d + %d are durable, of %d + %d", seq, ops, noted, len(c.done))
	}
	lost = len(c.done) - int(ops)
	if lost > 0 {
		c.at = c.done[ops]
	}
	c.done = c.done[:ops]
	return lost
}

// held returns what the filter must hold before the next operation.
func (c *client) held(table layout.Table) keySet {
	m := newKeySet(table)
	for i, s := range c.stream[:c.at] {
		if s.inserted < 0 && !c.refused[i] {
			m.apply(change{s.hash, 1})
		} else if s.inserted >= 0 && !c.refused[s.inserted] {
			m.apply(change{s.hash, -1})
		}
	}
	return m
}

// TestClientResumes covers C1 and C2 for a client that continues after each of many crashes: it
// loses nothing and does nothing twice. Half of the crashes are kills; the others cut off a part
// of the log that was not synced.
func TestClientResumes(t *testing.T) {
	t.Parallel() // uses only one processor
	forEachShape(t, func(t *testing.T, p shape) {
		seed := rand.Uint64()
		rng := seeded(t, seed)
		f, path := newLines(t, p, p.lines(1+seed%2), Options{LogBytes: wal.MinBytes})
		table := writerOf(f).Table()
		const steps = 5000
		c := &client{stream: newStream(t, rng, table, steps), refused: make([]bool, steps)}
		noted, lost, cuts, crashes := 0, 0, 0, 0
		var log []uint64
		for c.at < steps {
			switch r := rng.IntN(400); {
			case r < 2:
				if err := f.SyncAt(uint64(c.at)); err != nil {
					t.Fatal(err)
				}
				noted, c.done = c.at, nil
				log = logOf(t, path)
			case r < 4:
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				log = logOf(t, path)
			case r < 8:
				crashes++
				var cut func(from, end uint64) uint64
				if r < 6 {
					cut = func(from, end uint64) uint64 { return from + rng.Uint64N(end-from+1) }
				}
				durable := f.DurableOps()
				to := fmt.Sprintf("%s.%d", path, crashes)
				crashCopy(t, f, path, to, log, cut)
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				os.Remove(path)
				path = to
				f = openQuiet(t, path, &OpenOptions{LogBytes: wal.MinBytes})
				if f.DurableOps() < durable {
					t.Fatalf("%d operations are durable, and were %d", f.DurableOps(), durable)
				}
				n := c.resume(t, f.DurableSeq(), f.DurableOps(), noted)
				if lost += n; cut != nil && n > 0 {
					cuts++
				}
				held := c.held(table)
				mustHold(t, f, &held)
				log = logOf(t, path)
			default:
				c.do(t, f)
			}
		}
		held := c.held(table)
		mustHold(t, f, &held)
		refused := 0
		for _, r := range c.refused {
			if r {
				refused++
			}
		}
		t.Logf("%d crashes, of which %d lost %d operations; %d keys, %d refused", crashes, cuts, lost, f.Len(), refused)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
