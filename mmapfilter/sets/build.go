package sets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	slashed "path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Work says how to build. Its fields are as in [mmapfilter.Options].
type Work struct {
	Mode         fs.FileMode // of the shards; the manifest, which has no keys, gets 0666 less the umask
	MemoryBudget int64
	Workers      int
	Progress     func(stage string, done, total uint64)
	MinKeys      uint64 // the fewest items of a whole set; ignored for a single shard
}

// A Built says that a shard has been built. It is a file beside the shard.
type Built struct {
	Format   string `json:"format"`
	Version  int    `json:"version"`
	Plan     string `json:"plan"`
	Shard    int    `json:"shard"`
	File     string `json:"file"`
	Identity Hex    `json:"identity"` // of the shard
	Read     uint64 `json:"read"`     // hashes
	Keys     uint64 `json:"keys"`     // in the file; with Distinct, all other hashes that were read are duplicates
	Bytes    int64  `json:"bytes"`
	Tasks    Hex    `json:"tasks"` // a hash of the receipts of all tasks

	found bool // the file existed before the build
}

const builtFormat = "mmapfilter shard"

// builtPath returns the path of the Built of a shard.
func (p *Plan) builtPath(dir string, shard int) string {
	return filepath.Join(dir, fmt.Sprintf("shard-%05d-of-%05d-%s.built", shard, p.Shards, p.ID()[:8]))
}

// BuildShard builds a shard in the directory out, from the spools of all tasks. It may be repeated,
// even by several machines at once, since the file depends only on the plan and the keys.
func BuildShard(ctx context.Context, p *Plan, shard int, spool, out string, w Work) (*Built, error) {
	tasks, err := readTasks(p, spool)
	if err != nil {
		return nil, err
	}
	b, err := buildShard(ctx, p, shard, tasks, out, w)
	if err != nil {
		return nil, err
	}
	return b, osfile.WriteFile(p.builtPath(out, shard), begins(builtFormat), sign(encode(b)))
}

// buildShard builds a shard from the spools of tasks. It writes no Built.
func buildShard(ctx context.Context, p *Plan, shard int, tasks []task, out string, w Work) (*Built, error) {
	var failed error
	b, err := BuildShardFrom(ctx, p, shard, out, w, func(yield func([]uint64, error) bool) {
		for _, t := range tasks {
			for hashes, err := range t.blocks(p, shard) {
				if failed = err; !yield(hashes, err) || err != nil {
					return
				}
			}
		}
	})
	if failed != nil {
		return nil, failed // names the file
	}
	if err != nil {
		return nil, err
	}
	b.Tasks = allTasks(tasks)
	return b, nil
}

// readBuilt reads the Built of a shard.
func readBuilt(p *Plan, out string, shard int) (*Built, error) {
	path, b := p.builtPath(out, shard), new(Built)
	_, err := readSigned(path, builtFormat, b)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{path, fmt.Sprintf("missing: shard %d has not been built", shard)}
	}
	if err != nil {
		return nil, err
	}
	if b.Plan != p.ID() || b.Shard != shard {
		return nil, &FileError{path, fmt.Sprintf("of shard %d of plan %s, not of shard %d of plan %s", b.Shard, b.Plan, shard, p.ID())}
	}
	return b, nil
}

// A Summary says what a set has.
type Summary struct {
	Shards     int
	Read       uint64 // keys that the tasks read
	Keys       uint64 // items in the files
	Duplicates uint64 // Read less Keys
	Bytes      int64  // of all files
}

