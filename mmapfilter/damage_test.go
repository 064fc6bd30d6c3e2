package mmapfilter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A snapshot is an image of a filter that has a writer: the files that the writer would leave if it died
// at this instant.
type snapshot struct {
	fileImage
	keys   map[uint64]int // synced keys, with their numbers of copies
	synced int            // index of the first snapshot that has all keys
	want   recovered
}

// recovered is the result of recovering a file.
type recovered struct {
	words                       []uint64 // from the stash to the end of the region
	length, userSeq, operations uint64
}

func (a recovered) equal(b recovered) bool {
	return a.length == b.length && a.userSeq == b.userSeq && a.operations == b.operations && slices.Equal(a.words, b.words)
}

// recoverImage recovers the contents of a volume.
func recoverImage(v *tabletest.Volume) (recovered, error) {
	w, r, err := recovery.NewWriter(v)
	if err != nil {
		return recovered{}, err
	}
	return recovered{w.Words()[layout.WordStash : layout.WordRegion+w.Geometry().RegionBytes/8], w.Length(), r.UserSeq, r.Operations}, nil
}

// A history is the snapshots of one filter, in the order taken.
type history struct {
	table     layout.Table
	snapshots []snapshot
}

// newHistory goes on until the log has begun anew a few times. Its filter has some 20 lines, and more
// keys than slots. full, few and empty are indices of snapshots: with a nearly full log, with a few
// batches in the log, and with none.
func newHistory(t *testing.T, seed uint64) (h *history, full, few, empty int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "filter.mmf")
	f, err := Create(path, &Options{Capacity: 760, Seed: seed})
	must(t, err)
	slots := int(f.Stats().Slots)
	must(t, f.Close())
	v := fileImage{filter: recovery.Words(readFile(t, path))}.volume()
	w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
	must(t, err)
	h = &history{table: w.Table()}
	rng := rand.New(rand.NewPCG(seed, 5))
	keys := make(map[uint64]int) // also those not yet synced
	var list []uint64
	seq, last := uint64(0), 0
	take := func(synced bool) {
		s := snapshot{fileImage: imageOf(v), synced: last}
		if synced {
			last = len(h.snapshots)
			s.synced = last
		}
		s.keys = make(map[uint64]int)
		for key, n := range keys {
			s.keys[key] = n
		}
		if !synced {
			s.keys = h.snapshots[last].keys
		}
		if s.want, err = recoverImage(s.volume()); err != nil {
			t.Fatalf("snapshot %d: %v", len(h.snapshots), err)
		}
		h.snapshots = append(h.snapshots, s)
	}
	take(true)
	full, few, empty = -1, -1, -1
	for _, checkpoints := w.Protocol().Counts(); checkpoints < 5 || full < 0 || few < 0 || empty < 0; _, checkpoints = w.Protocol().Counts() {
		// If a batch nearly fills its pages, few bytes have no meaning.
		const words = wal.PageWords
		for room := int64(rng.IntN(3)+1)*words*8 - 20*wal.RecordBytes; w.Protocol().SegmentBytes() < room && w.Idle(); {
			if len(list) > 0 && rng.IntN(100) < 10 || len(list) > slots+100 {
				i := rng.IntN(len(list))
				if ok, err := w.Delete(list[i]); !ok || err != nil {
					t.Fatal(ok, err)
				}
				keys[list[i]]--
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
				continue
			}
			key := rng.Uint64()
			if len(list) > 0 && rng.IntN(10) == 0 {
				key = list[rng.IntN(min(len(list), 3))]
			}
			must(t, w.Insert(key))
			keys[key]++
			list = append(list, key)
		}
		take(false)
		if !w.Idle() {
			fillLog(w)
		}
		seq++
		sync := w.Sync
		if seq%2 == 0 {
			sync = func() error { return w.SyncAt(func(uint64) uint64 { return seq }) }
		}
		must(t, sync())
		take(true)
		switch _, used := w.Protocol().LogBytes(); {
		case used > wal.MinBytes-wal.PageBytes && w.Protocol().Checkpointing(): // both halves count
			full = len(h.snapshots) - 1
		case used > (wal.HeaderSlots+2)*wal.PageBytes && used < (wal.HeaderSlots+5)*wal.PageBytes:
			few = len(h.snapshots) - 1
		}
		if rng.IntN(12) == 0 {
			must(t, w.Checkpoint())
			take(true)
			empty = len(h.snapshots) - 1
		}
	}
	must(t, w.Clean())
	take(true)
	return h, full, few, empty
}

