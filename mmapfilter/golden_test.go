package mmapfilter

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

var update = flag.Bool("update", false, "write the golden files that are missing; one that exists is never changed")

// goldenKeys are the keys of every golden image: 420 of them once each, one
// more often than its slots, so that it is in the stash, and the empty key.
func goldenKeys() [][]byte {
	keys := [][]byte{{}}
	for i := range 420 {
		keys = append(keys, fmt.Appendf(nil, "key %d", i))
	}
	for range 40 {
		keys = append(keys, []byte("forty times"))
	}
	return keys
}

func sliceSeq(keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// TestGolden builds the images in testdata again, to the byte, and looks up in
// the stored ones the keys of the stored vectors. It makes those that are
// missing with
//
//	go test ./mmapfilter -run TestGolden -update
func TestGolden(t *testing.T) {
	for _, p := range layout.LegalParams(layout.Blocked) {
		name := fmt.Sprintf("blocked-f%d", p.FingerprintBits)
		t.Run(name, func(t *testing.T) {
			opts := &Options{
				Layout:          Blocked,
				FingerprintBits: p.FingerprintBits,
				Capacity:        440,
				Normalisation:   "golden",
			}
			path := filepath.Join(t.TempDir(), "f.mmf")
			f, err := Build(context.Background(), path, opts, sliceSeq(goldenKeys()))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			built, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			image := filepath.Join("../testdata", name+".mmf")
			golden(t, image, built)
			stored, err := OpenReadOnly(image, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer stored.Close()
			golden(t, filepath.Join("../testdata", name+".vectors"), vectors(stored))
		})
	}
}

// vectors lists, for the keys of an image and for absent ones, every number on
// the way from the key to the answer.
func vectors(f *Filter) []byte {
	var b strings.Builder
	b.WriteString("# key\thash\tline\tbucket\tother bucket\tfingerprint\talternate line\toverflow bits\tanswer\n")
	keys := goldenKeys()
	for i := range 1500 {
		keys = append(keys, fmt.Appendf(nil, "absent %d", i))
	}
	keys = slices.CompactFunc(keys, bytes.Equal)
	t := f.open.Load().table
	for _, key := range keys {
		h := f.Hash(key)
		it := t.Split(h)
		var marked layout.Line
		t.SetOverflow(&marked, it)
		other := it
		for i, w := range marked {
			if w != 0 && uint32(i) != it.Bucket {
				other.Bucket = uint32(i)
			}
		}
		fmt.Fprintf(&b, "%q\t%016x\t%d\t%d\t%d\t%#x\t%d\t%x,%x\t%t\n", key, h, it.Line, it.Bucket, other.Bucket, it.Fp,
			t.Alternate(it).Line, marked[it.Bucket]>>60, marked[other.Bucket]>>60, f.ContainsHash(h))
	}
	return []byte(b.String())
}

// golden holds got against a stored file, or stores it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *update {
		if err := os.WriteFile(file, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is made now", file)
	}
}
