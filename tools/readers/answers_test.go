package readers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/zeebo/xxh3"
)

var hows = []string{"single", "hash", "batch", "fixed", "hashes"}

// TestVectors looks up the keys of the vectors of each golden file.
func TestVectors(t *testing.T) {
	images, err := filepath.Glob("../../testdata/*.vectors")
	if err != nil || len(images) < 15 {
		t.Fatal(images, err)
	}
	eachReader(t, func(t *testing.T, v variant) {
		for i, vectors := range images {
			image := strings.TrimSuffix(vectors, ".vectors") + ".mmf"
			if _, err := os.Stat(image); err != nil {
				continue // kept.vectors is about kept hashes
			}
			keys, hashes, want := readVectors(t, vectors)
			for j, how := range hows {
				if v.compiler == node && i%len(hows) != j { // starting Node takes long
					continue
				}
				if got := output(t, bytes.NewReader(keys), probe(t, v), "answers", image, how); !bytes.Equal(got, want) {
					t.Errorf("%s, %s: the answers are\n%v, not\n%v", image, how, got, want)
				}
			}
			_, sb, _, err := layout.Newest(mustRead(t, image)[:layout.OffRuntime])
			must(t, err)
			var in []byte
			for rest := keys; len(rest) > 0; {
				n := 4 + binary.LittleEndian.Uint32(rest)
				in = append(binary.LittleEndian.AppendUint64(in, sb.Seed()), rest[:n]...)
				rest = rest[n:]
			}
			if got := output(t, bytes.NewReader(in), probe(t, v), "hash"); !bytes.Equal(got, hashes) {
				t.Errorf("%s: the hashes differ from the vectors", image)
			}
		}
	})
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return data
}

// readVectors returns the keys as records, the hashes, and the answers.
func readVectors(t *testing.T, path string) (keys, hashes, answers []byte) {
	lines := strings.Split(strings.TrimSpace(string(mustRead(t, path))), "\n")
	for _, line := range lines[1:] {
		columns := strings.Split(line, "\t")
		key, err := strconv.Unquote(columns[0])
		must(t, err)
		hash, err := hex.DecodeString(columns[1])
		must(t, err)
		keys = record(keys, []byte(key))
		hashes = binary.LittleEndian.AppendUint64(hashes, binary.BigEndian.Uint64(hash))
		answers = append(answers, map[string]byte{"true": 1}[columns[6]])
	}
	return keys, hashes, answers
}

// TestHash compares the readers' XXH3 with another implementation, for all lengths for which XXH3 has
// code of its own, and for longer ones.
func TestHash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	var lengths []int
	for n := range 2200 {
		lengths = append(lengths, n)
	}
	for range 60 {
		lengths = append(lengths, rng.IntN(len(data)))
	}
	var in, want []byte
	for _, n := range lengths {
		for _, seed := range []uint64{0, 1, 1 << 32, 1<<64 - 1, rng.Uint64()} {
			at := rng.IntN(len(data) - n)
			in = record(binary.LittleEndian.AppendUint64(in, seed), data[at:at+n])
			want = binary.LittleEndian.AppendUint64(want, xxh3.HashSeed(data[at:at+n], seed))
		}
	}
	eachReader(t, func(t *testing.T, v variant) {
		got := output(t, bytes.NewReader(in), probe(t, v), "hash")
		if len(got) != len(want) {
			t.Fatalf("%d bytes of hashes, not %d", len(got), len(want))
		}
		for i := 0; i < len(want); i += 8 {
			if !bytes.Equal(got[i:i+8], want[i:i+8]) {
				t.Errorf("length %d: %x, not %x", lengths[i/40], got[i:i+8], want[i:i+8])
			}
		}
	})
}

// key returns key number i, which has 5 to 40 bytes, mostly 16.
func key(dst []byte, i uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst[:0], i*0x9E3779B97F4A7C15)
	dst = binary.LittleEndian.AppendUint64(dst, i)
	switch i % 16 {
	case 0:
		dst = append(dst, dst...)
		dst = append(dst, dst[:8]...)
	case 1:
		dst = dst[8:16]
	case 2:
		dst = dst[8:13]
	}
	return dst
}

const absentFrom = 1 << 39 // keys from this number on are in no filter

func keysFrom(from, n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var k []byte
		for i := range n {
			if k = key(k, from+i); !yield(k, nil) {
				return
			}
		}
	}
}

