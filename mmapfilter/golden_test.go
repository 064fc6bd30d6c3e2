package mmapfilter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

var update = flag.Bool("update", false, "write the golden files that are missing; one that exists is never changed")

// A goldenImage describes how an image in testdata is built. Most images have more keys than slots, so
// that some keys are only in the stash. One key has forty copies.
type goldenImage struct {
	name   string
	opts   Options
	keys   int                   // number of keys "key 0", "key 1", …
	change func(b []byte) []byte // applied to the built file
}

func goldenImages() []goldenImage {
	var images []goldenImage
	add := func(name string, s shape, change func([]byte) []byte) {
		images = append(images, goldenImage{
			name:   name,
			opts:   s.options(Options{Capacity: 440, Normalisation: "golden"}),
			keys:   520,
			change: change,
		})
	}
	for _, s := range []shape{newShape(layout.Packed, 12, 4), newShape(layout.Packed, 31, 2), newShape(layout.SemiSorted, 13, 4), newShape(layout.SemiSorted, 32, 4)} {
		add(fmt.Sprintf("%s-f%d", s.Kind, s.FingerprintBits), s, nil)
	}
	for _, s := range []shape{compact5, compact7, compact10, compact19, compact26} {
		add(fmt.Sprintf("compact-q%d", s.Quotients), s, nil)
	}
	add("compact-generations", compact7, mixGenerations)
	add("compact-clean", compact7, makeClean)
	return append(images,
		// A shard of a set, which has only its own keys.
		goldenImage{
			name: "compact-shard",
			opts: Options{Capacity: 440, Normalisation: "golden", shard: layout.Shard{Number: 2, Count: 5}},
			keys: 2600,
		},
		// With two chunks and another seed.
		goldenImage{
			name: "compact-seed",
			opts: Options{FalsePositiveRate: 0.003, Capacity: 45_000, Seed: 1 << 63},
			keys: 45_500,
		},
		// With most keys in a nearly full stash.
		goldenImage{
			name: "packed-stash",
			opts: Options{Layout: layout.Packed, FingerprintBits: 12, BucketSize: 4, Capacity: 114, Seed: 1},
			keys: 840,
		})
}

// mixGenerations makes the superblock copies differ: the third is the newest, the first is older and has
// another seed, the second is blank, and the fourth is older.
func mixGenerations(b []byte) []byte {
	at := func(i int) *layout.Superblock {
		return (*layout.Superblock)(b[i*layout.SuperblockBytes : (i+1)*layout.SuperblockBytes])
	}
	_, sb, g, err := layout.Newest(b[:layout.OffRuntime])
	if err != nil {
		panic(err)
	}
	newest := *sb
	newest.SetGeneration(5)
	newest.Sign()
	*at(2) = newest
	*at(1) = layout.Superblock{}
	at(0).SetSeed(99)
	at(0).SetGeneration(3)
	at(0).Sign()
	at(3).SetGeneration(4)
	at(3).Sign()
	trailer := layout.Trailer(&newest, g, b[g.OffTable:g.OffTable+4*g.Chunks])
	copy(b[g.OffTrailer:], trailer[:])
	return b
}

// makeClean turns a sealed file into a clean one without room for checksums.
func makeClean(b []byte) []byte {
	_, _, g, err := layout.Newest(b[:layout.OffRuntime])
	if err != nil {
		panic(err)
	}
	for i := range layout.SuperblockSlots {
		sb := (*layout.Superblock)(b[i*layout.SuperblockBytes:])
		sb.SetState(layout.Clean)
		sb.Sign()
	}
	return b[:g.OffTable]
}

