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

// rules are those that the errors of mmapfilter.h are about, by minus their codes.
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
		return "version" // 0
	}
	return ""
}

// TestFields changes every bit of the fields of a superblock, with a right checksum and no other
// copy, and compares the error with that of package layout.
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

// sign gives a superblock the checksum that it must have.
func sign(superblock []byte) {
	const end = layout.SuperblockBytes - 4
	binary.LittleEndian.PutUint32(superblock[end:], crc32.Checksum(superblock[:end], crc32.MakeTable(crc32.Castagnoli)))
}

// makeReplica makes a snapshot of a filter that keeps its hashes: it has a position, and no hashes.
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

// damage has a probe open an image with damage: in bits of the first superblock, all of them if n is
// large; cut at every 512 bytes; and n times with 1 to 256 random bytes anywhere. It returns how many of
// each are opened.
func damage(o opener, image []byte, n int) (bits, cuts, opened int) {
	rng, step := rand.New(rand.NewPCG(1, 0)), 31 // some bits of all bytes
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
		bad, from := bytes.Clone(image), rng.IntN(2)*layout.OffRuntime // half of it in what lookups read
		for range 1 + rng.IntN(256) {
			bad[from+rng.IntN(len(bad)-from)] = byte(rng.Uint32())
		}
		count(&opened, bad)
	}
	return bits, cuts, opened
}

// TestDamage opens files with damage of all kinds, and looks up keys in those that can be opened.
func TestDamage(t *testing.T) {
	eachReader(t, func(t *testing.T, v variant) {
		room, o := 0, newOpener(t, v) // room: files that may be cut in one place
		for _, name := range fewer(v, "packed-stash", "compact-clean", "compact-q43", "compact-q41", "compact-q40", "compact-q25", "packed-f12", "packed-f31", "semisorted-f13", "semisorted-f32", "live/halves") {
			image := mustRead(t, "../../testdata/"+name+".mmf")
			bits, cuts, opened := damage(o, image, *damaged)
			// The other copies are intact. A file that is not sealed may end before its room for
			// checksums.
			_, sb, g, err := layout.Newest(image[:layout.OffRuntime])
			must(t, err)
			wantCuts := 0
			if sb.State() != layout.Sealed && int64(len(image)) == g.SealedBytes {
				wantCuts = 1
				room++
			}
			if bits < 1000 || cuts != wantCuts || opened < *damaged/10 {
				t.Errorf("%s: opened with a changed bit %d, cut %d, with random bytes %d", name, bits, cuts, opened)
			}
		}
		if room == 0 {
			t.Error("no file may be cut anywhere")
		}
	})
}

// TestLastLine looks keys up where the last line ends with the region: no load goes beyond it. (A
// sanitizer sees to that.)
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

// TestNoFilter opens what is no filter file.
func TestNoFilter(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		in := strings.Join([]string{"/nowhere/x", t.TempDir(), "/dev/null", "readers_test.go", "../../testdata/compact-q41.vectors"}, "\n")
		got := output(t, strings.NewReader(in), probe(t, v), "opens")
		if want := "-1\n-3\n-3\n-4\n-4\n"; !bytes.Equal(got, []byte(want)) {
			t.Errorf("codes\n%s, not\n%s", got, want)
		}
	})
}
