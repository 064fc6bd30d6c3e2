package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// bufferBytes is how much is read from a file at a time.
const bufferBytes = 256 << 10

// packings lists the compressed formats. The first bytes of a file, under a mask, tell its format.
var packings = []struct {
	magic, mask string
	open        func(*bufio.Reader) (io.ReadCloser, error)
}{
	{"\x1f\x8b", "\xff\xff", openGzip},
	{"\x28\xb5\x2f\xfd", "\xff\xff\xff\xff", openZstd},
	// A Zstandard file may begin with a skippable frame.
	{"\x50\x2a\x4d\x18", "\xf0\xff\xff\xff", openZstd},
}

// decompress returns the contents of r, decompressed if the first bytes are those of a compressed
// file. Reading to the end of truncated compressed data returns an error.
func decompress(r io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(r, bufferBytes)
	for _, p := range packings {
		if found, err := startsWith(buffered, p.magic, p.mask); err != nil {
			return nil, err
		} else if found {
			return p.open(buffered)
		}
	}
	return io.NopCloser(buffered), nil
}

// startsWith reads no more bytes than it needs for the answer, since a user who types keys may
// not have typed more yet.
func startsWith(r *bufio.Reader, magic, mask string) (bool, error) {
	for i := range len(magic) {
		head, err := r.Peek(i + 1)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if head[i]&mask[i] != magic[i] {
			return false, nil
		}
	}
	return true, nil
}

// A gzipReader reads the members of a gzip file one after another. gzip.Reader could do this,
// but if a file ends inside the name in the header of a later member, gzip.Reader reports no error,
// as if the file ended before that member.
type gzipReader struct {
	file   *bufio.Reader
	member *gzip.Reader
}

func openGzip(file *bufio.Reader) (io.ReadCloser, error) {
	member, err := gzip.NewReader(file)
	if err != nil {
		return nil, gzipError(err)
	}
	member.Multistream(false)
	return &gzipReader{file, member}, nil
}

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.member.Read(p)
		if err != nil && err != io.EOF {
			return n, gzipError(err)
		}
		if n > 0 || err == nil {
			return n, nil
		}
		if _, err := g.file.Peek(1); err != nil {
			return 0, err // io.EOF after the last member
		}
		if err := g.member.Reset(g.file); err != nil {
			return 0, gzipError(err)
		}
		g.member.Multistream(false)
	}
}

func (g *gzipReader) Close() error { return g.member.Close() }

func gzipError(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("gzip data: %w", err)
}

// A zstdReader is a Decoder that is an io.Closer and names the format in its errors.
type zstdReader struct{ frames *zstd.Decoder }

func openZstd(file *bufio.Reader) (io.ReadCloser, error) {
	frames, err := zstd.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("zstd data: %w", err)
	}
	return &zstdReader{frames}, nil
}

func (z *zstdReader) Read(p []byte) (int, error) {
	n, err := z.frames.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("zstd data: %w", err)
	}
	return n, err
}

func (z *zstdReader) Close() error {
	z.frames.Close()
	return nil
}
