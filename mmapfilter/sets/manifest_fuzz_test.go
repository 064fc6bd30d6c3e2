package sets

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/klauspost/crc32"

	"github.com/mmapfilter/mmapfilter/layout"
)

func sample() *manifest {
	return &manifest{Plan: "52f7c9b54a8e8b2c61a39c93b4f3a7d0", Seed: 5, Normalisation: "hex\n\"\u00e9", Keys: 7, Capacity: 9, Rate: 0.01,
		Shards: []entry{{"a.mmf", 1, 3, 4096}, {"b/c.mmf", 1<<64 - 1, 4, 8192}}}
}

// TestManifestRoundTrip: what was encoded is decoded.
func TestManifestRoundTrip(t *testing.T) {
	m := sample()
	got, err := decodeManifest(m.encode())
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("%v, %v, want %v", got, err, m)
	}
}

// signed replaces the last member of a text by the right one.
func signed(text []byte) []byte {
	end := max(len(text)-len(fmt.Sprintf(checkLine, 0)), 0)
	return fmt.Appendf(bytes.Clone(text[:end]), checkLine, crc32.Checksum(text[:end], castagnoli))
}

// FuzzManifest: no text causes a panic; one that is refused is so with a typed error; and one that is
// accepted names shards that can be opened.
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
