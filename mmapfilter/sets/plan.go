package sets

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/klauspost/crc32"
	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Plan fixes what all tasks of a set must agree on (S2). It is stored in a file, as JSON.
type Plan struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Shards  int    `json:"shards"`
	// Keys is the number of keys that the set is sized for. 0 means that each shard is sized for
	// the keys that it gets.
	Keys uint64 `json:"keys"`

	// As in [mmapfilter.Options].
	FalsePositiveRate float64 `json:"rate"`
	Layout            string  `json:"layout"`
	FingerprintBits   int     `json:"fingerprint_bits"`
	BucketSize        int     `json:"bucket_size"`
	Seed              Hex     `json:"seed"`
	Normalisation     string  `json:"normalisation"`
	Distinct          bool    `json:"distinct"`

	// Files is the size of each shard; nil if Keys is 0. A version of the program that would choose
	// another size refuses the plan.
	Files *Files `json:"files,omitempty"`

	id [16]byte
}

// Files is the size of the shards.
type Files struct {
	Capacity        uint64 `json:"capacity"` // keys
	Layout          string `json:"layout"`
	Quotients       int    `json:"quotients,omitempty"`
	RemainderBits   int    `json:"remainder_bits,omitempty"`
	FingerprintBits int    `json:"fingerprint_bits,omitempty"`
	BucketSize      int    `json:"bucket_size,omitempty"`
	Lines           uint64 `json:"lines"`
}

// Geometry returns the geometry of a shard.
func (f *Files) Geometry() (layout.Geometry, error) {
	kind, _ := layout.ParseKind(f.Layout)
	return layout.NewGeometry(kind, layout.Params{
		FingerprintBits: f.FingerprintBits, BucketSize: f.BucketSize, Quotients: f.Quotients, RemainderBits: f.RemainderBits,
	}, f.Lines)
}

const (
	planFormat  = "mmapfilter plan"
	planVersion = 1
	defaultRate = 0.01 // as in mmapfilter.Options
)

// NewPlan returns the plan for a set with a number of shards. [mmapfilter.Options.Capacity] counts the
// keys of the whole set. The plan leaves out options that do not change a file: Workers, MemoryBudget
// and Progress.
func NewPlan(o *mmapfilter.Options, shards int) (*Plan, error) {
	if shards < 1 || shards > maxShards {
		return nil, &mmapfilter.OptionError{Field: "Shards", Reason: fmt.Sprintf("%d is not between 1 and %d", shards, maxShards)}
	}
	if o.KeepHashes || o.AutoGrow {
		return nil, &mmapfilter.OptionError{Field: "KeepHashes", Reason: "not possible in a set"}
	}
	if o.ExpireAfter != 0 {
		return nil, &mmapfilter.OptionError{Field: "ExpireAfter", Reason: "not possible in a set, which keeps no hashes"}
	}
	if o.Mode != 0 {
		return nil, &mmapfilter.OptionError{Field: "Mode", Reason: "not part of a plan; set it in Work"}
	}
	if o.MinKeys != 0 {
		return nil, &mmapfilter.OptionError{Field: "MinKeys", Reason: "not part of a plan; set it in Work"}
	}
	if o.Overwrite {
		return nil, &mmapfilter.OptionError{Field: "Overwrite", Reason: "not possible in a set"}
	}
	p := &Plan{
		Format: planFormat, Version: planVersion, Shards: shards, Keys: o.Capacity,
		FalsePositiveRate: o.FalsePositiveRate, Layout: o.Layout.String(), FingerprintBits: o.FingerprintBits, BucketSize: o.BucketSize,
		Seed: Hex(o.Seed), Normalisation: o.Normalisation, Distinct: o.Distinct,
	}
	if p.FalsePositiveRate == 0 {
		p.FalsePositiveRate = defaultRate
	}
	if p.Seed == 0 {
		p.Seed = mmapfilter.DefaultSeed
	}
	files, err := p.files()
	if err != nil {
		return nil, err
	}
	p.Files = files
	p.id = identify(p.body())
	return p, nil
}

// Options returns the options of a shard.
func (p *Plan) Options() (*mmapfilter.Options, error) {
	kind, ok := layout.ParseKind(p.Layout)
	if !ok {
		return nil, &mmapfilter.OptionError{Field: "Layout", Reason: fmt.Sprintf("%q is unknown to this version", p.Layout)}
	}
	return &mmapfilter.Options{
		Capacity: p.capacity(), FalsePositiveRate: p.FalsePositiveRate, Layout: kind, FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize,
		Seed: uint64(p.Seed), Normalisation: p.Normalisation, Distinct: p.Distinct,
	}, nil
}

// files returns the size of the shards, or nil if it depends on the keys.
func (p *Plan) files() (*Files, error) {
	o, err := p.Options()
	if err != nil {
		return nil, err
	}
	plan, err := o.Plan()
	if err != nil || p.Keys == 0 {
		return nil, err
	}
	f := &Files{o.Capacity, plan.Layout.String(), plan.Quotients, plan.RemainderBits, plan.FingerprintBits, plan.BucketSize, plan.Lines}
	g, err := f.Geometry()
	if err == nil {
		err = g.CheckShard(layout.Shard{Count: uint32(p.Shards)})
	}
	if err != nil {
		return nil, &mmapfilter.OptionError{Field: "Shards", Reason: err.Error()}
	}
	return f, nil
}

