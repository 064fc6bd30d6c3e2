package sets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Snapshot writes a sealed copy of the set: a snapshot of each shard, in the directory of path (see
// [mmapfilter.Filter.Snapshot]), and then a manifest at path, which names the snapshots. Operations go
// on meanwhile, so each snapshot shows its shard at a different instant. The shards get new names each
// time. If a manifest is replaced, its shards stay (see [Superseded]).
//
// If Snapshot fails, it removes the snapshots, and what is at path stays as it was; but after a
// [*mmapfilter.CompleteError] of the manifest, the new set stays. Errors include fs.ErrExist if the
// manifest of the set itself is at path; a [*mmapfilter.ForeignError] if the file at path is not a
// manifest; and errors of a shard, as a [*ShardError].
func (s *Set) Snapshot(ctx context.Context, path string) error {
	if err := s.snapshot(ctx, path); err != nil {
		return about("snapshot", path, err)
	}
	return nil
}

func (s *Set) snapshot(ctx context.Context, path string) (err error) {
	st := s.state.Load()
	if st == nil {
		return s.Err()
	}
	if is, err := os.Stat(path); err == nil && os.SameFile(is, st.info) {
		return &fs.PathError{Op: "snapshot", Path: path, Err: fs.ErrExist}
	}
	if err := osfile.Replaceable(path, begins(manifestFormat)); err != nil {
		return err
	}
	m := *st.manifest
	m.Plan, m.Keys, m.Shards = "", 0, make([]entry, len(st.shards)) // the shards may have been written to since they were built by the plan
	dir := filepath.Dir(path)
	var made []string
	writing := false // the manifest
	defer func() {
		if err == nil || writing && errors.As(err, new(*osfile.CompleteError)) {
			return // there is a manifest that names them
		}
		for _, path := range made {
			if e := os.Remove(path); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}()
	for i, sh := range st.shards {
		name := fmt.Sprintf("shard-%05d-of-%05d-%016x.mmf", i, len(st.shards), rand.Uint64())
		copied := filepath.Join(dir, name)
		made = append(made, copied)
		f := sh.get()
		if bridge.Of(f).Waits() {
			return sh.failure()
		}
		if _, err := f.Snapshot(ctx, copied); err != nil {
			return sh.failed(err)
		}
		sb, size, err := readShard(copied, i)
		if err != nil {
			return err
		}
		m.Shards[i] = entry{File: name, Identity: st.manifest.Shards[i].Identity, Keys: sb.Length(), Bytes: size}
		m.Keys += sb.Length()
	}
	for _, copied := range made { // no manifest has named them yet, so a cleanup of the directory may have removed them
		if _, err := os.Stat(copied); err != nil {
			return err
		}
	}
	data, err := encodeManifest(path, &m)
	if err != nil {
		return err
	}
	writing = true
	return osfile.WriteFile(path, begins(manifestFormat), data)
}