// Assemble writes the manifest of a set, once it has proved that nothing is missing: every shard was
// built from the spools of exactly the tasks that are in spool now, the shards have read as many hashes
// as the tasks have spooled, and all files exist and are the files that were built. With verify,
// Assemble also reads all files and compares their checksums. It writes nothing if the proof fails, if
// the set would have fewer than w.MinKeys items, if another set has one of the shards (S3), or if the
// path has a file that is neither a manifest nor empty (a [*mmapfilter.ForeignError]). Assemble uses
// only MinKeys and Progress of w; the stage is "verify".
func Assemble(ctx context.Context, p *Plan, spool, out, path string, verify bool, w Work) (*Summary, error) {
	tasks, err := readTasks(p, spool)
	if err != nil {
		return nil, err
	}
	read := uint64(0)
	for _, t := range tasks {
		f, _, err := t.open()
		if err != nil {
			return nil, err
		}
		f.Close()
		read += t.Keys
	}
	all := allTasks(tasks)
	built := make([]*Built, p.Shards)
	for i := range built {
		if built[i], err = readBuilt(p, out, i); err != nil {
			return nil, err
		}
		if built[i].Tasks != all {
			return nil, &FileError{p.builtPath(out, i), fmt.Sprintf("the shard was built from other tasks than the %d in %s; build it again", len(tasks), spool)}
		}
	}
	return AssembleFrom(ctx, p, read, built, out, path, verify, w)
}

// AssembleFrom writes the manifest of a set whose shards have been built by [BuildShardFrom]. read is
// the number of keys of all shards, before Distinct leaves out duplicates.
func AssembleFrom(ctx context.Context, p *Plan, read uint64, built []*Built, out, path string, verify bool, w Work) (*Summary, error) {
	from, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	below, err := filepath.Rel(from, absolute)
	if err != nil {
		return nil, err
	}
	h := home{dir: out, head: readShard, verify: verify, progress: w.Progress}
	m, s, err := h.prove(ctx, p, read, built, below)
	if err != nil {
		return nil, err
	}
	if s.Keys < w.MinKeys {
		return nil, fmt.Errorf("%w: %d, but there must be at least %d", mmapfilter.ErrFewKeys, s.Keys, w.MinKeys)
	}
	data, err := encodeManifest(path, m)
	if err != nil {
		return nil, err
	}
	// A process that built a shard may have died before it made the name durable.
	if err := osfile.SyncDir(out); err != nil {
		return nil, err
	}
	return s, publish(out, path, data, built)
}

