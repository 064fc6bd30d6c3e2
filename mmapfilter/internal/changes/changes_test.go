package changes

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mmapfilter/mmapfilter/layout"
)

var testHeader = Header{Descent: 7, From: layout.Position{Number: 40, Chain: 1}, To: layout.Position{Number: 42, Chain: 2}}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, h Header, changes []Change) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	must(t, err)
	for _, c := range changes {
		must(t, w.Add(c))
	}
	must(t, w.Close())
	return b.Bytes()
}

// read returns the changes of a stream. If there is an error, it returns the changes before that.
func read(r io.Reader) (h Header, changes []Change, err error) {
	in, err := NewReader(r)
	if err != nil {
		return h, nil, err
	}
	for {
		c, err := in.Next()
		if err == io.EOF {
			return in.Header, changes, nil
		}
		if err != nil {
			return in.Header, changes, err
		}
		changes = append(changes, c)
	}
}

// some returns about n changes. Some hashes are close together; the lowest and the highest possible hash
// are among them. Some changes have a large number of times.
func some(rng *rand.Rand, n int) (changes []Change) {
	hashes := []uint64{0, math.MaxUint64}
	for len(hashes) < n {
		h := rng.Uint64()
		if rng.IntN(4) == 0 {
			h = hashes[len(hashes)-1] + uint64(rng.IntN(3))
		}
		hashes = append(hashes, h)
	}
	slices.Sort(hashes)
	for _, h := range slices.Compact(hashes) {
		c := Change{h, 1}
		if rng.IntN(8) == 0 {
			c.Times += rng.Int64() >> rng.IntN(63)
		}
		if c.Times < 0 || rng.IntN(2) == 0 {
			c.Times = -max(c.Times, -math.MaxInt64)
		}
		if c.Times != 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// TestRoundTrip writes changes and reads them back, from a reader that returns few bytes at a time.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 3, 10, blockMost, blockMost + 1, 3*blockMost + 5} {
		changes := some(rng, n)
		b := write(t, testHeader, changes)
		h, back, err := read(iotest.HalfReader(bytes.NewReader(b)))
		must(t, err)
		if h != testHeader || !slices.Equal(back, changes) {
			t.Fatalf("%d changes became %d of %+v", len(changes), len(back), h)
		}
	}
	for _, changes := range [][]Change{nil, {{0, 1}}, {{math.MaxUint64, -1}}, {{5, math.MaxInt64}}, {{5, -math.MaxInt64}, {6, 2}}} {
		_, back, err := read(bytes.NewReader(write(t, testHeader, changes)))
		must(t, err)
		if !slices.Equal(back, changes) {
			t.Errorf("%v became %v", changes, back)
		}
	}
}

// TestSums checks that several changes of a hash are added up.
func TestSums(t *testing.T) {
	b := write(t, testHeader, []Change{{1, 2}, {1, -2}, {2, 1}, {2, 3}, {3, 0}, {4, -1}, {5, 1}, {5, -1}})
	_, back, err := read(bytes.NewReader(b))
	must(t, err)
	if want := []Change{{2, 4}, {4, -1}}; !slices.Equal(back, want) {
		t.Errorf("%v, want %v", back, want)
	}
}

// TestClasses writes changes by class. What is read back must have the line and the fingerprint of each
// hash, as package layout defines them.
func TestClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []Classes{{1, 1}, {1, 1 << 32}, {1000, 41 << 7}, {123_456_789, 37 << 13}, {1<<33 - 1, 1<<31 - 1}} {
		h := testHeader
		h.Classes = c
		type class struct{ line, fingerprint uint64 }
		classOf := func(hash uint64) class {
			line, rest := bits.Mul64(hash, c.Lines)
			fingerprint, _ := bits.Mul64(rest, c.Fingerprints)
			return class{line, fingerprint}
		}
		want := map[class]int64{}
		changes := some(rng, 3000)
		for i := range changes {
			changes[i].Times %= 100
			k := classOf(changes[i].Hash)
			if want[k] += changes[i].Times; want[k] == 0 {
				delete(want, k)
			}
		}
		back, classes, err := read(bytes.NewReader(write(t, h, changes)))
		must(t, err)
		if back != h {
			t.Fatalf("%+v", back)
		}
		got := map[class]int64{}
		for _, change := range classes {
			got[classOf(change.Hash)] += change.Times
			if change.Hash > 0 && classOf(change.Hash-1) == classOf(change.Hash) {
				t.Fatalf("%#x is not the lowest of its class", change.Hash)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %d classes, want %d", c, len(got), len(want))
		}
	}
}

