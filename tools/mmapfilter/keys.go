package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// An input makes keys from sources. The fields from file to text describe the key that was yielded
// last.
type input struct {
	format  format
	sources *sources
	// beforeRead, if not nil, is called before each read, which may block until someone types a
	// line. It is also called at the start of each source, while the fields below still describe
	// the last key of the previous one. Its error ends the input.
	beforeRead func() error
	// misfits, if not nil, is called when a record does not fit the format. If misfits reports
	// that the format has changed, the record is tried again.
	misfits func() bool
	// whole asks for the fields header and record.
	whole bool
	// mark, if not empty, is the record that must end standard input; it is no key. Without it keys
	// may be missing, because a pipe also ends when its writer dies.
	mark string

	binary string // the first file read as lines that contains NUL bytes

	file   string
	header []byte // the record at the head of the file that names columns, if the format has one
	number int    // number of the record in the file, from 1; in CSV, the number of its line
	record []byte // the record as in the file, without its terminator; or a key of the command line
	raw    []byte // the key as in the file
	text   []byte // raw, without the carriage return that trimCR drops

	decoded []byte
}

// keys yields the keys of all sources, each valid until the next. An error ends its source; a
// caller that ranges on after it gets the keys of the other sources.
func (in *input) keys(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, src := range in.sources.list {
			more, err := in.read(ctx, src, yield)
			if err != nil {
				more = yield(nil, err)
			}
			if !more {
				return
			}
		}
	}
}

// each reads all keys into the block. It calls work, which empties the block, when the block is
// full, before each read that may wait, and when the input ends or fails. It returns the first
// error. After an error of work it does not call work again.
func (in *input) each(ctx context.Context, b *block, work func() error) error {
	var failed error
	next := func() error {
		if failed == nil {
			failed = work()
		}
		return failed
	}
	in.beforeRead = func() error {
		if next() != nil {
			return io.EOF // ends the source; each returns failed
		}
		return nil
	}
	for key, err := range in.keys(ctx) {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		switch {
		case failed != nil:
			return failed
		case err != nil:
			return cmp.Or(next(), err)
		}
		if b.take(key, in); b.full() && next() != nil {
			return failed
		}
	}
	return next()
}

// read yields the keys of one source. It reports whether the caller wants more.
func (in *input) read(ctx context.Context, src source, yield func([]byte, error) bool) (more bool, err error) {
	if in.beforeRead != nil {
		if err := in.beforeRead(); err != nil {
			return false, err
		}
	}
	in.file = src.name
	if src.keys != nil {
		return in.given(src.keys, yield)
	}
	file, err := in.sources.open(ctx, src)
	if err != nil {
		return false, err
	}
	defer file.Close()
	unpacked, err := in.unpack(file)
	if err != nil {
		return false, in.wrap(err)
	}
	defer unpacked.Close()
	records, err := in.records(unpacked)
	marked := in.mark == "" || src.stdin == nil
	for err == nil {
		var part, key []byte
		if part, in.number, err = records.next(); err != nil {
			break
		}
		if in.mark != "" && src.stdin != nil {
			if marked {
				err = fmt.Errorf("record %d is after the end mark %q", in.number, in.mark)
				break
			}
			if marked = string(part) == in.mark; marked {
				continue
			}
		}
		if in.whole {
			in.record = records.whole()
		}
		key, err = in.key(part)
		if err != nil && in.misfits != nil && in.misfits() {
			key, err = in.key(part)
		}
		if err != nil {
			err = fmt.Errorf("record %d: %w", in.number, err)
			break
		}
		if !yield(key, nil) {
			return false, nil
		}
	}
	if err == io.EOF {
		if !marked {
			return false, in.wrap(fmt.Errorf("it ends without the end mark %q, so keys may be missing", in.mark))
		}
		return true, nil
	}
	return false, in.wrap(err)
}

// filterMagic is the beginning of every filter file: see package layout. unpack reads it byte by
// byte, since a pipe may not have more bytes yet.
const filterMagic = "MMAPFLTR"

// unpack undoes gzip or zstd. Records of a fixed size may begin with any bytes, so for these the file
// name says whether the file is compressed.
func (in *input) unpack(file io.ReadCloser) (io.ReadCloser, error) {
	head := bufio.NewReaderSize(file, bufferBytes)
	if filter, err := startsWith(head, filterMagic, "\xff\xff\xff\xff\xff\xff\xff\xff"); err != nil {
		return nil, err
	} else if filter {
		return nil, errors.New("a filter, not a file of keys")
	}
	named := strings.HasSuffix(in.file, ".gz") || strings.HasSuffix(in.file, ".zst")
	if in.format.recordSize != 0 && !named {
		return io.NopCloser(head), nil
	}
	if _, err := head.Peek(1); named && err == io.EOF {
		return nil, errors.New("it is empty, so it is not a compressed file; it may have been cut short")
	}
	return decompress(head)
}

