package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// A sources lists where keys come from.
type sources struct {
	list  []source
	bytes int64        // in all sources; 0 if one has no known size
	read  atomic.Int64 // bytes read so far, before decompression
}

// A source is a file, standard input, or the command line.
type source struct {
	name    string
	stdin   io.Reader // nil for other sources
	keys    []string  // from the command line; nil for other sources
	regular bool      // reading does not wait for a writer
	info    fs.FileInfo
	err     error // why it cannot be read
}

// commandLine is the name of the source of the keys of -e.
const commandLine = "command line"

// findSources examines the named files. They come after the keys of the command line. A file that
// cannot be read becomes a source with an error, so that the caller decides when the error matters.
func findSources(keys, names []string, stdin io.Reader) (*sources, error) {
	s := new(sources)
	if len(keys) > 0 {
		s.list = append(s.list, source{name: commandLine, keys: keys})
	} else if len(names) == 0 {
		names = []string{"-"}
	}
	known, seen := true, false
	for _, name := range names {
		src := source{name: name}
		if name == "-" {
			if seen {
				return nil, errors.New("standard input is given twice")
			}
			seen = true
			src.name, src.stdin = "standard input", stdin
			if f, ok := stdin.(*os.File); ok {
				src.info, src.err = f.Stat()
			}
		} else {
			src.info, src.err = os.Stat(name)
		}
		if src.err != nil {
			src.err = &fileError{src.name, src.err}
		}
		if src.err == nil && src.info != nil {
			if src.info.IsDir() {
				src.err = fmt.Errorf("%s is a directory", src.name)
			}
			src.regular = src.info.Mode().IsRegular()
		}
		if src.regular {
			s.bytes += src.info.Size()
		} else if src.err == nil {
			known = false
		}
		s.list = append(s.list, src)
	}
	if !known {
		s.bytes = 0
	}
	return s, nil
}

// err returns the error of the first source that cannot be read.
func (s *sources) err() error {
	for _, src := range s.list {
		if src.err != nil {
			return src.err
		}
	}
	return nil
}

// excludes returns an error if the file at path is one of the sources.
func (s *sources) excludes(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil // no such file
	}
	for _, src := range s.list {
		if src.info != nil && os.SameFile(src.info, info) {
			return fmt.Errorf("%s is a file of keys and would be overwritten", path)
		}
	}
	return nil
}

// open opens a source, and counts the bytes read from it.
func (s *sources) open(ctx context.Context, src source) (io.ReadCloser, error) {
	if src.err != nil {
		return nil, src.err
	}
	if !src.regular {
		return s.count(interruptible(ctx, src)), nil
	}
	if src.stdin != nil {
		return s.count(io.NopCloser(src.stdin)), nil
	}
	f, err := os.Open(src.name)
	if err != nil {
		return nil, &fileError{src.name, err}
	}
	return s.count(f), nil
}

// interruptible reads a source that may block, until ctx ends. Nothing can interrupt the system
// call that blocks, so a goroutine is left waiting in the call. Opening a pipe may block in
// the same way.
func interruptible(ctx context.Context, src source) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })
	go func() {
		defer stop()
		if src.stdin != nil {
			_, err := io.Copy(w, src.stdin)
			w.CloseWithError(err)
			return
		}
		f, err := os.Open(src.name)
		if err == nil {
			_, err = io.Copy(w, f)
			f.Close()
		}
		w.CloseWithError(err)
	}()
	return r
}

func (s *sources) count(r io.ReadCloser) io.ReadCloser { return &counted{r, &s.read} }

// A counted counts the bytes read from it.
type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
