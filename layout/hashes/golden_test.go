package hashes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

var update = flag.Bool("update", false, "write the golden files that are missing")

// bytesOf returns the bytes of a file.
func (f *file) bytesOf() (b []byte) {
	for i := range f.pages {
		for _, w := range f.pages[i] {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// vectors lists the fields of the superblock about a file, its header, its items and its operations.
func (f *file) vectors(t *testing.T) []byte {
	t.Helper()
	h, base, tail, err := f.read()
	must(t, err)
	var b bytes.Buffer
	fmt.Fprintf(&b, "identity\t%016x\npages\t%d\ncheck\t%08x\n", f.counted.Identity, f.counted.Pages, f.counted.Check)
	fmt.Fprintf(&b, "last page\t%d\t%08x\nend\t%d\t%016x\n", f.last(), f.counted.Last, f.end.Number, f.end.Chain)
	fmt.Fprintf(&b, "base\t%d\t%016x\n", h.At.Number, h.At.Chain)
	fmt.Fprintf(&b, "before\t%016x\t%d\t%08x\t%08x\n", h.Before.Identity, h.Before.Pages, h.Before.Check, h.Before.Last)
	for i, a := range h.Ages {
		fmt.Fprintf(&b, "age\t%d\t%d\t%d\t%d\n", i, a.First, a.Last, a.Items)
	}
	for _, it := range base {
		fmt.Fprintf(&b, "item\t%016x\t%d\n", it.Hash, it.Age)
	}
	at := h.At
	for _, e := range tail {
		at = at.After(e.Op, e.Hash)
		op := [...]string{layout.Insert: "insert", layout.Delete: "delete", layout.AtLeastOne: "at least one"}[e.Op]
		fmt.Fprintf(&b, "%s\t%d\t%016x\t%d\t%d\t%016x\n", op, e.Items, e.Hash, e.Time, at.Number, at.Chain)
	}
	return b.Bytes()
}

// TestGolden: the format has not changed, and reading the golden file gives its vectors.
//
//	go test ./layout/hashes -run TestGolden -update
func TestGolden(t *testing.T) {
	made, _ := newFile(t, BaseItems+10, []Age{{First: 1e18, Last: 2e18}, {First: 2e18, Last: 2e18}, {First: 2e18, Last: 3e18}},
		operations(tailEntries-60, 3e18, 1e7), operations(100, 4e18, 3e8))
	golden := make([][]byte, 2)
	for i, b := range [][]byte{made.bytesOf(), made.vectors(t)} {
		path := filepath.Join("..", "..", "testdata", []string{"kept.hashes", "kept.vectors"}[i])
		var err error
		golden[i], err = os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && *update {
			golden[i], err = b, os.WriteFile(path, b, 0o644)
		}
		must(t, err)
		if !bytes.Equal(golden[i], b) {
			t.Errorf("%s is not what the code writes now", path)
		}
	}
	f := &file{make([]Page, len(golden[0])/PageBytes), made.counted, made.end}
	for i := range f.pages {
		for j := range f.pages[i] {
			f.pages[i][j] = binary.LittleEndian.Uint64(golden[0][PageBytes*i+8*j:])
		}
	}
	if got := f.vectors(t); !bytes.Equal(got, golden[1]) {
		t.Error("reading the golden file does not give its vectors")
	}
}