// holds reports whether lookups in the words of a recovered file answer "maybe" for every synced key of
// a snapshot.
func (h *history) holds(words []uint64, s *snapshot) bool {
	at := func(word uint64) uint64 {
		if word < layout.WordStash {
			return 0
		}
		return words[word-layout.WordStash]
	}
	for key, n := range s.keys {
		if n > 0 && !layout.Lookup(h.table, at, key) {
			return false
		}
	}
	return true
}

// An outcome is the result of opening a damaged file.
type outcome int

const (
	identical outcome = iota
	refused           // with an error that says the file is damaged
	outcomes
)

// A tally counts the outcomes of several goroutines.
type tally [outcomes]atomic.Int64

func (c *tally) String() string {
	return fmt.Sprintf("%d identical, %d refused", c[identical].Load(), c[refused].Load())
}

// judge opens a damaged file and returns the outcome, or an error if the outcome is wrong. The recovered
// state must be that of one of the snapshots from first to last.
func (h *history) judge(v *tabletest.Volume, first, last int) (o outcome, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	stored := false
	v.File.Stored = func() { stored = true }
	for _, log := range v.Mu.Logs {
		if log != nil {
			log.Stored = v.File.Stored
		}
	}
	got, err := recoverImage(v)
	switch {
	case err != nil && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion)):
		if stored {
			return o, fmt.Errorf("the file was refused (%w), but stored to", err)
		}
		return refused, nil
	case err != nil:
		return o, fmt.Errorf("an untyped error: %w", err)
	}
	for _, s := range h.snapshots[first : last+1] {
		if got.equal(s.want) {
			return identical, nil
		}
	}
	s := &h.snapshots[last]
	return o, fmt.Errorf("a wrong state: %d items, not %d; at %d.%d, not %d.%d; has the synced keys: %t",
		got.length, s.want.length, got.userSeq, got.operations, s.want.userSeq, s.want.operations, h.holds(got.words, s))
}

// eachDamage judges a snapshot after each of n changes made one at a time, on all processors.
func (h *history) eachDamage(t *testing.T, name string, k, n int, change func(i int, v *tabletest.Volume, rng *rand.Rand)) *tally {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	s := &h.snapshots[k]
	counts := new(tally)
	var group sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			v := s.volume()
			source := rand.NewPCG(0, 0)
			rng := rand.New(source)
			for {
				i := int(next.Add(1) - 1)
				if i >= n || t.Failed() {
					return
				}
				source.Seed(uint64(i), 77)
				change(i, v, rng)
				o, err := h.judge(v, s.synced, k)
				if err != nil {
					t.Errorf("%s, change %d of snapshot %d: %v", name, i, k, err)
				}
				counts[o].Add(1)
				s.restore(v)
			}
		}()
	}
	group.Wait()
	t.Logf("%s: %d changes: %v", name, n, counts)
	source := rand.NewPCG(0, 0)
	for i := 0; i < n; i += n/25 + 1 { // some changes also in files
		v := s.volume()
		source.Seed(uint64(i), 77)
		change(i, v, rand.New(source))
		damaged := imageOf(v)
		if want, err := h.judge(v, s.synced, k); err == nil {
			s.judgeFiles(t, fmt.Sprintf("%s, change %d of snapshot %d", name, i, k), damaged, want)
		}
	}
	return counts
}