func (g goldenImage) allKeys() [][]byte {
	keys := [][]byte{{}, []byte("\x00\xff\n\"\u00e9"), bytes.Repeat([]byte("long "), 30), bytes.Repeat([]byte("longer "), 60)}
	for i := range g.keys {
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

// TestGolden looks up the keys of the stored vectors in the images of testdata. An image is what
// Build made when the image was added; later runs only read it. Missing images are made with
//
//	go test ./mmapfilter -run 'TestGolden|TestBuildIsWhatItWas' -update
func TestGolden(t *testing.T) {
	for _, g := range goldenImages() {
		t.Run(g.name, func(t *testing.T) {
			image := filepath.Join("../testdata", g.name+".mmf")
			if _, err := os.Stat(image); os.IsNotExist(err) && *update {
				built := buildGolden(t, g.opts, sliceSeq(g.allKeys()))
				if g.change != nil {
					built = g.change(built)
				}
				golden(t, image, built)
			}
			if _, err := Verify(context.Background(), image); err != nil {
				t.Fatal(err)
			}
			stored, err := OpenReadOnly(image, nil)
			must(t, err)
			defer stored.Close()
			own := slices.DeleteFunc(g.allKeys(), func(key []byte) bool { _, ok := stored.shard.Own(stored.Hash(key)); return !ok })
			if found, asked := countFound(stored, sliceSeq(own)); found != asked || asked == 0 {
				t.Errorf("%d of %d keys found", found, asked)
			}
			if found, _ := countFound(stored, sliceSeq(g.allKeys())); found != len(own) {
				t.Errorf("%d keys found, but %d belong to the file", found, len(own))
			}
			golden(t, filepath.Join("../testdata", g.name+".vectors"), vectors(stored, g.allKeys()))
		})
	}
}

func buildGolden(t *testing.T, opts Options, keys iter.Seq2[[]byte, error]) []byte {
	t.Helper()
	_, path := mustBuild(t, &opts, keys)
	built, err := os.ReadFile(path)
	must(t, err)
	return built
}

// TestBuildIsWhatItWas: equal options and keys give equal files, on every machine and in every version.
// testdata/builds.txt has the checksums of the files that the images are made from, and of larger files,
// in which thousands of items find no room at home. The larger files cover P9.
func TestBuildIsWhatItWas(t *testing.T) {
	var sums strings.Builder
	add := func(name string, opts Options, keys iter.Seq2[[]byte, error]) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(buildGolden(t, opts, keys)), name)
	}
	for _, g := range goldenImages() {
		if g.change == nil {
			add(g.name, g.opts, sliceSeq(g.allKeys()))
		}
	}
	for _, s := range []shape{compact5, compact7, compact26, newShape(layout.Packed, 12, 4), newShape(layout.SemiSorted, 13, 4)} {
		add(s.String()+",large", s.options(Options{}), numbers(0, 200_000))
	}
	golden(t, "../testdata/builds.txt", []byte(sums.String()))
}

// vectors lists every number on the way from a key to the answer. For each reason of an answer, it does
// so for some keys of the image and some absent ones, and for every key that is only in the stash.
func vectors(f *Filter, keys [][]byte) []byte {
	var b strings.Builder
	b.WriteString("# key\thash\tline\tfingerprint\talternate line\toverflow bit\tanswer\twhy\n")
	keys = slices.CompactFunc(keys, bytes.Equal)
	for i := range 40_000 {
		keys = append(keys, fmt.Appendf(nil, "absent %d", i))
	}
	o := f.open.Load()
	t := o.table
	asked := map[string]int{}
	for _, key := range keys {
		h := f.Hash(key)
		own, ok := f.shard.Own(h)
		if !ok {
			if asked["other"]++; asked["other"] <= 50 {
				fmt.Fprintf(&b, "%q\t%016x\t0\t0x0\t0\t0\t%t\tanother shard\n", key, h, f.ContainsHash(h))
			}
			continue
		}
		it := t.Split(own)
		other := t.Alternate(it)
		var home, away layout.Line
		layout.Load(t, o.view.Region, it.Line, &home)
		layout.Load(t, o.view.Region, other.Line, &away)
		why := "slot of the home line"
		switch stashed := layout.StashCount(o.view.Stash, t.Class(it)) > 0; {
		case layout.Copies(t, home, it) > 0:
		case !layout.Overflowed(t, &home, it):
			why = "overflow bit not set"
		case layout.Copies(t, away, other) > 0:
			why = "slot of the alternate line"
		case stashed:
			why = "stash"
		default:
			why = "nowhere"
		}
		absent := bytes.HasPrefix(key, []byte("absent"))
		sort := fmt.Sprint(why, absent)
		limit := 50
		if !absent {
			limit = 250
		}
		if asked[sort]++; asked[sort] > limit && (absent || why != "stash") {
			continue
		}
		fmt.Fprintf(&b, "%q\t%016x\t%d\t%#x\t%d\t%d\t%t\t%s\n", key, h, it.Line, it.Fp, other.Line, overflowBit(t, it), f.ContainsHash(h), why)
	}
	return []byte(b.String())
}

// overflowBit returns 2^i, where i is the number of an item's overflow bit, or 0 if the layout has no
// overflow bits.
func overflowBit(t layout.Table, it layout.Item) uint64 {
	var marked layout.Line
	layouttest.SetOverflow(t, &marked, it)
	return marked[layout.BlockWords-1] >> 48
}

// golden compares got with a stored file, or stores it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(file)
	if os.IsNotExist(err) && *update {
		must(t, os.WriteFile(file, got, 0o666))
		return
	}
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code makes now", file)
	}
}