// publish puts a manifest at a path, unless another manifest names one of the shards, too: a change of
// one set would change the other (S3). If such a manifest appears at the same time, publish removes its
// own again, or restores the one that it has replaced.
func publish(dir, path string, data []byte, built []*Built) error {
	if err := unshared(dir, path, built); err != nil {
		return err
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := osfile.WriteFile(path, begins(manifestFormat), data); err != nil {
		return err
	}
	err = unshared(dir, path, built)
	switch {
	case err == nil:
		return nil
	case before == nil:
		return errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, osfile.WriteFile(path, begins(manifestFormat), before))
}

func unshared(dir, path string, built []*Built) error {
	ours := make(map[string]bool)
	for _, b := range built {
		ours[b.File] = true
	}
	all, err := others(dir, path)
	if err != nil {
		return err
	}
	for file, m := range all {
		for _, s := range m.Shards {
			if name := slashed.Base(s.File); ours[name] {
				return &FileError{file, fmt.Sprintf("it has %s, too, and two sets cannot share a file; build the sets in different directories", name)}
			}
		}
	}
	return nil
}

// encodeManifest returns the bytes of a manifest, and checks that decoding gives the same manifest,
// since JSON cannot hold every path.
func encodeManifest(path string, m *manifest) ([]byte, error) {
	data := m.encode()
	read, err := decodeManifest(data)
	if err == nil && !slices.Equal(read.Shards, m.Shards) {
		err = errors.New("a shard has a path that JSON cannot represent")
	}
	if err != nil {
		return nil, &FileError{path, err.Error()}
	}
	return data, nil
}

// EncodeManifest returns what [AssembleFrom] would write if the shards and the manifest were in one
// directory. It is for storage that is no file system; head returns the superblock and the size of a
// file there. Several goroutines may call head at once.
func EncodeManifest(ctx context.Context, p *Plan, read uint64, built []*Built, head func(file string) (*layout.Superblock, int64, error)) ([]byte, *Summary, error) {
	h := home{head: func(file string, _ int) (*layout.Superblock, int64, error) { return head(file) }}
	m, s, err := h.prove(ctx, p, read, built, ".")
	if err != nil {
		return nil, nil, err
	}
	data, err := encodeManifest("the manifest", m)
	if err != nil {
		return nil, nil, err
	}
	return data, s, nil
}

// A home is where the files of the shards are.
type home struct {
	dir      string
	head     func(path string, number int) (*layout.Superblock, int64, error)
	verify   bool // each byte
	progress func(stage string, done, total uint64)
}

// prove proves that nothing is missing, and returns the manifest of the shards. below is the path from
// the directory of the manifest to the directory of the shards.
func (h *home) prove(ctx context.Context, p *Plan, read uint64, built []*Built, below string) (*manifest, *Summary, error) {
	s := &Summary{Shards: p.Shards}
	m := &manifest{Plan: p.ID(), Seed: p.Seed, Normalisation: p.Normalisation, Capacity: p.Keys, Rate: p.FalsePositiveRate}
	if len(built) != p.Shards {
		return nil, nil, fmt.Errorf("%d shards of %d have been built", len(built), p.Shards)
	}
	for i, b := range built {
		if b == nil || b.Plan != p.ID() || b.Shard != i {
			return nil, nil, fmt.Errorf("shard %d has not been built by plan %s", i, p.ID())
		}
		if !p.Distinct && b.Read != b.Keys {
			return nil, nil, &FileError{filepath.Join(h.dir, b.File), fmt.Sprintf("%d hashes were read, but it has %d keys", b.Read, b.Keys)}
		}
		s.Read += b.Read
		s.Keys += b.Keys
		s.Bytes += b.Bytes
		m.Shards = append(m.Shards, entry{File: filepath.ToSlash(filepath.Join(below, b.File)), Identity: b.Identity, Keys: b.Keys, Bytes: b.Bytes})
	}
	if s.Read != read {
		return nil, nil, fmt.Errorf("%d keys were spooled, but %d were read from the spools", read, s.Read)
	}
	s.Duplicates = s.Read - s.Keys
	if m.Keys = s.Keys; p.Keys == 0 {
		m.Capacity = s.Keys
	}
	if err := h.check(ctx, p, built, s.Bytes); err != nil {
		return nil, nil, err
	}
	if p.FingerprintBits != 0 { // the rate follows from the bits
		sb, _, err := h.head(filepath.Join(h.dir, built[0].File), 0)
		if err != nil {
			return nil, nil, err
		}
		m.Rate = sb.TargetRate()
	}
	return m, s, nil
}

// check checks that the files, of total bytes, are the files that were built.
func (h *home) check(ctx context.Context, p *Plan, built []*Built, total int64) error {
	var mu sync.Mutex
	var done int64
	return build.Parallel(ctx, runtime.GOMAXPROCS(0), len(built), nil, func(ctx context.Context, _, i int) error {
		if err := h.checkShard(ctx, p, built[i]); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if done += built[i].Bytes; h.progress != nil {
			h.progress("verify", uint64(done), uint64(total))
		}
		return nil
	})
}

func (h *home) checkShard(ctx context.Context, p *Plan, b *Built) error {
	path := filepath.Join(h.dir, b.File)
	sb, size, err := h.head(path, b.Shard)
	if err != nil {
		return err
	}
	if (sb.Shard() != layout.Shard{Number: uint32(b.Shard), Count: uint32(p.Shards)}) || sb.ShardIdentity() != uint64(b.Identity) ||
		sb.Seed() != uint64(p.Seed) || sb.Length() != b.Keys || size != b.Bytes || sb.State() != layout.Sealed {
		return &FileError{path, fmt.Sprintf("not the file that was built as shard %d", b.Shard)}
	}
	if h.verify {
		if _, err := mmapfilter.Verify(ctx, path); err != nil {
			return ofShard(path, b.Shard, err)
		}
	}
	return nil
}

// readShard returns the superblock and the size of the file of a shard.
func readShard(path string, number int) (*layout.Superblock, int64, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, 0, ofShard(path, number, err)
	}
	return head.Superblock, head.Size, f.Close()
}