// judgeFiles writes a damaged image to files and opens them. The outcome must be the one in the heap.
func (s *snapshot) judgeFiles(t *testing.T, name string, damaged fileImage, want outcome) {
	t.Helper()
	path := filepath.Join(memoryDir(t), "f")
	damaged.write(t, path)
	before := contents(t, filepath.Dir(path))
	f, err := Open(path, &OpenOptions{CommitInterval: -1})
	switch {
	case err == nil && want == identical:
		if f.Len() != s.want.length || f.DurableSeq() != s.want.userSeq || f.DurableOps() != s.want.operations {
			t.Errorf("%s: %+v", name, f.Stats().Recovery)
		}
		for key, n := range s.keys {
			if n > 0 && !f.ContainsHash(key) {
				t.Fatalf("%s: a key is missing", name)
			}
		}
		must(t, f.Close())
	case want == refused && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion)):
		if !maps.Equal(contents(t, filepath.Dir(path)), before) {
			t.Errorf("%s: the files were refused, but changed: %v", name, err)
		}
	default:
		t.Errorf("%s: %v; in the heap the outcome is %d", name, err, want)
	}
}

// stride returns 1, or in a short run a larger step, which leaves about 500 of n changes. The step is
// odd, so that every bit of a byte gets its turn.
func stride(n int) int {
	if testing.Short() {
		return n/500 | 1
	}
	return 1
}

// TestEveryBitOfTheLog covers C5: it flips bits of the headers of a log, of the batches of a nearly full
// log, and of the four superblocks beside it, one at a time. Each run flips a part of all bits, and
// another part than other runs.
func TestEveryBitOfTheLog(t *testing.T) {
	h, full, few, empty := newHistory(t, 1)
	const logBits = wal.MinBytes * 8
	const headBits = layout.OffRuntime * 8
	from := seeded(t, rand.Uint64()).IntN(61)
	flipLog := func(v *tabletest.Volume, bit int) { v.Mu.Logs[0].Mem[bit/64] ^= 1 << (bit % 64) }
	// Most bits of the headers mean nothing, so recovery succeeds; it is fast if there are few batches.
	const headerBits = wal.FirstWord * 64
	by := 7 * stride(headerBits)
	h.eachDamage(t, "a bit of the headers of a log", few, headerBits/by, func(i int, v *tabletest.Volume, _ *rand.Rand) {
		flipLog(v, from%by+i*by)
	})
	by = 61 * stride(logBits-headerBits) // in some operation of each half, every bit of each field
	counts := h.eachDamage(t, "a bit of the batches of a log", full, (logBits-headerBits)/by, func(i int, v *tabletest.Volume, _ *rand.Rand) {
		flipLog(v, headerBits+from%by+i*by)
	})
	if r, n := counts[refused].Load(), int64((logBits-headerBits)/by); r < n*3/4 {
		t.Errorf("the log is not full: %v", counts)
	}
	by = 7 * stride(headBits)
	flipHead := func(i int, v *tabletest.Volume, _ *rand.Rand) {
		bit := from%by + i*by
		v.File.Mem[bit/64] ^= 1 << (bit % 64)
	}
	h.eachDamage(t, "a bit of a superblock, few records", few, headBits/by, flipHead)
	by = stride(headBits) * 64 // fewer bits with the other logs
	if testing.Short() {
		by = stride(headBits)
	}
	by |= 1
	for name, k := range map[string]int{"full log": full, "empty log": empty, "closed": len(h.snapshots) - 1} {
		h.eachDamage(t, "a bit of a superblock, "+name, k, headBits/by, flipHead)
	}
	by = stride(logBits)*128 + 1
	for name, k := range map[string]int{"full": full, "few batches": few} {
		h.eachDamage(t, "a bit of a log, "+name, k, logBits/by, func(i int, v *tabletest.Volume, _ *rand.Rand) { flipLog(v, i*by) })
	}
}

