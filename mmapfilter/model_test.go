package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"pgregory.net/rapid"
)

// A keySet is what a filter must hold: a multiset, and the hashes it has counted, each as
// often as it is in.
type keySet struct {
	*multiset.Multiset
	table  layout.Table
	hashes []uint64
}

func newKeySet(t layout.Table) keySet { return keySet{multiset.New(t), t, nil} }

func (m keySet) clone() keySet {
	return keySet{m.Clone(), m.table, slices.Clone(m.hashes)}
}

// A change is what an operation makes of a keySet: an item more, one less, or nothing.
type change struct {
	hash uint64
	grow int
}

func (m *keySet) apply(c change) {
	if c.grow == 0 {
		return
	}
	m.Add(c.hash, c.grow)
	if c.grow > 0 {
		m.hashes = append(m.hashes, c.hash)
		return
	}
	i := slices.Index(m.hashes, c.hash)
	if i < 0 { // an equal item under another hash
		place := m.Locate(c.hash)
		i = slices.IndexFunc(m.hashes, func(h uint64) bool { return m.Locate(h) == place })
	}
	m.hashes[i] = m.hashes[len(m.hashes)-1]
	m.hashes = m.hashes[:len(m.hashes)-1]
}

// check holds a state against the keys.
func (m *keySet) check(tb rapid.TB, v layout.View) {
	tb.Helper()
	must(tb, m.Check(&v))
}

// openQuiet opens a filter as createLines leaves one.
func openQuiet(tb rapid.TB, path string, opts *OpenOptions) *Filter {
	tb.Helper()
	o := OpenOptions{CommitInterval: -1}
	if opts != nil {
		o.LogBytes = opts.LogBytes
	}
	f, err := Open(path, &o)
	must(tb, err)
	writerOf(f).Work = nil
	return f
}

// logOf copies the log of a filter, nil where it has none.
func logOf(tb rapid.TB, path string) []uint64 {
	data, err := os.ReadFile(path + ".stash")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	return recovery.Words(data)
}

// A machine is a filter, and what it must hold.
type machine struct {
	path    string
	crashes int
	opts    OpenOptions
	f       *Filter
	table   layout.Table
	pool    []uint64   // hashes, many of them of few classes
	fresh   *rand.Rand // others

	seq     uint64
	base    keySet   // at the last SyncAt, whose number is seq
	history []change // operations since
	now     keySet   // both together
	durable uint64   // operations of history that are durable, at least

	reader *Filter            // one of another process, as it were; or nil
	owed   *multiset.Multiset // what it must see
	log    []uint64           // the log when all of it was durable
}

// newMachine draws an empty filter, and keys: equal ones, some that have the same
// class from the same home, and some, twins, that have it from its other line.
func newMachine(t *rapid.T, path string, p shape) *machine {
	most := uint64(4)
	if p.Kind == layout.Packed || p.Kind == layout.SemiSorted {
		most = 24 // of which some are in two words, or in two blocks
	}
	lines := rapid.Uint64Range(1, most).Draw(t, "lines")
	m := &machine{path: path}
	m.opts.LogBytes = rapid.SampledFrom([]int64{0, wal.MinBytes}).Draw(t, "log")
	m.f = createLines(t, path, p, lines, Options{Seed: 7, LogBytes: m.opts.LogBytes})
	m.table = writerOf(m.f).Table()
	m.base, m.now, m.owed = newKeySet(m.table), newKeySet(m.table), multiset.New(m.table)
	m.fresh = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range 4 {
		it := layout.Item{
			Line: rapid.Uint64Range(0, lines-1).Draw(t, "line"),
			Fp:   rapid.Uint32Range(1, 3).Draw(t, "fingerprint"),
		}
		m.pool = append(m.pool, multiset.HashOf(m.table, it), multiset.HashOf(m.table, it)+1, multiset.HashOf(m.table, m.table.Alternate(it)))
	}
	return m
}

func (m *machine) hash(t *rapid.T) uint64 {
	if i := rapid.IntRange(0, len(m.pool)+2).Draw(t, "key"); i < len(m.pool) {
		return m.pool[i]
	}
	return m.fresh.Uint64()
}

// did notes an operation.
func (m *machine) did(hash uint64, grow int) {
	m.history = append(m.history, change{hash, grow})
	m.now.apply(m.history[len(m.history)-1])
	if grow < 0 && m.owed.Copies(hash) > 0 {
		m.owed.Add(hash, -1)
	}
}

