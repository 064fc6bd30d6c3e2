package readers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// rules has the rules that the errors of mmapfilter.h are about. The keys are the codes, negated.
var rules = map[int]string{
	4: "F1", 5: "F1", 6: "F1", 7: "F2", 8: "version", 9: "features", 10: "F4", 11: "F5", 12: "F6", 13: "F6", 14: "F7", 15: "F13",
}

// ruleOf returns the rule that an error of package layout is about, or "".
func ruleOf(err error) string {
	var damage *layout.CorruptError
	var version *layout.VersionError
	switch {
	case errors.As(err, &version) && version.Features != 0:
		return "features"
	case errors.As(err, &version):
		return "version"
	case errors.As(err, &damage):
		if damage.Rule != "F3" {
			return damage.Rule
		}
		return "version" // version 0
	}
	return ""
}

// TestFields changes each bit of the fields of a superblock, which has no other copy, corrects its
// checksum, and compares the error with that of package layout.
func TestFields(t *testing.T) {
	const (
		fieldsEnd = 260
		noteEnd   = 512
		reserved  = 592
	)
	eachReader(t, func(t *testing.T, v variant) {
		seen, o := map[string]int{}, newOpener(t, v)
		for _, name := range fewer(v, "compact-q41", "compact-clean", "compact-q40", "packed-f31", "semisorted-f32", "compact-shard", "live/kept", "a replica", "a replica with hashes") {
			path := "../../testdata/" + name + ".mmf"
			switch name {
			case "a replica":
				path = makeReplica(t, (*mmapfilter.Filter).Snapshot)
			case "a replica with hashes":
				path = makeReplica(t, (*mmapfilter.Filter).SnapshotWithHashes)
			}
			image := mustRead(t, path)
			clear(image[layout.SuperblockBytes:layout.OffRuntime])
			for _, part := range [][2]int{{0, fieldsEnd}, {noteEnd - 4, reserved + 8}, {layout.SuperblockBytes - 8, layout.SuperblockBytes - 4}} {
				for bit := 8 * part[0]; bit < 8*part[1]; bit++ {
					image[bit/8] ^= 1 << (bit % 8)
					sign(image)
					code := o.code(image)
					_, sb, g, err := layout.Newest(image[:layout.OffRuntime])
					if err == nil {
						err = sb.CheckFileSize(g, int64(len(image)))
					}
					want := ruleOf(err)
					if (err == nil) != (want == "") || (code == 0) != (want == "") || rules[-code] != want {
						t.Errorf("%s, bit %d of byte %d: code %d, %q; in Go %v", name, bit%8, bit/8, code, rules[-code], err)
					}
					seen[want]++
					image[bit/8] ^= 1 << (bit % 8)
				}
			}
		}
		for _, rule := range []string{"", "F1", "version", "features", "F4", "F5", "F6", "F7", "F13"} {
			if seen[rule] == 0 {
				t.Errorf("no bit breaks rule %q", rule)
			}
		}
	})
}

// sign gives a superblock the right checksum.
func sign(superblock []byte) {
	const end = layout.SuperblockBytes - 4
	binary.LittleEndian.PutUint32(superblock[end:], crc32.Checksum(superblock[:end], crc32.MakeTable(crc32.Castagnoli)))
}

// makeReplica makes a snapshot of a filter that keeps its hashes. Such a snapshot is a replica.
func makeReplica(t *testing.T, snapshot func(*mmapfilter.Filter, context.Context, string) (mmapfilter.Position, error)) (path string) {
	t.Helper()
	dir := t.TempDir()
	f, err := mmapfilter.Create(filepath.Join(dir, "f"), &mmapfilter.Options{Capacity: 100, KeepHashes: true})
	must(t, err)
	defer f.Close()
	path = filepath.Join(dir, "replica")
	err = f.Insert([]byte("key"))
	if err == nil {
		_, err = snapshot(f, t.Context(), path)
	}
	must(t, err)
	return path
}

