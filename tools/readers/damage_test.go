package readers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
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
		seen := map[string]int{}
		for _, name := range fewer(v, "compact-q41", "compact-clean", "compact-q40", "packed-f31", "semisorted-f32", "compact-shard", "live/kept", "a replica", "a replica with hashes") {
			path := "../../testdata/" + name + ".mmf"
			switch name {
			case "a replica":
				path = makeReplica(t, (*mmapfilter.Filter).Snapshot)
			case "a replica with hashes":
				path = makeReplica(t, (*mmapfilter.Filter).SnapshotWithHashes)
			}
			image := mustRead(t, path)
			for _, part := range [][2]int{{0, fieldsEnd}, {noteEnd - 4, reserved + 8}, {layout.SuperblockBytes - 8, layout.SuperblockBytes - 4}} {
				got := output(t, nil, probe(t, v), "fields", path, filepath.Join(t.TempDir(), "copy"), strconv.Itoa(part[0]), strconv.Itoa(part[1]))
				if len(got) != 8*(part[1]-part[0]) {
					t.Fatalf("%d codes", len(got))
				}
				for i, code := range got {
					bit := 8*part[0] + i
					head := make([]byte, layout.OffRuntime)
					copy(head, image[:layout.SuperblockBytes-4])
					head[bit/8] ^= 1 << (bit % 8)
					crc := crc32.Checksum(head[:layout.SuperblockBytes-4], crc32.MakeTable(crc32.Castagnoli))
					for j := range 4 {
						head[layout.SuperblockBytes-4+j] = byte(crc >> (8 * j))
					}
					_, sb, g, err := layout.Newest(head)
					if err == nil {
						err = sb.CheckFileSize(g, int64(len(image)))
					}
					want := ruleOf(err)
					if (err == nil) != (want == "") || rules[int(code)] != want {
						t.Errorf("%s, bit %d of byte %d: code -%d, %q; in Go %v", name, bit%8, bit/8, code, rules[int(code)], err)
					}
					seen[want]++
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

// TestDamage opens files with damage of all kinds, and looks up keys in those that can be opened.
func TestDamage(t *testing.T) {
	eachReader(t, func(t *testing.T, v variant) {
		room := 0 // files that may be cut in one place
		for _, name := range fewer(v, "packed-stash", "compact-clean", "compact-q43", "compact-q41", "compact-q40", "compact-q25", "packed-f12", "packed-f31", "semisorted-f13", "semisorted-f32", "live/halves") {
			out := output(t, nil, probe(t, v), "damage", "../../testdata/"+name+".mmf", filepath.Join(t.TempDir(), "copy"), fmt.Sprint(*damaged), "1")
			var bits, cuts, opened int
			if _, err := fmt.Sscan(string(out), &bits, &cuts, &opened); err != nil {
				t.Fatal(err)
			}
			// The other copies are intact. A file that is not sealed may end before its room for
			// checksums.
			image := mustRead(t, "../../testdata/"+name+".mmf")
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
		for _, name := range []string{"packed-f12", "semisorted-f13"} { // lines of 48 bits
			image, path := mustRead(t, "../../testdata/"+name+".mmf"), filepath.Join(t.TempDir(), "x.mmf")
			for at := 0; at < layout.OffRuntime; at += layout.SuperblockBytes {
				head := image[at : at+layout.SuperblockBytes]
				binary.LittleEndian.PutUint64(head[88:], 128)
				binary.LittleEndian.PutUint64(head[96:], 128*48/8)
				binary.LittleEndian.PutUint32(head[4092:], crc32.Checksum(head[:4092], crc32.MakeTable(crc32.Castagnoli)))
			}
			must(t, os.WriteFile(path, image, 0o666))
			var bits, cuts, opened int
			out := output(t, nil, probe(t, v), "damage", path, path+".copy", "20", "1")
			if _, err := fmt.Sscan(string(out), &bits, &cuts, &opened); err != nil || opened == 0 {
				t.Errorf("%s: %s, %v", name, out, err)
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