// given yields keys of the command line. Each argument is a whole key: no field or column is
// cut out.
func (in *input) given(keys []string, yield func([]byte, error) bool) (more bool, err error) {
	for i, text := range keys {
		in.number, in.record = i+1, []byte(text)
		key, err := in.decode(in.record)
		if n := in.format.recordSize; err == nil && n != 0 && len(text) != n && !in.format.hex {
			err = fmt.Errorf("key %.40q has %s, but records have %d; --hex takes hex digits", text, formatNumber(len(text), "byte", "bytes"), n)
		}
		if err != nil {
			return false, &fileError{"-e", err}
		}
		if !yield(key, nil) {
			return false, nil
		}
	}
	return true, nil
}

// end returns what follows a record, or a printed key. Records of a fixed size have no
// terminator, so that the output can be read back. A key given in hex digits on the
// command line is not such a record.
func (in *input) end() string {
	switch {
	case in.format.null:
		return "\x00"
	case in.format.recordSize != 0 && !(in.format.hex && in.file == commandLine):
		return ""
	}
	return "\n"
}

func (in *input) wrap(err error) error { return &fileError{in.file, err} }

func (in *input) records(r io.Reader) (records, error) {
	if in.beforeRead != nil {
		r = &announced{r, in.beforeRead}
	}
	switch {
	case in.format.csv:
		c, err := newCSVColumn(r, in.format.extraction, in.whole)
		if err == nil {
			in.header = c.header
		}
		return c, err
	case in.format.recordSize != 0:
		return newSplitter(r, 0, in.format.recordSize, bufferBytes), nil
	case in.format.null:
		return newSplitter(r, 0, 0, bufferBytes), nil
	}
	lines := newSplitter(r, '\n', 0, bufferBytes)
	lines.binary = func() {
		if in.binary == "" {
			in.binary = in.file
		}
	}
	return lines, nil
}

// warn is called after the end of the input. It warns of lines that may not be keys.
func (in *input) warn(stderr io.Writer) {
	if in.binary != "" {
		fmt.Fprintf(stderr, "mmapfilter: %s: it contains NUL bytes, so its lines may not be keys; -0 reads keys that end in NUL\n", in.binary)
	}
}

// An announced reader calls a function before each read.
type announced struct {
	io.Reader
	before func() error
}

func (a *announced) Read(p []byte) (int, error) {
	if err := a.before(); err != nil {
		return 0, err
	}
	return a.Reader.Read(p)
}

// key makes the key from a record.
func (in *input) key(record []byte) ([]byte, error) {
	if in.format.delim != "" {
		field, err := cutField(record, in.format.delim, in.format.field)
		if err != nil {
			return nil, &misfit{err, false}
		}
		record = field
	}
	return in.decode(record)
}

// decode makes the key from its text.
func (in *input) decode(text []byte) ([]byte, error) {
	in.raw, in.text = text, text
	if in.format.trimCR {
		in.text = bytes.TrimSuffix(in.text, []byte{'\r'})
	}
	if !in.format.hex {
		return in.text, nil
	}
	var err error
	if in.decoded, err = hex.AppendDecode(in.decoded[:0], in.text); err != nil {
		return nil, &misfit{hexError(in.text, err), true}
	}
	return in.decoded, nil
}

func hexError(text []byte, err error) error {
	switch {
	case errors.Is(err, hex.ErrLength):
		return fmt.Errorf("hex key %.40q has an odd number of digits", text)
	case bytes.HasSuffix(text, []byte{'\r'}):
		return fmt.Errorf("key %.40q is not hex; --trim-cr drops the carriage return", text)
	}
	return fmt.Errorf("key %.40q is not hex", text)
}

// cutField returns field n, from 1. As in cut(1), a record without the delimiter is one field.
func cutField(record []byte, delim string, n int) ([]byte, error) {
	separator := []byte(delim)
	rest := record
	for i := 1; ; i++ {
		field, after, found := bytes.Cut(rest, separator)
		switch {
		case i == n || !found && i == 1:
			return field, nil
		case !found:
			return nil, fmt.Errorf("no field %d; there are %d", n, i)
		}
		rest = after
	}
}
