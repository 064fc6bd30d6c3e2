package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// A part is a range of a file: it has the lines that begin there. A part without a file has no
// lines.
type part struct {
	Path           string
	From, To, Size int64
}

// A listFn emits the parts of all files, and one part without a file.
type listFn struct {
	Globs     []string
	PartBytes int64
}

func init() {
	register.DoFn3x1[context.Context, []byte, func(part), error](&listFn{})
	register.Emitter1[part]()
}

func (l *listFn) ProcessElement(ctx context.Context, _ []byte, emit func(part)) error {
	var all []string
	for _, glob := range l.Globs {
		store, err := filesystem.New(ctx, glob)
		if err != nil {
			return err
		}
		found, err := store.List(ctx, glob)
		if err := errors.Join(err, store.Close()); err != nil {
			return fmt.Errorf("%s: %w", glob, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("%s matches no file", glob)
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	for i, path := range all {
		if i > 0 && path == all[i-1] {
			return fmt.Errorf("%s matches more than once: its keys would be in the set twice", path)
		}
		if err := l.cut(ctx, path, emit); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	emit(part{})
	return nil
}

// cut emits the parts of a file: a single part if readers of the file cannot seek.
func (l *listFn) cut(ctx context.Context, path string, emit func(part)) error {
	store, file, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer store.Close()
	defer file.Close()
	var size int64
	if f, ok := file.(fs.File); ok {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return errors.New("not a regular file")
		}
		size = info.Size()
	} else if size, err = store.Size(ctx, path); err != nil {
		return err
	}
	head := make([]byte, 4)
	n, err := io.ReadFull(file, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if packed(head[:n]) {
		return errors.New("the file is packed; this program reads lines, and unpacks nothing")
	}
	step := l.PartBytes
	if _, ok := file.(io.Seeker); !ok {
		step = max(size, 1)
	}
	for from := int64(0); from < size; from += step {
		emit(part{path, from, min(from+step, size), size})
	}
	return nil
}

// packed reports whether a file that begins with these bytes is packed with gzip or Zstandard. (A
// Zstandard file may begin with a frame to skip.) The command mmapfilter unpacks such files, so this
// program must not take them for lines.
func packed(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\x1f\x8b")) || bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")) ||
		len(head) == 4 && head[0]&0xf0 == 0x50 && string(head[1:]) == "\x2a\x4d\x18"
}

func open(ctx context.Context, path string) (filesystem.Interface, io.ReadCloser, error) {
	store, err := filesystem.New(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	file, err := store.OpenRead(ctx, path)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, file, nil
}

// keys yields the lines of a part, each without its line feed, and valid until the next. A last
// line without a line feed is a key, and so is an empty line.
func (p part) keys(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if p.Path == "" {
			return
		}
		if err := p.read(ctx, func(key []byte) bool { return yield(key, nil) }); err != nil {
			yield(nil, fmt.Errorf("%s, part from %d: %w", p.Path, p.From, err))
		}
	}
}

var errChanged = errors.New("the size of the file has changed since the pipeline began")

func (p part) read(ctx context.Context, yield func(key []byte) bool) error {
	store, file, err := open(ctx, p.Path)
	if err != nil {
		return err
	}
	defer store.Close()
	defer file.Close()
	at := p.From
	if p.From > 0 { // skip the line that begins before the part
		at--
		if _, err := file.(io.Seeker).Seek(at, io.SeekStart); err != nil {
			return err
		}
	}
	l := lines{r: bufio.NewReaderSize(file, 256<<10)}
	if p.From > 0 {
		line, err := l.next()
		if err != nil && err != io.EOF {
			return err
		}
		at += int64(len(line))
	}
	const often = 1 << 14 // keys
	for n := 0; at < p.To; n++ {
		if n%often == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, err := l.next()
		at += int64(len(line))
		if err == io.EOF && len(line) == 0 {
			return errChanged
		}
		if err != nil && err != io.EOF {
			return err
		}
		if !yield(bytes.TrimSuffix(line, []byte("\n"))) {
			return nil
		}
	}
	if p.To < p.Size {
		return nil
	}
	if _, err := l.r.Peek(1); err == nil || at != p.Size {
		return errChanged
	} else if err != io.EOF {
		return err
	}
	return nil
}

// lines reads lines of any length.
type lines struct {
	r    *bufio.Reader
	long []byte
}

// next returns a line with its line feed. If the error is io.EOF, the line is the rest of
// the input and has none.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	l.long = l.long[:0]
	for err == bufio.ErrBufferFull {
		l.long = append(l.long, line...)
		line, err = l.r.ReadSlice('\n')
	}
	l.long = append(l.long, line...)
	return l.long, err
}