// TestParseClasses reads back the texts of Classes, also of the zero value, which means whole hashes.
func TestParseClasses(t *testing.T) {
	for _, c := range []Classes{{}, {1, 1}, {1024, 5248}, {1<<33 - 1, 1<<31 - 1}} {
		if back, err := ParseClasses(c.String()); back != c || err != nil {
			t.Errorf("%v is read back as %v, %v", c, back, err)
		}
	}
	for _, text := range []string{"", "0", "0-1", "1-0", "01-2", "1-2 ", "1--2", "x-0", "8589934592-8589934592"} {
		if c, err := ParseClasses(text); c != (Classes{}) || err == nil {
			t.Errorf("%q is read as %v", text, c)
		}
	}
}

// TestSize checks how many bytes a change takes, for a million changes of a filter with 100 million
// keys: with whole hashes, and by class for two filters, with 1e4 and 1e2 classes for each key.
func TestSize(t *testing.T) {
	const keys, n = 100e6, 1e6
	rng := rand.New(rand.NewPCG(5, 6))
	changes := make([]Change, n)
	for i := range changes {
		changes[i] = Change{rng.Uint64(), 1 - 2*int64(rng.IntN(2))}
	}
	slices.SortFunc(changes, func(a, b Change) int { return int(a.Hash>>1) - int(b.Hash>>1) })
	for _, size := range []struct {
		classes Classes
		most    float64
	}{{Classes{}, 6}, {Classes{keys / 32, 32 * 1e4}, 3}, {Classes{keys / 50, 50 * 1e2}, 2.1}} {
		h := testHeader
		h.Classes = size.classes
		if got := float64(len(write(t, h, changes))) / n; got > size.most || got < size.most/2 {
			t.Errorf("%+v: %.2f bytes a change, want at most %v", size.classes, got, size.most)
		}
	}
}

