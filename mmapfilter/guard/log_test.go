package guard

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// A numbered filter is durable with the number of an epoch.
type numberedFilter struct {
	guarded.Filter
	seq uint64
}

func (f *numberedFilter) DurableSeq() uint64 { return f.seq }

func (f *numberedFilter) SyncAtFunc(seq func(uint64) uint64) error {
	f.seq = seq(0)
	return nil
}

// TestReplayed checks up to which epoch a filter has all keys of a store, once it has those of the log
// (G2).
func TestReplayed(t *testing.T) {
	for _, c := range []struct {
		name          string
		from, reached uint64 // the epoch of the filter
		first         uint64 // file that is read
		epochs        []epoch
	}{
		{"nothing", 5, 5, 0, nil},
		{"the next", 5, 6, 0, []epoch{{number: 6, previous: 5}}},
		{"a chain", 5, 9, 0, []epoch{{number: 7, previous: 4}, {number: 9, previous: 7}}},
		{"one is missing", 5, 5, 0, []epoch{{number: 9, previous: 7}}},
		{"one is missing in between", 5, 7, 0, []epoch{{number: 7, previous: 5}, {number: 10, previous: 8}}},
		{"one is in a file that is not read", 5, 5, 2, []epoch{{number: 6, previous: 5, file: 1}, {number: 7, previous: 6, file: 2}}},
		{"the filter is ahead", 9, 9, 0, []epoch{{number: 6, previous: 5}, {number: 7, previous: 6}}},
		{"keys are not in the log", 5, 6, 0, []epoch{{number: 6, previous: 5}, {number: 7, previous: 6, least: 6}}},
		{"the filter has what is not in the log", 6, 7, 0, []epoch{{number: 7, previous: 6, least: 6}}},
		{"damaged", 5, 5, 0, []epoch{decodeEpoch([]byte("x"))}},
	} {
		f := &numberedFilter{seq: pack(7, c.from)}
		l := &log{filter: f, reached: c.from, epochs: c.epochs}
		if l.replayed(c.first); l.reached != c.reached || f.seq != pack(7, c.from) {
			t.Errorf("%s: the filter is taken to have all up to epoch %d instead of %d, and says %d", c.name, l.reached, c.reached, f.seq)
		}
	}
}

// TestIncoming checks that a hash is found from when it is put until after it has been taken in (G1).
func TestIncoming(t *testing.T) {
	var in incoming
	var filter sync.Map
	const workers, each = 4, 20_000
	var group, drains sync.WaitGroup
	ended := make(chan struct{})
	drain := func() {
		if err := in.drain(func(hashes []uint64) error {
			for _, h := range hashes {
				filter.Store(h, true)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	found := func(h uint64) bool {
		if in.has(h) {
			return true
		}
		_, ok := filter.Load(h)
		return ok
	}
	drains.Add(1)
	go func() {
		defer drains.Done()
		for {
			select {
			case <-ended:
				return
			default:
				drain()
			}
		}
	}()
	for w := range uint64(workers) {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range uint64(each) {
				h := (i*workers + w) * 0x9e3779b97f4a7c15
				h &^= 0xff << (i % 8) // long runs of slots, and some hashes twice
				rest, _ := in.put([]uint64{h, h})
				for _, h := range rest {
					filter.Store(h, true)
				}
				if !found(h) {
					t.Errorf("hash %x is not found", h)
				}
			}
		}()
	}
	group.Wait()
	close(ended)
	drains.Wait()
	drain()
	drain()
	if n := in.waiting.Load(); n != 0 {
		t.Errorf("%d hashes are left", n)
	}
	for i := range in.tables {
		for j := range in.tables[i] {
			if h := in.tables[i][j].Load(); h != 0 {
				t.Fatalf("hash %x is left in table %d", h, i)
			}
		}
	}
}

// TestIncomingIsBounded checks that there is room for so many hashes only.
func TestIncomingIsBounded(t *testing.T) {
	var in incoming
	hashes := make([]uint64, mostIncoming+10)
	for i := range hashes {
		hashes[i] = uint64(i) + 1
	}
	rest, many := in.put(hashes)
	if len(rest) != 10 || !many || in.waiting.Load() != mostIncoming {
		t.Errorf("%d hashes have no room, %d wait; many %t", len(rest), in.waiting.Load(), many)
	}
	if rest, _ := in.put([]uint64{0}); len(rest) != 1 {
		t.Error("hash 0 is taken in: no table can have it")
	}
}

// loggedRows has a log, which nobody reads.
type loggedRows struct{ *rows }

func (r loggedRows) Log(func(LoggedTx) error) error { return nil }

func (r loggedRows) Open(replay func(first uint64)) error {
	replay(^uint64(0))
	return nil
}

func (r loggedRows) Append(e Entry) error { return r.Write(Changes{Set: []Entry{e}}) }

// A brokenFilter takes nothing in.
type brokenFilter struct{ guarded.Filter }

func (brokenFilter) InsertUniqueHashes([]uint64) (n, added int, err error) { return 0, 0, errStuck }

// TestDrainFails has the filter not take in what is on its way there: Stats say so, whoever has
// noticed, and no key is hidden.
func TestDrainFails(t *testing.T) {
	for name, notice := range map[string]func(g *Guard) error{
		"the background": func(g *Guard) error { g.log.many <- struct{}{}; return nil },
		"Work":           (*Guard).Work,
		"Flushing":       func(g *Guard) error { g.Flushing(); return nil },
		"Unlogged":       (*Guard).Unlogged,
		"Rebuild": func(g *Guard) error {
			if err := g.Rebuild(t.Context()); err != errStuck {
				return fmt.Errorf("it has not failed: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := loggedRows{newRows()}, testOptions(t, Rebuild)
			hooked(o, func(real guarded.Filter) guarded.Filter { return brokenFilter{real} })
			g, err := Open(s, o)
			must(t, err)
			s.put(g, "a")
			must(t, notice(g))
			eventually(t, g, "the error", func(st Stats) bool { return st.State == "off" && strings.Contains(st.Err, errStuck.Error()) })
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}

// TestFlushedWhenFull covers G2: keys wait for a larger filter when the store flushes, or is closed. The
// filter does not get the number of their epoch, so it does not serve once the log is gone.
func TestFlushedWhenFull(t *testing.T) {
	for name, end := range map[string]func(g *Guard) error{
		"killed": func(g *Guard) error { g.Flushing(); g.end(); return g.filter.Close() },
		"closed": (*Guard).Close,
	} {
		s, o := loggedRows{newRows()}, testOptions(t, Rebuild)
		o.Hooks = newGuard(nil, o).hooks()
		o.Hooks.Manual = true
		g, err := Open(s, o)
		must(t, err)
		for i := range 3000 {
			s.put(g, fmt.Sprint(i))
		}
		must(t, end(g))
		if n := g.Stats().Overflow; n < 1000 {
			t.Fatalf("%s: only %d keys wait", name, n)
		}
		g, err = Open(s, o)
		must(t, err)
		if st := g.Stats(); st.State != "building" {
			t.Errorf("%s: %+v", name, st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}
