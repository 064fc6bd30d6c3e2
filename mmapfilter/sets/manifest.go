package sets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A manifest is the file that names the shards of a set (S1), NAME.set. It is JSON, and its last member
// is the CRC32C of all that comes before that member, from the first byte of the file up to the line
// feed that ends the line above it:
//
//	{
//	  "format": "mmapfilter set",
//	  "version": 1,
//	  "plan": "52f7c9b54a8e8b2c61a39c93b4f3a7d0",
//	  "seed": "6d6d617066696c74",
//	  "normalisation": "",
//	  "keys": 2000000,
//	  "capacity": 2000000,
//	  "rate": 0.01,
//	  "shards": [
//	    {"file":"shard-00000-of-00002-8c1f0a6be6a1d3f5.mmf","identity":"8c1f0a6be6a1d3f5","keys":1000433,"bytes":1314816},
//	    {"file":"shard-00001-of-00002-27b40e8ac96e01d3.mmf","identity":"27b40e8ac96e01d3","keys":999567,"bytes":1314816}
//	  ],
//	  "crc32c": "1c291ca3"
//	}
//
//	plan      the ID of the plan by which the shards were built, 32 hex digits; or empty
//	seed      of the hash, 16 hex digits, as in every shard
//	keys      items of all shards when the manifest was written; in the list, of one shard
//	capacity  keys that the set is sized for
//	rate      requested false-positive rate
//	file      path of a shard, relative to the directory of the manifest, with slashes
//	identity  the number that the shard got when it was built (see layout.Superblock), 16 hex digits
//
// The number of shards is the length of the list, and the number of a shard is its index in the list. A
// program ignores members that it does not know. A new member that programs must know raises the
// version.
type manifest struct {
	Format        string  `json:"format"`
	Version       int     `json:"version"`
	Plan          string  `json:"plan"`
	Seed          Hex     `json:"seed"`
	Normalisation string  `json:"normalisation"`
	Keys          uint64  `json:"keys"`
	Capacity      uint64  `json:"capacity"`
	Rate          float64 `json:"rate"`
	Shards        []entry `json:"shards"`
}

// An entry names a file.
type entry struct {
	File     string `json:"file"`
	Identity Hex    `json:"identity"`
	Keys     uint64 `json:"keys"`
	Bytes    int64  `json:"bytes"`
}

// A Hex is a number that is written as 16 hex digits.
type Hex uint64

func (h Hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

func (h *Hex) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("%q is not 16 hex digits", text)
	}
	*h = Hex(n)
	return nil
}

const (
	manifestFormat  = "mmapfilter set"
	manifestVersion = 1
	// maxShards bounds the number of shards: each costs memory in every process that opens the set.
	maxShards = 1 << 20
	// maxManifest bounds the size of a manifest that is read: 512 bytes for each of maxShards, a few
	// times what a shard takes unless paths are long. With a lower bound, a large set could not be
	// opened; with a much higher bound, parsing a file that is no manifest could take all memory.
	maxManifest    = 512 << 20
	manifestRegion = "manifest" // the region that a CorruptError names
)

// encode returns the bytes of the file.
func (m *manifest) encode() []byte {
	m.Format, m.Version = manifestFormat, manifestVersion
	var b bytes.Buffer
	head := *m
	head.Shards = nil
	text, err := json.MarshalIndent(&head, "", "  ")
	if err != nil {
		panic(err) // every field can be encoded
	}
	b.Write(bytes.TrimSuffix(text, []byte("null\n}")))
	b.WriteString("[\n")
	for i := range m.Shards {
		line, err := json.Marshal(&m.Shards[i])
		if err != nil {
			panic(err)
		}
		b.WriteString("    ")
		b.Write(line)
		if i < len(m.Shards)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("  ],\n")
	return sign(b.Bytes())
}

// decodeManifest checks the bytes of a file against S1. Its errors are a *layout.CorruptError and a
// *layout.VersionError.
func decodeManifest(data []byte) (*manifest, error) {
	bad := func(off int, text string, args ...any) error {
		return &layout.CorruptError{Region: manifestRegion, Offset: int64(off), Rule: "S1", What: fmt.Sprintf(text, args...)}
	}
	if len(data) > maxManifest {
		return nil, bad(0, "not a manifest: it has %d bytes", len(data))
	}
	body, intact, err := unsign(data, manifestFormat)
	switch {
	case err != nil:
		return nil, err
	case body == nil:
		return nil, bad(0, "not a manifest, or not all of one")
	case !intact:
		return nil, bad(len(body), "the checksum is not that of the text before it: somebody has changed the file")
	}
	m := new(manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, bad(0, "%v", err)
	}
	if len(m.Shards) == 0 || len(m.Shards) > maxShards || m.Version < 1 {
		return nil, bad(0, "version %d with %d shards", m.Version, len(m.Shards))
	}
	if m.Rate <= 0 || m.Rate >= 1 {
		return nil, bad(0, "the rate %v is not between 0 and 1", m.Rate)
	}
	seen := make(map[string]int, len(m.Shards))
	for i, s := range m.Shards {
		if s.File == "" || filepath.IsAbs(filepath.FromSlash(s.File)) {
			return nil, bad(0, "shard %d has the path %q, which is not relative", i, s.File)
		}
		if j, twice := seen[s.File]; twice {
			return nil, bad(0, "shards %d and %d have the same file, %s", j, i, s.File)
		}
		seen[s.File] = i
	}
	return m, nil
}