// TestDamage changes each bit of a stream, cuts it off at each byte, appends a byte, and reorders,
// repeats and leaves out blocks.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	good := write(t, testHeader, some(rng, 40))
	for i := range 8 * len(good) {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if _, _, err := read(bytes.NewReader(b)); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrCutOff) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for i := range good {
		if _, _, err := read(bytes.NewReader(good[:i])); !errors.Is(err, ErrCutOff) {
			t.Fatalf("%d of %d bytes: %v", i, len(good), err)
		}
	}
	if _, _, err := read(bytes.NewReader(append(slices.Clone(good), 0))); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}

	// All blocks of this stream have the same size.
	mean := make([]Change, 3*blockMost)
	for i := range mean {
		mean[i] = Change{uint64(i), 1}
	}
	one := write(t, testHeader, mean)
	size := (len(one) - headerBytes - blockHeader) / 3
	for name, order := range map[string][]int{"exchanged": {1, 0, 2}, "left out": {0, 2}, "repeated": {0, 0, 1, 2}, "last left out": {0, 1}} {
		b := slices.Clone(one[:headerBytes])
		for _, i := range order {
			b = append(b, one[headerBytes+i*size:][:size]...)
		}
		b = append(b, one[headerBytes+3*size:]...)
		if _, _, err := read(bytes.NewReader(b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("blocks %s: %v", name, err)
		}
	}
	other := testHeader
	other.Descent++
	b := append(write(t, other, nil)[:headerBytes:headerBytes], one[headerBytes:]...)
	if _, _, err := read(bytes.NewReader(b)); !errors.Is(err, ErrDamaged) {
		t.Errorf("blocks of other changes: %v", err)
	}
	failed := errors.New("failed")
	if _, _, err := read(io.MultiReader(bytes.NewReader(good[:100]), iotest.ErrReader(failed))); !errors.Is(err, failed) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// TestBadHeaders checks that headers with a right check but impossible values are refused.
func TestBadHeaders(t *testing.T) {
	for name, change := range map[string]func(*Header){
		"backwards":        func(h *Header) { h.To.Number = h.From.Number - 1 },
		"forked":           func(h *Header) { h.To.Number = h.From.Number },
		"many classes":     func(h *Header) { h.Classes = Classes{1 << 32, 1 << 32} },
		"no fingerprints":  func(h *Header) { h.Classes = Classes{Lines: 5} },
		"only two numbers": func(h *Header) { h.Classes = Classes{Fingerprints: 5} },
	} {
		h := testHeader
		change(&h)
		if _, _, err := read(bytes.NewReader(h.bytes())); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := NewWriter(io.Discard, h); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVersion reads a header of a later version, with a right check.
func TestVersion(t *testing.T) {
	b := testHeader.bytes()
	b[8]++
	resign(b)
	if _, _, err := read(bytes.NewReader(b)); !errors.Is(err, layout.ErrVersion) || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
}

// TestBadBlocks reads blocks that have a right check, but that no Writer writes.
func TestBadBlocks(t *testing.T) {
	const k = 2
	block := func(before uint64, gaps ...uint64) []byte {
		var b bitWriter
		b.put(before, 64)
		for _, gap := range gaps {
			b.rice(gap, k)
			if gap > 0 {
				b.put(0, 1)
			} else {
				b.elias(5)
			}
		}
		return b.end()
	}
	stream := func(changes, k int, blocks ...[]byte) []byte {
		h := testHeader
		h.Classes = Classes{50, 2}
		b := h.bytes()
		for _, bits := range append(blocks, nil) {
			if bits == nil {
				changes, k = 0, 0
			}
			head := newBlock(changes, k, bits, 0)
			b = append(append(b, head[:]...), bits...)
		}
		resign(b)
		return b
	}
	wrapped := func() []byte {
		var b bitWriter
		b.put(50, 64)
		for _, gap := range []uint64{1, math.MaxUint64} {
			b.rice(gap, 60)
			b.put(0, 1)
		}
		return b.end()
	}
	long := make([]byte, bitsMost+1)
	for name, b := range map[string][]byte{
		"no gap after how many": stream(1, k, block(1, 0, 0, 1)),
		"a first gap of 2":      stream(1, k, block(1, 2)),
		"beyond the classes":    stream(2, k, block(97, 1, 2)),
		"beyond, at first":      stream(1, k, block(99, 1)),
		"beyond all hashes":     stream(2, 60, wrapped()),
		"too few":               stream(3, k, block(1, 1, 1)),
		"too many":              stream(1, k, block(1, 1, 1, 1)),
		"a byte more":           stream(1, k, append(block(1, 1), 0)),
		"a bit more":            stream(1, k, append(block(1, 1)[:8], 0x80)),
		"out of order":          stream(1, k, block(1, 1), block(1, 1)),
		"from the end":          stream(1, k, block(1, 1), block(math.MaxUint64, 1)),
		"no changes":            stream(0, k, block(1)),
		"many changes":          stream(blockMost+1, k, block(1, 1)),
		"a large k":             stream(1, 64, block(1, 1)),
		"a long block":          stream(1, k, long),
	} {
		if _, _, err := read(bytes.NewReader(b)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, back, err := read(bytes.NewReader(stream(1, k, block(1, 0, 1), block(2, 1), block(97, 1))))
	must(t, err)
	if len(back) != 3 || back[0].Times != 6 {
		t.Errorf("blocks without a mistake: %v", back)
	}
}

// TestEssay compares the example in the essay with the bytes that a Writer writes.
func TestEssay(t *testing.T) {
	essay, err := os.ReadFile("doc.go")
	must(t, err)
	_, example, _ := strings.Cut(string(essay), "// # An example\n")
	want := ""
	for line := range strings.Lines(example) {
		if line, ok := strings.CutPrefix(line, "//\t"); ok {
			want += strings.Join(strings.Fields(line), "")
		}
	}
	if got := hex.EncodeToString(write(t, testHeader, []Change{{0x10, 1}, {0x13, -3}, {0x20, 1}})); got != want {
		t.Errorf("%s, but the essay has %s", got, want)
	}
}

// TestWriterFails checks that a Writer returns the error of its io.Writer.
func TestWriterFails(t *testing.T) {
	whole := write(t, testHeader, some(rand.New(rand.NewPCG(9, 10)), 2*blockMost))
	for _, room := range []int{0, headerBytes, headerBytes + 1, headerBytes + blockHeader, len(whole) - 1} {
		w, err := NewWriter(&limited{room}, testHeader)
		if err == nil {
			for _, c := range some(rand.New(rand.NewPCG(9, 10)), 2*blockMost) {
				_ = w.Add(c)
			}
			err = w.Close()
		}
		if !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}

// limited is an io.Writer that accepts room bytes, and then fails.
type limited struct{ room int }

func (l *limited) Write(b []byte) (int, error) {
	if l.room -= len(b); l.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}
