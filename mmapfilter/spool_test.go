package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// spilling are options with which Build writes hashes to a temporary file where there are
// more than about 40,000 keys.
func spilling() *Options { return &Options{Workers: 1, MemoryBudget: minMemoryBudget} }

// A spoolLoss is something that happens to what a spool holds.
type spoolLoss struct {
	do  func(t *testing.T, s *spool)
	err error // that Build must give; nil for any
}

// spoolLosses are those that Build must notice.
var spoolLosses = map[string]spoolLoss{
	"a chunk in memory": {do: func(t *testing.T, s *spool) {
		p := inMemory(s)
		p.n -= len(p.chunks[0])
		p.chunks = p.chunks[1:]
	}},
	"one hash": {do: func(t *testing.T, s *spool) {
		p := inMemory(s)
		p.n--
		p.chunks[0] = p.chunks[0][1:]
	}},
	"one hash more": {do: func(t *testing.T, s *spool) {
		p := inMemory(s)
		p.n++
		p.chunks[0] = append(p.chunks[0], p.chunks[0][0]+1)
	}},
	"a chunk in the file": {do: func(t *testing.T, s *spool) {
		p := inFile(s)
		p.n -= p.spans[0].n
		p.spans = p.spans[1:]
	}},
	"a hole in the file": {err: errSpool, do: func(t *testing.T, s *spool) {
		rewriteSpan(t, s, func(chunk []uint64) { clear(chunk) })
	}},
	"another bit in the file": {err: errSpool, do: func(t *testing.T, s *spool) {
		rewriteSpan(t, s, func(chunk []uint64) { chunk[len(chunk)/2] ^= 1 << 20 })
	}},
	"the end of the file": {err: errSpool, do: func(t *testing.T, s *spool) {
		info, err := s.mu.files[0].Stat()
		if err == nil {
			err = s.mu.files[0].Truncate(info.Size() - 8)
		}
		if err != nil {
			t.Fatal(err)
		}
	}},
}

// inMemory gives a partition with a chunk in memory, and inFile one with a chunk in the file.
func inMemory(s *spool) *spoolPart {
	return partWith(s, func(p *spoolPart) int { return len(p.chunks) })
}

func inFile(s *spool) *spoolPart { return partWith(s, func(p *spoolPart) int { return len(p.spans) }) }

func partWith(s *spool, has func(p *spoolPart) int) *spoolPart {
	i := 0
	for has(&s.partition[i]) == 0 {
		i++
	}
	return &s.partition[i]
}

// rewriteSpan changes a chunk in the file.
func rewriteSpan(t *testing.T, s *spool, change func(chunk []uint64)) {
	t.Helper()
	span := inFile(s).spans[0]
	chunk := make([]uint64, span.n)
	err := span.read(chunk)
	if err == nil {
		change(chunk)
		_, err = span.file.WriteAt(recovery.Bytes(chunk), span.off)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBuildMissesWhatItLost: hashes that go missing between the sequence and the lines,
// or that a temporary file does not give back as they were, are an error. What Build holds
// the lines against is how many keys came, and not how many it still had later.
func TestBuildMissesWhatItLost(t *testing.T) {
	for name, loss := range spoolLosses {
		for _, distinct := range []bool{false, true} {
			for _, capacity := range []uint64{0, 60_000} {
				err := buildWithLoss(t, loss, distinct, capacity)
				if err == nil || loss.err != nil && !errors.Is(err, loss.err) {
					t.Errorf("%s, distinct: %t, capacity %d: %v", name, distinct, capacity, err)
				}
			}
		}
	}
	nothing := spoolLoss{do: func(*testing.T, *spool) {}}
	if err := buildWithLoss(t, nothing, false, 0); err != nil {
		t.Error(err)
	}
}

// buildWithLoss takes the steps of buildFile up to the superblocks, with something lost
// when all keys have come.
func buildWithLoss(t *testing.T, loss spoolLoss, distinct bool, capacity uint64) error {
	t.Helper()
	draft, err := newTestDraft(t)
	if err != nil {
		t.Fatal(err)
	}
	o := spilling().withDefaults()
	o.Distinct, o.Capacity = distinct, capacity
	b := &builder{options: o, draft: draft}
	if capacity > 0 {
		if err := b.allocate(capacity); err != nil {
			t.Fatal(err)
		}
	}
	b.homes = newSpool(draft, o.Workers, o.MemoryBudget, spoolParts(capacity))
	defer func() {
		b.homes.close()
		b.overflows.close()
	}()
	const keys = 60_000 // some of them in the file
	if err := b.spool(context.Background(), numbers(0, keys)); err != nil {
		t.Fatal(err)
	}
	loss.do(t, b.homes)
	return b.store(context.Background())
}

// TestKeysThatWereNotRead: where a worker has stopped the sequence, what came is not all
// there is, whatever the worker says itself.
func TestKeysThatWereNotRead(t *testing.T) {
	b := &builder{options: spilling().withDefaults()}
	full, empty := make(chan *keyBatch, 1), make(chan *keyBatch, 2)
	empty <- new(keyBatch)
	empty <- new(keyBatch)
	var stop atomic.Bool
	stop.Store(true)
	if err := b.sendBatches(numbers(0, 10), full, empty, &stop); err != errStopped {
		t.Errorf("stopped: %v", err)
	}
	stop.Store(false)
	if err := b.sendBatches(numbers(0, 10), full, empty, &stop); err != nil || b.came != 10 {
		t.Errorf("not stopped: %d keys, %v", b.came, err)
	}
}

// TestSpoolWithoutAFile: a temporary file that cannot be made is an error at once, as when
// the directory has another name by now.
func TestSpoolWithoutAFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	draft, err := recovery.NewDraft(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Discard()
	s := newSpool(draft, 1, minMemoryBudget, 1)
	defer s.close()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Skip("NOT TESTED: this system will not do what the test needs: ", err)
	}
	w := s.writer()
	for h := range uint64(minMemoryBudget / 8) {
		if err = w.add(h << 8); err != nil {
			break
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestSpoolUsesWhatRoomThereIs: a chunk that there is no room for takes none, so that smaller
// ones still go to memory.
func TestSpoolUsesWhatRoomThereIs(t *testing.T) {
	draft, err := newTestDraft(t)
	if err != nil {
		t.Fatal(err)
	}
	s := newSpool(draft, 1, minMemoryBudget, 4)
	defer s.close()
	s.room.Store(8 * 100)
	w := s.writer()
	for p, n := range []int{101, 60, 41, 40} {
		w.open[p] = make([]uint64, n)
		if err := w.put(uint64(p)); err != nil {
			t.Fatal(err)
		}
		part := &s.partition[p]
		if inMemory := p == 1 || p == 3; part.n != n || len(part.chunks) != map[bool]int{true: 1}[inMemory] || len(part.spans) != 1-len(part.chunks) {
			t.Errorf("%d hashes: %d in %d chunks and %d spans", n, part.n, len(part.chunks), len(part.spans))
		}
	}
	if room := s.room.Load(); room != 0 {
		t.Errorf("there is room for %d bytes", room)
	}
}
