package sets

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/crc32"
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestEncodeManifest checks that EncodeManifest returns the manifest that AssembleFrom writes, and
// refuses the same sets.
func TestEncodeManifest(t *testing.T) {
	for _, o := range []mmapfilter.Options{
		{Capacity: 1000, FalsePositiveRate: 1e-4},
		{Capacity: 1000, Layout: layout.Packed, FingerprintBits: 20, Distinct: true},
		{},
	} {
		const shards, n = 3, 1000
		dir, p := t.TempDir(), mustPlan(t, o, shards)
		var hashes [shards][]uint64
		for key := range numbers(0, n) {
			h := p.Hash(key)
			i := ShardOf(h, shards)
			hashes[i] = append(hashes[i], h)
		}
		build := func(dir string) []*Built {
			built := make([]*Built, shards)
			for i := range built {
				var blocks iter.Seq2[[]uint64, error] = func(yield func([]uint64, error) bool) { yield(hashes[i], nil) }
				b, err := BuildShardFrom(background, p, i, dir, Work{}, blocks)
				must(t, err)
				built[i] = b
			}
			return built
		}
		built := build(dir)
		head := func(file string) (*layout.Superblock, int64, error) { return readShard(filepath.Join(dir, file), 0) }

		path := filepath.Join(dir, "x.set")
		_, err := AssembleFrom(background, p, n, built, dir, path, true, Work{})
		must(t, err)
		want, err := os.ReadFile(path)
		must(t, err)
		got, s, err := EncodeManifest(background, p, n, built, head)
		if err != nil || !bytes.Equal(got, want) || s.Keys != n {
			t.Errorf("%+v, %v, and this manifest:\n%s\nwant:\n%s", s, err, got, want)
		}

		hashes[1] = hashes[1][1:]
		other := build(t.TempDir()) // not in dir
		nowhere, another := *built[1], *built[1]
		nowhere.File = "none"
		another.Identity++
		for name, c := range map[string]struct {
			read  uint64
			built []*Built
		}{
			"a key too many":  {n + 1, built},
			"a shard missing": {n, built[:2]},
			"none built":      {n, []*Built{built[0], nil, built[2]}},
			"out of order":    {n, []*Built{built[1], built[0], built[2]}},
			"a key lost":      {n, []*Built{built[0], other[1], built[2]}},
			"another file":    {n - 1, []*Built{built[0], {builtFormat, 1, p.ID(), 1, built[1].File, other[1].Identity, other[1].Read, other[1].Keys, other[1].Bytes, 0, false}, built[2]}},
			"another build":   {n, []*Built{built[0], &another, built[2]}},
			"no file":         {n, []*Built{built[0], &nowhere, built[2]}},
		} {
			if data, _, err := EncodeManifest(background, p, c.read, c.built, head); err == nil || data != nil {
				t.Errorf("%s: no error", name)
			}
			path := filepath.Join(dir, "other.set")
			if _, err := AssembleFrom(background, p, c.read, c.built, dir, path, false, Work{}); err == nil {
				t.Errorf("%s: AssembleFrom has no error", name)
			}
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s: AssembleFrom has written a manifest", name)
			}
		}
	}
}

func sample() *manifest {
	return &manifest{Plan: "52f7c9b54a8e8b2c61a39c93b4f3a7d0", Seed: 5, Normalisation: "hex\n\"\u00e9", Keys: 7, Capacity: 9, Rate: 0.01,
		Shards: []entry{{"a.mmf", 1, 3, 4096}, {"b/c.mmf", 1<<64 - 1, 4, 8192}}}
}

// TestManifestRoundTrip: decoding an encoded manifest gives the same manifest.
func TestManifestRoundTrip(t *testing.T) {
	m := sample()
	got, err := decodeManifest(m.encode())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("%v, %v, want %v", got, err, m)
	}
}

// signed replaces the last member of a text with the right checksum.
func signed(text []byte) []byte {
	end := max(len(text)-len(fmt.Sprintf(checkLine, 0)), 0)
	return fmt.Appendf(bytes.Clone(text[:end]), checkLine, crc32.Checksum(text[:end], castagnoli))
}

// FuzzManifest: no text causes a panic. A text is refused with a typed error, or it names shards that
// can be opened.
func FuzzManifest(f *testing.F) {
	f.Add(sample().encode())
	f.Add([]byte(`{"format": "mmapfilter set", "version": 2}`))
	one := sample()
	one.Shards = one.Shards[:1]
	f.Add(one.encode())
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, data := range [][]byte{text, signed(text)} {
			m, err := decodeManifest(data)
			if err != nil {
				if !errors.Is(err, layout.ErrCorrupt) && !errors.Is(err, layout.ErrVersion) {
					t.Errorf("%v", err)
				}
				continue
			}
			seen := map[string]bool{}
			for _, s := range m.Shards {
				if s.File == "" || s.File[0] == '/' || seen[s.File] {
					t.Errorf("a shard has the path %q", s.File)
				}
				seen[s.File] = true
			}
		}
	})
}