// damage has a probe open damaged images: with one bit of the first superblock changed (every bit if n
// is large), cut at multiples of 512 bytes, and n times with 1 to 256 random bytes. It returns how many
// images of each kind can be opened.
func damage(o opener, image []byte, n int) (bits, cuts, opened int) {
	rng, step := rand.New(rand.NewPCG(1, 0)), 31 // a bit of every fourth byte or so
	if n >= 10_000 {
		step = 1
	}
	count := func(of *int, image []byte) {
		if o.code(image) == 0 {
			*of++
		}
	}
	for bit := 0; bit < 8*layout.SuperblockBytes; bit += step {
		bad := bytes.Clone(image)
		bad[bit/8] ^= 1 << (bit % 8)
		count(&bits, bad)
	}
	for size := len(image) - 512; size >= 0; size -= 512 {
		count(&cuts, image[:size])
	}
	for range n {
		bad, from := bytes.Clone(image), rng.IntN(2)*layout.OffRuntime // half of the images are damaged only in the part that lookups read
		for range 1 + rng.IntN(256) {
			bad[from+rng.IntN(len(bad)-from)] = byte(rng.Uint32())
		}
		count(&opened, bad)
	}
	return bits, cuts, opened
}

// TestDamage opens files with several kinds of damage, and looks up keys if a file can be opened.
func TestDamage(t *testing.T) {
	eachReader(t, func(t *testing.T, v variant) {
		room, o := 0, newOpener(t, v) // room counts the files that may be cut in one place
		for _, name := range fewer(v, "packed-stash", "compact-clean", "compact-q43", "compact-q41", "compact-q40", "compact-q25", "packed-f12", "packed-f31", "semisorted-f13", "semisorted-f32", "live/halves") {
			image := mustRead(t, "../../testdata/"+name+".mmf")
			bits, cuts, opened := damage(o, image, *damaged)
			// A changed bit does no harm, because the other copies are intact. A file that is not sealed
			// may end before its room for checksums.
			_, sb, g, err := layout.Newest(image[:layout.OffRuntime])
			must(t, err)
			wantCuts := 0
			if sb.State() != layout.Sealed && int64(len(image)) == g.SealedBytes {
				wantCuts = 1
				room++
			}
			if bits < 1000 || cuts != wantCuts || opened < *damaged/10 {
				t.Errorf("%s: %d opened with a changed bit, %d cut, and %d with random bytes", name, bits, cuts, opened)
			}
		}
		if room == 0 {
			t.Error("none of the files may be cut in one place")
		}
	})
}

// TestLastLine looks up keys in files whose last line ends where the region ends. No load may go beyond
// it. (A sanitizer checks that.)
func TestLastLine(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		o := newOpener(t, v)
		for _, name := range []string{"packed-f12", "semisorted-f13"} { // lines of 48 bits
			image := mustRead(t, "../../testdata/"+name+".mmf")
			for at := 0; at < layout.OffRuntime; at += layout.SuperblockBytes {
				head := image[at : at+layout.SuperblockBytes]
				binary.LittleEndian.PutUint64(head[88:], 128)
				binary.LittleEndian.PutUint64(head[96:], 128*48/8)
				sign(head)
			}
			if _, _, opened := damage(o, image, 20); opened == 0 {
				t.Errorf("%s is not opened", name)
			}
		}
	})
}

// TestNoFilter opens paths that are not filter files.
func TestNoFilter(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		in := strings.Join([]string{"/nowhere/x", t.TempDir(), "/dev/null", "readers_test.go", "../../testdata/compact-q41.vectors"}, "\n")
		got := output(t, strings.NewReader(in), probe(t, v), "opens")
		if want := "-1\n-3\n-3\n-4\n-4\n"; !bytes.Equal(got, []byte(want)) {
			t.Errorf("codes\n%s, not\n%s", got, want)
		}
	})
}
