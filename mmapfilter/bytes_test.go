package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A reading is an io.ReaderAt that records its reads, and fails when a test wants it to.
type reading struct {
	mu    sync.Mutex
	data  []byte
	reads [][2]int64                        // offset and size of each
	fails func(n int) (good int, err error) // bytes and error of read n, from 0; if nil, no read fails
}

func (r *reading) ReadAt(p []byte, off int64) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := len(r.reads)
	r.reads = append(r.reads, [2]int64{off, int64(len(p))})
	n, err = bytes.NewReader(r.data).ReadAt(p, off)
	if r.fails != nil {
		if good, failed := r.fails(number); failed != nil || good < n {
			if good = min(good, n); good == n {
				clear(p[:n]) // the error says not to use these bytes
			}
			clear(p[good:n])
			return good, failed
		}
	}
	return n, err
}

// take returns the reads since the last call.
func (r *reading) take() (reads [][2]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads, r.reads = r.reads, nil
	return reads
}

// mustRead opens a filter from a reader of data.
func mustRead(tb testing.TB, data []byte, opts *OpenOptions) (*Filter, *reading) {
	tb.Helper()
	r := &reading{data: data}
	f, err := OpenReaderAt(r, int64(len(data)), opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f, r
}

// sameAnswers checks that two filters of the same file give the same answers, in all forms of a lookup.
func sameAnswers(tb testing.TB, name string, f, want *Filter, keys [][]byte) {
	tb.Helper()
	found, wanted := make([]bool, len(keys)), make([]bool, len(keys))
	want.ContainsBatch(keys, wanted)
	f.ContainsBatch(keys, found)
	all := make([]uint64, len(keys))
	for i, key := range keys {
		all[i] = f.Hash(key)
		if a, b, c := f.Contains(key), f.ContainsString(string(key)), f.ContainsHash(want.Hash(key)); a != wanted[i] || b != a || c != a || found[i] != a {
			tb.Fatalf("%s: key %q: %t %t %t, in a batch %t, not %t", name, key, a, b, c, found[i], wanted[i])
		}
		if n, m := f.Count(key), want.Count(key); n != m {
			tb.Fatalf("%s: key %q: %d items, not %d", name, key, n, m)
		}
	}
	f.ContainsHashes(all, found)
	if !slices.Equal(found, wanted) {
		tb.Fatalf("%s: a batch of hashes has other answers", name)
	}
	if f.Len() != want.Len() || f.Cap() != want.Cap() || f.Normalisation() != want.Normalisation() || f.Err() != nil {
		tb.Fatalf("%s: %d of %d, %q, %v", name, f.Len(), f.Cap(), f.Normalisation(), f.Err())
	}
}

// TestOpenedElsewhere: every golden file, and a new file of each layout, gives the same answers from
// bytes, aligned or not, and from a reader as it gives when it is mapped (R7).
func TestOpenedElsewhere(t *testing.T) {
	paths, err := filepath.Glob("../testdata/*.mmf")
	must(t, err)
	for _, s := range oneEach() {
		if !osfile.Maps {
			break // this system cannot map files, so Build does not work
		}
		o := s.options(Options{Capacity: 3000})
		_, path := mustBuild(t, &o, numbers(0, 3000))
		paths = append(paths, path)
	}
	if len(paths) < 13 {
		t.Fatal(paths)
	}
	var keys [][]byte
	for i := range 400 {
		keys = append(keys, fmt.Appendf(nil, "key %d", i))
	}
	for key := range numbers(2500, 3500) {
		keys = append(keys, bytes.Clone(key))
	}
	for _, path := range paths {
		want := mustOpenReadOnly(t, path, nil)
		data := readFile(t, path)
		inside := append([]byte{0}, data...)[1:]
		for name, b := range map[string][]byte{"aligned": data, "not aligned": inside} {
			f, err := OpenBytes(b, nil)
			must(t, err)
			sameAnswers(t, path+" "+name, f, want, keys)
			if in := (f.open.Load().data != nil); in != (name == "aligned") {
				t.Errorf("%s: lookups use the given bytes without a copy: %t", name, in)
			}
			must(t, f.Close())
			mustSayMaybe(t, f)
		}
		for _, size := range []int64{0, 64, 1 << 20} {
			f, _ := mustRead(t, data, &OpenOptions{ReadSize: size})
			sameAnswers(t, path, f, want, keys)
			must(t, f.Close())
			mustSayMaybe(t, f)
		}
	}
}

// TestStatsElsewhere: Stats of a filter from bytes or from a reader equals Stats of the mapped file.
func TestStatsElsewhere(t *testing.T) {
	built, path := mustBuild(t, &Options{Capacity: 300_000, KeepHashes: true, Normalisation: "n"}, numbers(0, 300_000))
	data := readFile(t, path)
	fromBytes, err := OpenBytes(data, nil)
	must(t, err)
	f, r := mustRead(t, data, nil)
	r.take()
	want := built.Stats()
	for _, f := range []*Filter{fromBytes, f} {
		got := f.Stats()
		if math.Abs(got.EstimatedRate/want.EstimatedRate-1) > 0.2 || math.Abs(got.SecondProbeRate-want.SecondProbeRate) > 0.05 || got.GrowthErr == "" {
			t.Errorf("%+v, not %+v", got, want)
		}
		got.EstimatedRate, got.SecondProbeRate, got.GrowthErr = want.EstimatedRate, want.SecondProbeRate, ""
		got.ResidentBytes, got.Residency = want.ResidentBytes, want.Residency
		if got != want {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
	if n := len(r.take()); n != sampledLines/sampledRun {
		t.Errorf("Stats took %d reads", n)
	}
}

// TestElsewhereIsReadOnly: methods that write return ErrReadOnly.
func TestElsewhereIsReadOnly(t *testing.T) {
	data := image(t, nil, numbers(0, 100))
	fromBytes, err := OpenBytes(data, nil)
	must(t, err)
	fromReader, _ := mustRead(t, data, nil)
	ctx := context.Background()
	for _, f := range []*Filter{fromBytes, fromReader} {
		for name, call := range changing(f) {
			if err := call(); !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := f.Rebuild(ctx, nil); !errors.Is(err, ErrReadOnly) {
			t.Error(err)
		}
	}
	must(t, fromBytes.Warm(ctx))
	if err := fromReader.Warm(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	var e *OptionError
	if _, err := OpenReaderAt(bytes.NewReader(data), int64(len(data)), &OpenOptions{ReadSize: -1}); !errors.As(err, &e) {
		t.Error(err)
	}
}

// TestReadsOfALookup covers R7 and C4: opening takes one read. Then an absent key takes a read of 64
// bytes; at most one key in ten takes a second read.
func TestReadsOfALookup(t *testing.T) {
	const keys, asked = 100_000, 20_000
	for _, rate := range []float64{0.03, 0.01, 0.001} {
		f, r := mustRead(t, image(t, &Options{FalsePositiveRate: rate}, numbers(0, keys)), nil)
		if reads := r.take(); len(reads) != 1 || reads[0] != [2]int64{0, layout.OffRegion} {
			t.Fatalf("opening read %v", reads)
		}
		lines := 0
		for key := range numbers(keys, keys+asked) {
			found := f.Contains(key)
			reads := r.take()
			lines += len(reads)
			for _, read := range reads {
				if read[1] != layout.LineBytes || read[0]%layout.LineBytes != 0 || len(reads) > 3 {
					t.Fatalf("reads %v, found %t", reads, found)
				}
			}
		}
		if perKey := float64(lines) / asked; perKey < 1 || perKey > 1.1 {
			t.Errorf("rate %v: %.3f reads for an absent key", rate, perKey)
		}
	}
}

// TestReadsAreOfOneLine covers R7: in every layout, single lookups read no more than 64 bytes at once,
// however large ReadSize is.
func TestReadsAreOfOneLine(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Compact, layout.Packed, layout.SemiSorted} {
		f, r := mustRead(t, image(t, &Options{Layout: kind}, numbers(0, 5000)), &OpenOptions{ReadSize: 1 << 30})
		r.take()
		for key := range numbers(5000, 5100) {
			f.Contains(key)
			f.Count(key)
		}
		for _, read := range r.take() {
			if read[1] > layout.LineBytes {
				t.Errorf("layout %v: a read of %d bytes", kind, read[1])
			}
		}
	}
}

// TestReadsOfABatch covers R7: a batch reads each of its lines once, in the order of the file. It reads
// neighbouring lines with one read of at most ReadSize.
func TestReadsOfABatch(t *testing.T) {
	data := image(t, nil, numbers(0, 100_000))
	_, _, g, err := layout.Newest(data)
	must(t, err)
	all := hashes(5, 100_000)
	found := make([]bool, len(all))
	for _, size := range []int64{0, 64, 1 << 16, 1 << 30} {
		f, r := mustRead(t, data, &OpenOptions{ReadSize: size})
		for _, n := range []int{1, 100, len(all)} {
			r.take()
			f.ContainsHashes(all[:n], found[:n])
			reads := r.take()
			if last := reads[len(reads)-1]; last[0] >= layout.OffRuntime || last[1] != 64 {
				t.Errorf("the last read is %v, which is not of a superblock", last)
			}
			reads = reads[:len(reads)-1]
			turns, end := 1, int64(0)
			for i, read := range reads {
				if read[1] > max(size, 64) && size != 0 || size == 0 && read[1] > defaultReadSize {
					t.Fatalf("ReadSize %d: a read of %d", size, read[1])
				}
				if i > 0 && read[0] < end {
					turns++
				}
				end = read[0] + read[1]
			}
			parts := (n + inMemory - 1) / inMemory
			if turns > 2*parts { // home lines, then alternate lines
				t.Errorf("ReadSize %d: the lines of %d keys were not read in order", size, n)
			}
			most := 3 * n
			if size >= 0 && size != 64 && n == len(all) {
				most = parts * 2 * int(g.RegionBytes/max(size, defaultReadSize)+2)
			}
			if len(reads) > most {
				t.Errorf("ReadSize %d: %d reads for %d keys, more than %d", size, len(reads), n, most)
			}
		}
	}
}

// TestReaderFails covers R7: if a read fails or is short, the answer is "maybe" and Err says why.
// Lookups whose reads succeed answer as before. No key gets a wrong "certainly not".
func TestReaderFails(t *testing.T) {
	const keys = 2000
	data := image(t, nil, numbers(0, keys))
	failure := errors.New("no such bucket")
	for name, c := range map[string]struct {
		good int
		err  error
		is   error
	}{
		"error":                  {0, failure, failure},
		"error after some bytes": {40, failure, failure},
		"end":                    {0, io.EOF, ErrCorrupt},
		"short":                  {63, nil, ErrCorrupt},
		"short, with an error":   {63, io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		"full, with an error":    {math.MaxInt, failure, failure},
	} {
		rng := seeded(t, rand.Uint64())
		f, r := mustRead(t, data, nil)
		down := false
		r.fails = func(int) (int, error) {
			if down || rng.IntN(3) == 0 {
				return c.good, c.err
			}
			return math.MaxInt, nil
		}
		for key := range numbers(0, keys) {
			if !f.Contains(key) || f.Count(key) == 0 {
				t.Fatalf("%s: a wrong certainly not", name)
			}
		}
		found := make([]bool, keys)
		var all [][]byte
		for key := range numbers(0, keys) {
			all = append(all, bytes.Clone(key))
		}
		for range 20 {
			if f.ContainsBatch(all, found); slices.Contains(found, false) {
				t.Fatalf("%s: a wrong certainly not in a batch", name)
			}
		}
		if err := f.Err(); !errors.Is(err, c.is) {
			t.Errorf("%s: Err is %v", name, err)
		}
		down = true
		mustSayMaybe(t, f)
		r.fails = nil
		if f.ContainsString("absent") || f.ContainsString("not there") || !errors.Is(f.Err(), c.is) {
			t.Errorf("%s: later lookups fail, too, or the error is forgotten: %v", name, f.Err())
		}
		if err := f.Close(); !errors.Is(err, c.is) {
			t.Errorf("%s: Close returns %v", name, err)
		}
		r = &reading{data: data, fails: func(int) (int, error) { return c.good, c.err }}
		if _, err := OpenReaderAt(r, int64(len(data)), nil); !errors.Is(err, c.is) {
			t.Errorf("%s: opening: %v", name, err)
		}
		if _, err := VerifyReaderAt(context.Background(), r, int64(len(data))); !errors.Is(err, c.is) {
			t.Errorf("%s: verifying: %v", name, err)
		}
	}
}

// TestReaderIsReplaced covers R7: once a reader gives another file, or a writer has changed the file,
// Err is ErrSuperseded and every answer is "maybe". A batch or Err notices this at once, single lookups
// after a while.
func TestReaderIsReplaced(t *testing.T) {
	data := image(t, nil, numbers(0, 5000))
	path := filepath.Join(t.TempDir(), "f.mmf")
	must(t, os.WriteFile(path, data, 0o600))
	w := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
	mustInsert(t, w, 5000, 5001)
	live := readFile(t, path)
	must(t, w.Close())
	for name, other := range map[string][]byte{
		"other keys":        image(t, nil, numbers(5000, 10_000)),
		"zeros":             make([]byte, len(data)),
		"a writer came":     live,
		"a writer has gone": readFile(t, path),
	} {
		for form, ask := range map[string]func(f *Filter){
			"batch": func(f *Filter) { f.ContainsHashes(hashes(1, 1), make([]bool, 1)) },
			"Err":   func(f *Filter) { f.Err() },
			"single": func(f *Filter) {
				for _, h := range hashes(1, 2*checkEvery) {
					f.ContainsHash(h)
				}
			},
		} {
			f, r := mustRead(t, data, nil)
			if f.ContainsString("absent") || f.Err() != nil {
				t.Fatal(f.Err())
			}
			r.data = other
			found := make([]bool, 5000)
			if form == "batch" {
				f.ContainsHashes(hashes(2, 5000), found)
				if slices.Contains(found, false) {
					t.Errorf("%s: a batch has an answer other than maybe", name)
				}
			}
			ask(f)
			mustSayMaybe(t, f)
			if !errors.Is(f.open.Load().err(), ErrSuperseded) || !errors.Is(f.Err(), ErrSuperseded) {
				t.Errorf("%s: after %s, Err is %v", name, form, f.Err())
			}
			r.data = data // the former file does not help any more
			mustSayMaybe(t, f)
		}
	}
	f, r := mustRead(t, data, nil)
	r.fails = func(int) (int, error) { return 0, fmt.Errorf("the tag is another: %w", ErrSuperseded) }
	f.ContainsString("absent")
	r.fails = nil
	mustSayMaybe(t, f)
	if !errors.Is(f.Err(), ErrSuperseded) {
		t.Error(f.Err())
	}
}

// TestReadersAtOnce: many goroutines share a filter that uses an io.ReaderAt.
func TestReadersAtOnce(t *testing.T) {
	f, _ := mustRead(t, image(t, nil, numbers(0, 5000)), nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var all [][]byte
			for key := range numbers(0, 5000) {
				all = append(all, bytes.Clone(key))
			}
			found := make([]bool, len(all))
			f.ContainsBatch(all, found)
			for i, key := range all[:1000] {
				if !found[i] || !f.Contains(key) || f.Count(key) == 0 {
					t.Error("a key is lost")
					return
				}
			}
		}()
	}
	wg.Wait()
}

// FuzzOpenBytes covers C5: whatever the bytes are, errors of OpenBytes, OpenReaderAt and VerifyReaderAt
// are typed. If Verify finds no damage, both filters give the same answers.
func FuzzOpenBytes(f *testing.F) {
	good := image(f, &Options{FalsePositiveRate: 0.1}, numbers(0, 500))
	_, sb, _, err := layout.Newest(good)
	must(f, err)
	f.Add([]byte{}, uint16(0), uint16(0), false)
	f.Add([]byte{1}, uint16(layout.OffRegion+100), uint16(0), true)
	f.Add([]byte{2}, uint16(64), uint16(0), true) // live
	f.Add(sb[88:96], uint16(88), uint16(64), true)
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint16(layout.OffRegion+100), uint16(0), true)
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint16(layout.OffStash), uint16(0), false)
	f.Fuzz(func(t *testing.T, patch []byte, at, cut uint16, sign bool) {
		data := bytes.Clone(good)
		copy(data[min(int(at), len(data)):], patch)
		if sign { // without this, nearly all changes of a superblock are refused
			first := (*layout.Superblock)(data)
			first.Sign()
			for i := 1; i < layout.SuperblockSlots; i++ {
				copy(data[i*layout.SuperblockBytes:], first[:])
			}
		}
		data = data[:max(len(data)-int(cut), 0)]
		a, err := OpenBytes(data, nil)
		b, err2 := OpenReaderAt(bytes.NewReader(data), int64(len(data)), nil)
		if (err == nil) != (err2 == nil) || err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrNeedsRecovery) {
			t.Fatalf("%v, %v", err, err2)
		}
		_, damage := VerifyReaderAt(context.Background(), bytes.NewReader(data), int64(len(data)))
		if err := damage; err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, ErrNeedsRecovery) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		all := hashes(1, 100)
		found, found2 := make([]bool, len(all)), make([]bool, len(all))
		a.ContainsHashes(all, found)
		b.ContainsHashes(all, found2)
		for i, h := range all {
			if one, other := a.ContainsHash(h), b.ContainsHash(h); damage == nil && (found[i] != one || found2[i] != one || other != one) {
				t.Fatalf("hash %x: %t", h, one)
			}
		}
		a.Stats()
		b.Stats()
		a.Close()
		b.Close()
	})
}