// capacity returns the capacity of a shard. The keys fall into the shards at random. With m keys a
// shard on average, the standard deviation is √m, and one shard in a billion has more than m + 6·√m
// keys.
func (p *Plan) capacity() uint64 {
	if p.Keys == 0 || p.Shards == 1 {
		return p.Keys
	}
	mean := float64(p.Keys) / float64(p.Shards)
	// The conversion rounds the product. Otherwise some machines would multiply and add in one step,
	// and might find another capacity.
	return uint64(math.Ceil(mean + float64(6*math.Sqrt(mean))))
}

// ID returns the ID of the plan: 32 hex digits that are computed from its bytes.
func (p *Plan) ID() string { return hex.EncodeToString(p.id[:]) }

// hasher returns the hash function of the plan.
func (p *Plan) hasher() layout.Hasher { return layout.NewHasher(uint64(p.Seed)) }

// Hash returns the hash of a key. [ShardOf] says which shard has it.
func (p *Plan) Hash(key []byte) uint64 {
	h := p.hasher()
	return h.Hash(key)
}

// body returns the JSON form without its last line.
func (p *Plan) body() []byte { return encode(p) }

func identify(body []byte) [16]byte { return xxh3.Hash128(body).Bytes() }

// encode returns the JSON form of a small file, without its last member, the checksum.
func encode(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // every field can be encoded
	}
	return append(bytes.TrimSuffix(text, []byte("\n}")), ",\n"...)
}

// begins returns the bytes with which all files of a format begin.
func begins(format string) string { return fmt.Sprintf("{\n  \"format\": %q,\n", format) }

const checkLine = "  \"crc32c\": \"%08x\"\n}\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sign adds the checksum.
func sign(body []byte) []byte { return append(body, checksum(body)...) }

// checksum returns the last two lines of a file.
func checksum(body []byte) []byte {
	return fmt.Appendf(nil, checkLine, crc32.Checksum(body, castagnoli))
}

// readSigned reads a small file of a format into v.
func readSigned(path, format string, v any) (body []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decode(path, data, format, v)
}

// unsign returns the bytes of a small file before its checksum, or nil if the file does not have
// the format; and whether the checksum is right. The error is a *layout.VersionError.
func unsign(data []byte, format string) (body []byte, intact bool, err error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	end := len(data) - len(fmt.Sprintf(checkLine, 0))
	if err := json.Unmarshal(data, &head); end < 0 || err != nil || head.Format != format {
		return nil, false, nil
	}
	if head.Version > 1 {
		return nil, false, &layout.VersionError{Version: uint32(head.Version)}
	}
	return data[:end], bytes.Equal(data[end:], checksum(data[:end])), nil
}

// decode decodes the bytes of the file at path, a small file of a format, into v.
func decode(path string, data []byte, format string, v any) (body []byte, err error) {
	body, intact, err := unsign(data, format)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case body == nil:
		return nil, &FileError{path, fmt.Sprintf("not a file of the format %q, or not all of one", format)}
	case !intact:
		return nil, &FileError{path, "its checksum is wrong: somebody has changed the file"}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, &FileError{path, err.Error()}
	}
	return body, nil
}

// A FileError names a file of a set, a plan or a task that is missing, damaged or not the right one. It
// matches [mmapfilter.ErrCorrupt].
type FileError struct{ Path, Reason string }

func (e *FileError) Error() string { return e.Path + ": " + e.Reason }
func (e *FileError) Unwrap() error { return mmapfilter.ErrCorrupt }

// Write writes the plan to a file. If the path has a file that is neither a plan nor empty, the
// error is a [*mmapfilter.ForeignError].
func (p *Plan) Write(path string) error {
	return osfile.WriteFile(path, begins(planFormat), sign(p.body()))
}

// ReadPlan reads a plan, and checks that this program would build files of the size that the plan
// names.
func ReadPlan(path string) (*Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return DecodePlan(path, data)
}

// DecodePlan is [ReadPlan] for a program that already has the bytes of the file. The path is for its
// errors.
func DecodePlan(path string, data []byte) (*Plan, error) {
	p := new(Plan)
	body, err := decode(path, data, planFormat, p)
	if err != nil {
		return nil, err
	}
	p.id = identify(body)
	if p.Shards < 1 || p.Shards > maxShards {
		return nil, &FileError{path, fmt.Sprintf("%d shards are not between 1 and %d", p.Shards, maxShards)}
	}
	files, err := p.files()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if (files == nil) != (p.Files == nil) || files != nil && *files != *p.Files {
		return nil, &FileError{path, fmt.Sprintf("this program would build other files than the program that wrote the plan: %+v, not %+v", files, p.Files)}
	}
	return p, nil
}
