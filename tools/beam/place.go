package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A place is where the files of a set go.
type place interface {
	// build builds a shard. It may be called again, and by several workers at once.
	build(ctx context.Context, p *sets.Plan, shard int, w sets.Work, hashes iter.Seq2[[]uint64, error]) (*sets.Built, error)
	// assemble checks that the shards are there, and writes the manifest.
	assemble(ctx context.Context, p *sets.Plan, read uint64, built []*sets.Built, name string) (*sets.Summary, error)
}

func placeOf(dir string) place {
	if isURL(dir) {
		return store(dir)
	}
	return directory(dir)
}

// A directory is on a disk that all workers share, or on the disk of the only worker.
type directory string

func (d directory) build(ctx context.Context, p *sets.Plan, shard int, w sets.Work, hashes iter.Seq2[[]uint64, error]) (*sets.Built, error) {
	if err := os.MkdirAll(string(d), 0o777); err != nil {
		return nil, err
	}
	return sets.BuildShardFrom(ctx, p, shard, string(d), w, hashes)
}

func (d directory) assemble(ctx context.Context, p *sets.Plan, read uint64, built []*sets.Built, name string) (*sets.Summary, error) {
	return sets.AssembleFrom(ctx, p, read, built, string(d), filepath.Join(string(d), name), false, sets.Work{})
}

// A store is a filesystem of Beam, such as gs://. A shard is built on the disk of the worker, and
// copied. The store must show a file under its name only once the file is complete, as Google's and
// Amazon's stores do.
type store string

func (s store) url(name string) string { return string(s) + "/" + name }

func (s store) build(ctx context.Context, p *sets.Plan, shard int, w sets.Work, hashes iter.Seq2[[]uint64, error]) (b *sets.Built, err error) {
	dir, err := os.MkdirTemp("", "mmapfilter-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if b, err = sets.BuildShardFrom(ctx, p, shard, dir, w, hashes); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, b.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return b, s.write(ctx, b.File, f)
}

// write copies a file to the store. The store does not keep an incomplete file, since the context of
// its writer ends before the writer is closed.
func (s store) write(ctx context.Context, name string, from io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fsys, err := filesystem.New(ctx, string(s))
	if err != nil {
		return err
	}
	defer fsys.Close()
	to, err := fsys.OpenWrite(ctx, s.url(name))
	if err != nil {
		return fmt.Errorf("%s: %w", s.url(name), err)
	}
	if _, err = io.Copy(to, from); err != nil {
		cancel()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("%s: %w", s.url(name), err)
	}
	return nil
}

func (s store) assemble(ctx context.Context, p *sets.Plan, read uint64, built []*sets.Built, name string) (*sets.Summary, error) {
	fsys, err := filesystem.New(ctx, string(s))
	if err != nil {
		return nil, err
	}
	defer fsys.Close()
	manifest, summary, err := sets.EncodeManifest(ctx, p, read, built, func(name string) (*layout.Superblock, int64, error) {
		sb, size, err := head(ctx, fsys, s.url(name))
		if err != nil {
			err = fmt.Errorf("%s: %w", s.url(name), err)
		}
		return sb, size, err
	})
	if err != nil {
		return nil, err
	}
	return summary, s.write(ctx, name, bytes.NewReader(manifest))
}

// head returns the superblock of a file and its size.
func head(ctx context.Context, fsys filesystem.Interface, url string) (*layout.Superblock, int64, error) {
	size, err := fsys.Size(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	file, err := fsys.OpenRead(ctx, url)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	text := make([]byte, layout.OffRuntime)
	if _, err := io.ReadFull(file, text); err != nil {
		return nil, 0, err
	}
	_, sb, _, err := layout.Newest(text)
	return sb, size, err
}