// compare looks up n present keys and n absent ones with a filter and with the probe, and compares each
// answer. It returns the number of absent keys that are answered "maybe".
func compare(t *testing.T, v variant, f *mmapfilter.Filter, path, how string, n uint64) (maybe int) {
	t.Helper()
	pr, pw := io.Pipe()
	go func() {
		w := bufio.NewWriterSize(pw, 1<<20)
		for _, from := range []uint64{0, absentFrom} {
			for k := range keysFrom(from, n) {
				w.Write(record(w.AvailableBuffer(), k))
			}
		}
		pw.CloseWithError(w.Flush())
	}()
	got := output(t, pr, probe(t, v), "answers", path, how)
	if uint64(len(got)) != 2*n {
		t.Fatalf("%d answers, not %d", len(got), 2*n)
	}
	for i, from := range []uint64{0, absentFrom} {
		j := uint64(i) * n
		for k := range keysFrom(from, n) {
			if want := f.Contains(k); want != (got[j] == 1) || !want && i == 0 {
				t.Fatalf("%s, %s: key %x: %d, and in Go %t", path, how, k, got[j], want)
			}
			maybe += i * int(got[j])
			j++
		}
	}
	return maybe
}

// TestKeys compares the answers for many keys, in filters of each layout.
func TestKeys(t *testing.T) {
	eachReader(t, func(t *testing.T, v variant) {
		for _, opts := range []mmapfilter.Options{
			{},
			{FalsePositiveRate: 1e-6},
			{Layout: layout.Packed, FingerprintBits: 12},
			{Layout: layout.SemiSorted, FingerprintBits: 13},
		} {
			n := uint64(*manyKeys)
			if opts.Layout != 0 || opts.FalsePositiveRate != 0 {
				n = min(n, 100_000)
			}
			if v.compiler == node {
				n = min(n, 20_000)
			}
			path := filepath.Join(t.TempDir(), "keys.mmf")
			f, err := mmapfilter.Build(context.Background(), path, &opts, keysFrom(0, n))
			must(t, err)
			for _, how := range []string{"single", "batch"} {
				maybe := compare(t, v, f, path, how, n)
				t.Logf("%v %s: no answer differs for %d present and %d absent keys, of which %d are \"maybe\"", f.Stats().Layout, how, n, n, maybe)
			}
			f.Close()
		}
	})
}

// TestShapes compares the answers of small filters of every shape that a layout has. The filters are
// over capacity, so that keys are in alternate lines and in the stash.
func TestShapes(t *testing.T) {
	const n = 1500
	compiler(t)
	dir := t.TempDir()
	var filters []*mmapfilter.Filter
	var paths []string
	var all []mmapfilter.Options
	for _, kind := range []layout.Kind{layout.Packed, layout.SemiSorted} {
		for _, p := range layout.LegalParams(kind) {
			all = append(all, mmapfilter.Options{Layout: kind, FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize})
		}
	}
	for rate := 0.5; rate > 1e-8; rate *= 0.7 { // this gives many values of Q, and all of r
		all = append(all, mmapfilter.Options{FalsePositiveRate: rate})
	}
	for i, opts := range all {
		path := filepath.Join(dir, fmt.Sprint(i, ".mmf"))
		opts.Capacity, opts.Seed = n-100, 7
		f, err := mmapfilter.Build(context.Background(), path, &opts, keysFrom(0, n))
		if err != nil { // there are too few fingerprints for so many keys
			opts.Capacity = 2 * n
			f, err = mmapfilter.Build(context.Background(), path, &opts, keysFrom(0, n))
		}
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		t.Cleanup(func() { f.Close() })
		filters, paths = append(filters, f), append(paths, path)
	}
	if len(filters) < 80 {
		t.Errorf("%d shapes", len(filters))
	}
	eachReader(t, func(t *testing.T, v variant) {
		for i, f := range filters {
			how := hows[i%len(hows)]
			if v.compiler == node {
				if i%3 != 0 {
					continue
				}
				how = "single"
			}
			compare(t, v, f, paths[i], how, n)
		}
	})
}

// TestOneLine looks up keys in a filter with a single line. The keys that the line has no room for are
// in the stash.
func TestOneLine(t *testing.T) {
	const n = 60
	path := filepath.Join(t.TempDir(), "x.mmf")
	f, err := mmapfilter.Build(context.Background(), path, &mmapfilter.Options{Capacity: 40}, keysFrom(0, n))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	_, sb, _, err := layout.Newest(mustRead(t, path)[:layout.OffRuntime])
	if err != nil || sb.Lines() != 1 {
		t.Fatal(sb.Lines(), err)
	}
	eachReader(t, func(t *testing.T, v variant) { compare(t, v, f, path, "fixed", n) })
}