// TestNewestSuperblockIsLost damages the newest superblock and the header of its log, and in half of the
// cases the first batch, too. The rest of the log must show that the log has a later generation than the
// previous superblock.
func TestNewestSuperblockIsLost(t *testing.T) {
	h, full, few, _ := newHistory(t, 2)
	for _, k := range []int{full, few} {
		h.eachDamage(t, "the newest superblock and its log header", k, small(2000, 125), func(i int, v *tabletest.Volume, rng *rand.Rand) {
			slot, sb, _, err := layout.Newest(recovery.Bytes(v.File.Mem[:layout.OffRuntime/8]))
			if err != nil {
				panic(err)
			}
			v.File.Mem[slot*layout.SuperblockBytes/8+rng.IntN(layout.SuperblockBytes/8)] ^= 1 << rng.IntN(64)
			at := int(sb.Generation()%wal.HeaderSlots) * wal.PageWords
			v.Mu.Logs[0].Mem[at+rng.IntN(7)] ^= 1 << rng.IntN(64)
			if i%2 == 0 {
				v.Mu.Logs[0].Mem[wal.FirstWord+rng.IntN(5)] ^= 1 << rng.IntN(64)
			}
		})
	}
}

// TestOtherLogs puts the filter file of any snapshot beside the log of any other. Either the pair is
// refused, or nothing that was durable in the later snapshot is lost.
func TestOtherLogs(t *testing.T) {
	h, full, _, _ := newHistory(t, 3)
	other, otherFull, _, _ := newHistory(t, 4)
	by := 1
	if testing.Short() {
		by = 7
	}
	var counts tally
	for i := 0; i < len(h.snapshots); i += by {
		for j := range h.snapshots {
			for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
				im := fileImage{filter: h.snapshots[i].filter}
				im.logs[name] = h.snapshots[j].logs[recovery.CurrentLog]
				newest := max(i, j)
				if im.logs[name] == nil { // without a log, only the file counts
					newest = i
				}
				o, err := h.judge(im.volume(), h.snapshots[newest].synced, newest)
				if err != nil {
					t.Fatalf("filter of snapshot %d, log %v of snapshot %d of %d: %v", i, name, j, len(h.snapshots), err)
				}
				if i == j && o != identical && im.logs[name] != nil {
					t.Errorf("snapshot %d and its log, called %v: refused", i, name)
				}
				counts[o].Add(1)
			}
		}
	}
	t.Logf("%d snapshots: %v", len(h.snapshots), &counts)

	// older is a snapshot with a log, of an earlier generation than full.
	s, older := h.snapshots[full], full
	for h.snapshots[older].synced == older && generation(h.snapshots[older]) == generation(s) || h.snapshots[older].synced != older {
		older--
	}
	log := s.logs[recovery.CurrentLog]
	resigned := func(change func(*layout.Superblock)) []uint64 {
		words := slices.Clone(s.filter)
		for slot := range layout.SuperblockSlots {
			raw := recovery.Bytes(words)[slot*layout.SuperblockBytes:][:layout.SuperblockBytes]
			sb := (*layout.Superblock)(raw)
			change(sb)
			sb.Sign()
		}
		return words
	}
	rehead := func(change func(*wal.Header)) []uint64 {
		words := slices.Clone(log)
		_, sb, _, err := layout.Newest(recovery.Bytes(s.filter[:layout.OffRuntime/8]))
		must(t, err)
		header, ok := wal.FindHeader(words, sb.UUID(), sb.LogSalt())
		if !ok {
			t.Fatal("no header")
		}
		change(&header)
		wal.PutHeader(func(i, v uint64) { words[i] = v }, header)
		return words
	}
	foreign := other.snapshots[otherFull].logs[recovery.CurrentLog]
	swap := func(u [16]byte) [16]byte { u[3] ^= 0x10; return u }
	for _, c := range []struct {
		name string
		im   fileImage
		want outcome
	}{
		{"no log", fileImage{filter: s.filter}, refused},
		{"the log of another filter", fileImage{s.filter, [2][]uint64{foreign}}, refused},
		{"the log of another filter as the next one", fileImage{s.filter, [2][]uint64{log, foreign}}, identical},
		{"the log twice", fileImage{s.filter, [2][]uint64{log, log}}, identical},
		{"the log as the next one, another's as the current one", fileImage{s.filter, [2][]uint64{foreign, log}}, identical},
		{"an older log as the next one", fileImage{s.filter, [2][]uint64{log, h.snapshots[older].logs[0]}}, identical},
		{"a newer log as the next one", fileImage{h.snapshots[older].filter, [2][]uint64{h.snapshots[older].logs[0], log}}, refused},
		{"an empty log", fileImage{s.filter, [2][]uint64{make([]uint64, len(log))}}, refused},
		{"another UUID in the filter", fileImage{resigned(func(sb *layout.Superblock) { sb.SetUUID(swap(sb.UUID())) }), [2][]uint64{log}}, refused},
		{"another UUID in the log", fileImage{s.filter, [2][]uint64{rehead(func(h *wal.Header) { h.UUID = swap(h.UUID) })}}, refused},
		{"another salt in the log", fileImage{s.filter, [2][]uint64{rehead(func(h *wal.Header) { h.Salt++ })}}, refused},
		{"another size in the log", fileImage{s.filter, [2][]uint64{rehead(func(h *wal.Header) { h.Bytes *= 2 })}}, refused},
		{"a smaller log", fileImage{s.filter, [2][]uint64{log[:len(log)-wal.PageWords]}}, refused},
		{"a larger log", fileImage{s.filter, [2][]uint64{append(slices.Clone(log), make([]uint64, wal.PageWords)...)}}, refused},
		{"another salt in the filter", fileImage{resigned(func(sb *layout.Superblock) { sb.SetLogSalt(sb.LogSalt() + 1) }), [2][]uint64{log}}, refused},
		{"an unknown feature", fileImage{resigned(func(sb *layout.Superblock) { sb[40] = 1 }), [2][]uint64{log}}, refused},
	} {
		if o, err := h.judge(c.im.volume(), s.synced, full); err != nil || o != c.want {
			t.Errorf("%s: outcome %d, %v", c.name, o, err)
		}
	}
}