// insert reports whether there was room. Where there is none nothing changes,
// and there is none the second time either (C3).
func (m *machine) insert(t *rapid.T, hash uint64) bool {
	err := m.f.InsertHash(hash)
	if err == nil {
		m.did(hash, 1)
		return true
	}
	m.did(hash, 0)
	before := newestState(writerOf(m.f))
	if again := m.f.InsertHash(hash); !errors.Is(err, ErrFull) || !errors.Is(again, ErrFull) {
		t.Fatalf("insert: %v, and then: %v", err, again)
	}
	m.did(hash, 0)
	m.unchanged(t, before)
	return false
}

func (m *machine) unchanged(t *rapid.T, before layout.View) {
	after := newestState(writerOf(m.f))
	if !slices.Equal(before.Region, after.Region) || !slices.Equal(before.Stash, after.Stash) {
		t.Fatal("an operation that was refused has changed something")
	}
}

// remove deletes an item, unless it is one that was never inserted and that has
// a twin: only the caller could tell that from one that was.
func (m *machine) remove(t *rapid.T, hash uint64) {
	want := m.now.Copies(hash) > 0
	if !want && m.now.Count(hash) > 0 {
		return
	}
	before := newestState(writerOf(m.f))
	ok, err := m.f.DeleteHash(hash)
	if err != nil || ok != want {
		t.Fatalf("delete of %+v: %t, %v", m.table.Split(hash), ok, err)
	}
	if !ok {
		m.did(hash, 0)
		m.unchanged(t, before)
		return
	}
	m.did(hash, -1)
}

// committed notes that everything is durable.
func (m *machine) committed(t *rapid.T, err error) {
	must(t, err)
	ops := m.f.DurableOps()
	for _, c := range m.history[min(ops, uint64(len(m.history))):] {
		if c.grow != 0 {
			t.Fatalf("%d of %d operations are durable", ops, len(m.history))
		}
	}
	m.owed = m.now.Clone()
	m.log = logOf(t, m.path)
}

// resumed notes that the file was opened again, and with what: of the
// operations, those that left no trace may not be counted.
func (m *machine) resumed(t *rapid.T, killed bool) {
	ops := m.f.DurableOps()
	if m.f.DurableSeq() != m.seq || ops < m.durable || ops > uint64(len(m.history)) {
		t.Fatalf("%d + %d are durable, after %d + %d of %d", m.f.DurableSeq(), ops, m.seq, m.durable, len(m.history))
	}
	m.now = m.base.clone()
	for i, c := range m.history {
		if uint64(i) < ops {
			m.now.apply(c)
		} else if killed && c.grow != 0 {
			t.Fatalf("a kill left %d of %d operations", ops, len(m.history))
		}
	}
	m.history, m.durable = m.history[:ops], ops
	m.committed(t, nil)
}

func (m *machine) closeReader() {
	if m.reader != nil {
		m.reader.Close()
		m.reader = nil
	}
}

// crash goes on with a copy of the files.
func (m *machine) crash(t *rapid.T, cut func(from, end uint64) uint64) {
	m.closeReader()
	m.crashes++
	to := fmt.Sprintf("%s.%d", m.path, m.crashes)
	crashCopy(t, m.f, m.path, to, m.log, cut)
	live := writerOf(m.f).Protocol().Live()
	must(t, m.f.Close())
	m.path = to
	m.f = openQuiet(t, to, &m.opts)
	m.resumed(t, cut == nil)
	if r := m.f.Stats().Recovery; r.Recovered != live || r.UserSeq != m.seq || r.Operations != m.f.DurableOps() || r.Length != uint64(len(m.now.hashes)) {
		t.Fatalf("%+v", r)
	}
}

// reopen closes the file, looks at what it left, and opens it again.
func (m *machine) reopen(t *rapid.T) {
	must(t, m.f.Close())
	if _, err := os.Stat(m.path + ".stash"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a clean close left a log: %v", err)
	}
	if r, err := Verify(context.Background(), m.path); err != nil || r.Items != uint64(len(m.now.hashes)) {
		t.Fatalf("%d items: %+v, %v", len(m.now.hashes), r, err)
	}
	m.f = openQuiet(t, m.path, &m.opts)
	if m.f.DurableOps() != uint64(len(m.history)) {
		t.Fatalf("a clean close left %d of %d operations", m.f.DurableOps(), len(m.history))
	}
	m.resumed(t, true)
}

// check holds after every operation.
func (m *machine) check(t *rapid.T) {
	if m.f.Len() != uint64(len(m.now.hashes)) {
		t.Fatalf("%d keys, not %d", m.f.Len(), len(m.now.hashes))
	}
	m.now.check(t, newestState(writerOf(m.f)))
	for _, h := range m.now.hashes {
		if !m.f.ContainsHash(h) {
			t.Fatalf("%+v is lost", m.table.Split(h))
		}
		if m.reader != nil && m.owed.Copies(h) > 0 && !m.reader.ContainsHash(h) {
			t.Fatalf("%+v is lost to a reader", m.table.Split(h))
		}
	}
	ops := m.f.DurableOps()
	if m.f.DurableSeq() != m.seq || ops < m.durable || ops > uint64(len(m.history)) {
		t.Fatalf("%d + %d are durable, after %d + %d", m.f.DurableSeq(), ops, m.seq, m.durable)
	}
	m.durable = ops
}