// ofShard turns an error into an error about the file of a shard.
func ofShard(path string, number int, err error) error {
	damage := new(mmapfilter.CorruptError)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &FileError{path, fmt.Sprintf("missing: the file of shard %d", number)}
	case errors.As(err, &damage):
		return &FileError{path, fmt.Sprintf("shard %d is damaged at offset %d (%s: %s); build it again", number, damage.Offset, damage.Rule, damage.What)}
	}
	return fmt.Errorf("shard %d: %s: %w", number, path, err)
}

// Build builds a whole set on one machine: the files in the directory of path, and the manifest at
// path. The keys are read once. The hashes go to a temporary file beside path, with 8 bytes each. If
// this process is killed, the next Build removes this file. An error of the sequence is returned
// unchanged.
//
// If Build fails, it removes the shards that it has built, unless another set has them, too. If the
// directory has a set of the same plan under another name, the error is a [*FileError] (S3). Other
// errors are those of [Assemble].
func Build(ctx context.Context, path string, p *Plan, w Work, keys iter.Seq2[[]byte, error]) (*Summary, error) {
	const task = "all"
	if err := osfile.Replaceable(path, begins(manifestFormat)); err != nil {
		return nil, err
	}
	all, err := others(filepath.Dir(path), path)
	if err != nil {
		return nil, err
	}
	for file, m := range all {
		if m.Plan == p.ID() {
			return nil, &FileError{file, "a set of the same plan, so its shards may be the same files; build the sets in different directories"}
		}
	}
	s, err := newSpool(p, path+spoolSuffix, "", task)
	if err != nil {
		return nil, err
	}
	built := make([]*Built, p.Shards)
	summary, err := buildAll(ctx, path, s, p, w, keys, built)
	if err != nil {
		err = errors.Join(err, removeBuilt(path, built))
	}
	return summary, errors.Join(err, s.Discard())
}

func buildAll(ctx context.Context, path string, s *Spool, p *Plan, w Work, keys iter.Seq2[[]byte, error], built []*Built) (*Summary, error) {
	report := w.Progress
	if report == nil {
		report = func(string, uint64, uint64) {}
	}
	if err := s.addAll(ctx, keys, func(done uint64) { report("hash", done, p.Keys) }); err != nil {
		return nil, err
	}
	r, err := s.finish()
	if err != nil {
		return nil, err
	}
	tasks := []task{{r, s.out.Name()}}
	dir := filepath.Dir(path)
	for i := range built {
		if built[i], err = buildShard(ctx, p, i, tasks, dir, Work{Mode: w.Mode, MemoryBudget: w.MemoryBudget, Workers: w.Workers}); err != nil {
			return nil, err
		}
		report("build", uint64(i+1), uint64(p.Shards))
	}
	return AssembleFrom(ctx, p, r.Keys, built, dir, path, false, Work{MinKeys: w.MinKeys})
}

// removeBuilt removes the shards that have been built, unless they were there before or a set has them.
func removeBuilt(path string, built []*Built) error {
	dir := filepath.Dir(path)
	left, err := Superseded(dir)
	if err != nil || !strings.HasSuffix(path, manifestSuffix) {
		return nil // a manifest that has not been read may name them
	}
	var errs []error
	for _, b := range built {
		if b == nil || b.found {
			continue
		}
		if at, ok := slices.BinarySearch(left, filepath.Join(dir, b.File)); ok {
			errs = append(errs, os.Remove(left[at]))
		}
	}
	return errors.Join(errs...)
}