// fillLog fills the rest of a log with operations that change nothing.
func fillLog(w *writer.Writer) {
	if err := w.Sync(); err != nil {
		panic(err)
	}
	for n := uint64(0); w.Protocol().Room(1); n++ {
		word := layout.WordRegion + n%layout.BlockWords
		w.Protocol().Append([]wal.Store{{Word: word, Value: w.Protocol().Words()[word]}}, 0, layout.Insert, 0)
	}
}

// generation returns the generation of the newest superblock of a snapshot.
func generation(s snapshot) uint64 {
	_, sb, _, err := layout.Newest(recovery.Bytes(s.filter[:layout.OffRuntime/8]))
	if err != nil {
		panic(err)
	}
	return sb.Generation()
}

// TestInsertsBesideADamagedLine: a search for room gives up on a line whose counts are wrong. Answers
// for such a line mean nothing, but nothing panics.
func TestInsertsBesideADamagedLine(t *testing.T) {
	for trial := range uint64(40) {
		path := filepath.Join(memoryDir(t), fmt.Sprint(trial))
		f := createLines(t, path, compact7, 20, Options{LogBytes: 1 << 20, Seed: 5})
		rng := rand.New(rand.NewPCG(trial, 1))
		for range 940 {
			must(t, f.InsertHash(rng.Uint64()))
		}
		must(t, f.Close())
		data := readFile(t, path)
		data[layout.OffRegion+layout.LineBytes*rng.IntN(20)+rng.IntN(8)] ^= 1 << rng.IntN(8)
		must(t, os.WriteFile(path, data, 0o644))
		f = mustOpen(t, path, &OpenOptions{CommitInterval: -1, LogBytes: 1 << 20})
		for range 400 {
			if err := f.InsertHash(rng.Uint64()); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		must(t, f.Close())
	}
}