func (m *machine) actions() map[string]func(*rapid.T) {
	ctx := context.Background()
	return map[string]func(*rapid.T){
		"":       m.check,
		"insert": func(t *rapid.T) { m.insert(t, m.hash(t)) },
		"fill": func(t *rapid.T) {
			for range rapid.SampledFrom([]int{10, 100, 2000}).Draw(t, "keys") {
				if !m.insert(t, m.fresh.Uint64()) {
					return
				}
			}
		},
		"insert unique": func(t *rapid.T) {
			key := binary.LittleEndian.AppendUint64(nil, rapid.Uint64Range(0, 5).Draw(t, "key"))
			hash := m.f.Hash(key)
			maybe := m.f.ContainsHash(hash)
			added, err := m.f.InsertUnique(key)
			switch {
			case errors.Is(err, ErrFull) && !added && !maybe, err == nil && !added && maybe:
				m.did(hash, 0)
			case err == nil && added && !maybe:
				m.did(hash, 1)
			default:
				t.Fatalf("a lookup says %t, and InsertUnique %t, %v", maybe, added, err)
			}
		},
		"insert batch": func(t *rapid.T) {
			var keys [][]byte
			for range rapid.IntRange(0, 200).Draw(t, "keys") {
				keys = append(keys, binary.LittleEndian.AppendUint64(nil, m.fresh.Uint64N(500)))
			}
			n, err := m.f.InsertBatch(keys)
			for _, key := range keys[:n] {
				m.did(m.f.Hash(key), 1)
			}
			if n < len(keys) {
				m.did(m.f.Hash(keys[n]), 0)
			}
			if (n < len(keys)) != errors.Is(err, ErrFull) {
				t.Fatalf("%d of %d: %v", n, len(keys), err)
			}
		},
		"delete": func(t *rapid.T) { m.remove(t, m.hash(t)) },
		"empty": func(t *rapid.T) {
			for range rapid.IntRange(0, len(m.now.hashes)).Draw(t, "keys") {
				m.remove(t, m.now.hashes[m.fresh.IntN(len(m.now.hashes))])
			}
		},
		"count": func(t *rapid.T) {
			key := binary.LittleEndian.AppendUint64(nil, m.fresh.Uint64N(500))
			if n := m.f.Count(key); n != uint64(m.now.Count(m.f.Hash(key))) {
				t.Fatalf("count %d", n)
			}
		},
		"sync": func(t *rapid.T) { m.committed(t, m.f.Sync()) },
		"sync at": func(t *rapid.T) {
			seq := rapid.Uint64().Draw(t, "sequence")
			err := m.f.SyncAt(seq)
			m.seq, m.history, m.durable, m.base = seq, nil, 0, m.now.clone()
			m.committed(t, err)
		},
		"checkpoint": func(t *rapid.T) { m.committed(t, m.f.Checkpoint(ctx)) },
		"seal": func(t *rapid.T) {
			m.committed(t, m.f.Seal(ctx))
			if r, err := Verify(ctx, m.path); err != nil || !r.Sealed || r.Items != uint64(len(m.now.hashes)) {
				t.Fatalf("%+v, %v", r, err)
			}
		},
		"reopen": m.reopen,
		"kill":   func(t *rapid.T) { m.crash(t, nil) },
		"power loss": func(t *rapid.T) {
			m.crash(t, func(from, end uint64) uint64 { return rapid.Uint64Range(from, end).Draw(t, "cut") })
		},
		"reader": func(t *rapid.T) {
			m.closeReader()
			var err error
			if m.reader, err = OpenReadOnly(m.path, nil); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// TestModel does anything, in any order, to filters so small that full tables,
// the stash and moves are usual, and holds them against a multiset.
func TestModel(t *testing.T) {
	t.Parallel()    // one processor is all that it uses
	all := shapes() // one of each layout, and another one in each run
	for _, p := range append(oneEach(), all[rand.IntN(len(all))]) {
		t.Run(p.String(), func(t *testing.T) {
			dir, n := memoryDir(t), 0
			rapid.Check(t, func(t *rapid.T) {
				n++
				path := filepath.Join(dir, fmt.Sprint(n))
				m := newMachine(t, path, p)
				defer func() {
					m.closeReader()
					m.f.Close()
					files, _ := filepath.Glob(path + "*")
					for _, name := range files {
						os.Remove(name)
					}
				}()
				t.Repeat(m.actions())
			})
		})
	}
}
