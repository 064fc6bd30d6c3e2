package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// counts says how many copies of each hash a history means.
type counts map[uint64]int64

// add adds to the count of a hash, and removes a count of 0.
func (c counts) add(hash uint64, times int64) {
	if c[hash] += times; c[hash] == 0 {
		delete(c, hash)
	}
}

// in returns an error unless a filter has exactly these copies.
func (c counts) in(f *Filter) error {
	o := f.open.Load()
	count, m := o.count, multiset.New(o.table)
	if o.work != nil {
		count = o.work.Writer.Count
	}
	for hash, n := range c {
		m.Add(hash, int(n))
	}
	if f.Len() != uint64(m.Len()) {
		return fmt.Errorf("%d items, not %d", f.Len(), m.Len())
	}
	for hash, n := range c {
		if got, want := count(hash), uint64(m.Count(hash)); got != want || n > 0 && !f.ContainsHash(hash) {
			return fmt.Errorf("hash %#x has %d items, not %d", hash, got, want)
		}
	}
	return nil
}

// byClass adds up the counts of each class, and gives each sum the lowest hash of its class.
func (c counts) byClass(of Classes) counts {
	n := of.Lines * of.Fingerprints
	sums := counts{}
	for hash, times := range c {
		class, _ := bits.Mul64(hash, n)
		low, rest := bits.Div64(class, 0, n)
		if rest > 0 {
			low++
		}
		sums.add(low, times)
	}
	return sums
}

// changesOf returns the changes that a filter writes, and checks their header.
func changesOf(t *testing.T, f *Filter, since Position, replica Classes) (changed counts, to Position, err error) {
	t.Helper()
	var b bytes.Buffer
	if to, err = f.ChangesFor(context.Background(), &b, since, replica); err != nil {
		return nil, to, err
	}
	r, err := changes.NewReader(&b)
	must(t, err)
	h := r.Header
	if positionOf(h.Descent, h.From) != since || positionOf(h.Descent, h.To) != to || h.Classes != replica {
		t.Fatalf("the changes from %v to %v have the header %+v", since, to, h)
	}
	changed = counts{}
	for {
		c, err := r.Next()
		if err == io.EOF {
			return changed, to, nil
		}
		must(t, err)
		changed[c.Hash] = c.Times
	}
}

// A changeModel is a filter, and the counts that its history means now and at some earlier positions.
type changeModel struct {
	*testing.T
	rng  *rand.Rand
	path string
	f    *Filter
	now  counts
	past []pastCounts
}

// pastCounts has the counts at a position.
type pastCounts struct {
	at     Position
	counts counts
}

// create makes the filter.
func (m *changeModel) create(o Options) {
	m.Helper()
	m.path, o.CommitInterval = filepath.Join(memoryDir(m.T), "filter.mmf"), -1
	f, err := Create(m.path, &o)
	must(m.T, err)
	m.f = f
	m.Cleanup(func() { m.f.Close() })
}

// operate does n operations. There are few keys and few classes, so InsertUnique leaves some keys out
// because items of other keys answer for them, and deletes remove some of these items.
func (m *changeModel) operate(n int) {
	for range n {
		key := numberKey(uint64(m.rng.IntN(300)))
		hash := m.f.hash.Hash(key)
		switch m.rng.IntN(5) {
		case 0, 1:
			if err := m.f.Insert(key); err == nil {
				m.now.add(hash, 1)
			} else if !errors.Is(err, ErrFull) {
				m.Fatal(err)
			}
		case 2:
			if _, err := m.f.InsertUnique(key); err == nil {
				m.now[hash] = max(m.now[hash], 1)
			} else if !errors.Is(err, ErrFull) {
				m.Fatal(err)
			}
		default:
			found, err := m.f.Delete(key)
			if must(m.T, err); found && m.now[hash] > 0 {
				m.now.add(hash, -1)
			}
		}
	}
}

// note records the position and the counts.
func (m *changeModel) note() {
	must(m.T, m.f.Sync())
	m.past = append(m.past, pastCounts{m.f.Position(), maps.Clone(m.now)})
}

// check compares the changes between two positions with the difference of their counts.
func (m *changeModel) check(f *Filter, from pastCounts, to pastCounts, replica Classes) {
	m.Helper()
	changed, at, err := changesOf(m.T, f, from.at, replica)
	if err != nil || at != to.at {
		m.Fatalf("from %v to %v, not to %v: %v", from.at, at, to.at, err)
	}
	want := maps.Clone(to.counts)
	for hash, n := range from.counts {
		want.add(hash, -n)
	}
	if !replica.IsZero() {
		want = want.byClass(replica)
	}
	if !maps.Equal(changed, want) {
		m.Fatalf("from %v to %v: %d changes, want %d", from.at, to.at, len(changed), len(want))
	}
}

// TestChanges covers K7: the keys that a history means at any position, plus the changes since this
// position, are the keys that it means now. Between operations, the test makes commits, checkpoints and
// rebuilds, and closes the filter.
func TestChanges(t *testing.T) {
	for seed := range uint64(8) {
		m := &changeModel{T: t, rng: rand.New(rand.NewPCG(seed, 1)), now: counts{}}
		m.create(Options{Capacity: 400, FalsePositiveRate: 0.3, KeepChanges: time.Hour})
		m.note()
		for range 60 {
			m.operate(m.rng.IntN(200))
			m.note()
			now := m.past[len(m.past)-1]
			switch m.rng.IntN(8) {
			case 0:
				must(t, m.f.Checkpoint(context.Background()))
			case 1:
				must(t, m.f.Rebuild(context.Background(), nil))
			case 2:
				must(t, m.f.Close())
				m.f = mustOpen(t, m.path, nil)
			}
			m.check(m.f, m.past[m.rng.IntN(len(m.past))], now, Classes{})
			m.check(m.f, m.past[m.rng.IntN(len(m.past))], now, Classes{Lines: 3, Fingerprints: 8})
			m.check(m.f, now, now, Classes{})
		}
		must(t, m.f.Checkpoint(context.Background()))
		reader := mustOpenReadOnly(t, m.path, nil)
		for _, from := range m.past {
			m.check(reader, from, m.past[len(m.past)-1], reader.Classes())
		}
		must(t, m.f.Close())
	}
}

// TestRecentEnds: Recent yields the operations from the last checkpoint up to the call, even if there
// are none, and even while later operations are committed.
func TestRecentEnds(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	for _, before := range []int{5, 0} {
		must(t, f.Checkpoint(context.Background()))
		insertNumbers := func(n int) {
			for i := range n {
				must(t, f.Insert(numberKey(uint64(i))))
			}
			must(t, f.Sync())
		}
		insertNumbers(before)
		must(t, f.open.Load().work.Writer.Recent(func(r *recovery.Recent) error {
			insertNumbers(3)
			n := 0
			for range r.All() {
				n++
			}
			if n != before {
				t.Errorf("%d operations, not %d", n, before)
			}
			return nil
		}))
	}
}
