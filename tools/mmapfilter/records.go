package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// A records cuts an input into records that hold one key each.
type records interface {
	// next returns the next record, or in CSV its key column, and its number. The bytes are
	// valid until the next call. After the last record the error is io.EOF.
	next() (record []byte, number int, err error)
	// whole returns all of the last record, as it stands in the input without its terminator. It
	// is valid until the next call of next.
	whole() []byte
}

// A splitter cuts its input at a separator. A last record without one counts too.
type splitter struct {
	r          io.Reader
	separator  byte
	buf        []byte
	start, end int // buf[start:end] has been read but not returned
	record     []byte
	number     int
	err        error  // of r, returned once the buffer is used up
	binary     func() // if not nil, is called once if a zero byte is read
}

func newSplitter(r io.Reader, separator byte, bufferSize int) *splitter {
	return &splitter{r: r, separator: separator, buf: make([]byte, bufferSize)}
}

func (s *splitter) next() ([]byte, int, error) {
	searched := 0 // bytes from start on that hold no separator
	for {
		i := bytes.IndexByte(s.buf[s.start+searched:s.end], s.separator)
		if i >= 0 {
			s.record = s.buf[s.start : s.start+searched+i]
			s.start += searched + i + 1
			s.number++
			return s.record, s.number, nil
		}
		if s.err != nil {
			break
		}
		searched = s.end - s.start
		s.fill()
	}
	if s.err == io.EOF && s.start < s.end {
		s.record = s.buf[s.start:s.end]
		s.start = s.end
		s.number++
		return s.record, s.number, nil
	}
	return nil, 0, s.err
}

func (s *splitter) whole() []byte { return s.record }

// fill reads more into the buffer. It enlarges the buffer if one record fills it.
func (s *splitter) fill() {
	switch {
	case s.start > 0:
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	case s.end == len(s.buf):
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 {
		var n int
		n, s.err = s.r.Read(s.buf[s.end:])
		if s.binary != nil && bytes.IndexByte(s.buf[s.end:s.end+n], 0) >= 0 {
			s.binary()
			s.binary = nil
		}
		s.end += n
		if n > 0 || s.err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

// A fixed cuts its input into records of a fixed size with nothing between them.
type fixed struct {
	r      *bufio.Reader
	size   int
	record []byte
	number int
}

func newFixed(r io.Reader, size int) *fixed {
	return &fixed{r: bufio.NewReaderSize(r, max(size, bufferBytes)), size: size}
}

func (f *fixed) next() ([]byte, int, error) {
	f.r.Discard(len(f.record)) // the last record was valid until now
	var err error
	f.record, err = f.r.Peek(f.size)
	if err == nil || len(f.record) > 0 {
		f.number++
	}
	if err == io.EOF && len(f.record) > 0 {
		err = &misfit{fmt.Errorf("record %d, the last one, has %s of %d", f.number, formatNumber(len(f.record), "byte", "bytes"), f.size), false}
	}
	if err != nil {
		return nil, 0, err
	}
	return f.record, f.number, nil
}

func (f *fixed) whole() []byte { return f.record }

// maxCSVRecord bounds the bytes of a CSV record. A quote that is not closed makes the rest of a
// file one record, which may not fit in memory.
const maxCSVRecord = 64 << 20

// A csvColumn returns one column of its input. A line end inside quotes becomes a newline in the
// key even if it is CR LF in the file, because package csv converts it.
type csvColumn struct {
	r      *csv.Reader
	limit  *recordLimit // under r
	tape   *tape        // under r, if whole records are wanted
	header []byte       // as in the input, if there is one and whole records are wanted
	column int          // from 0
	key    []byte
}

// A tape keeps what is read through it until it is cut.
type tape struct {
	io.Reader
	kept []byte
	from int64 // offset in the input of kept[0]
}

func (t *tape) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.kept = append(t.kept, p[:n]...)
	return n, err
}

// cut removes the kept bytes before an offset in the input and returns them. They are valid
// until the next read.
func (t *tape) cut(end int64) []byte {
	n := end - t.from
	piece := t.kept[:n:n]
	t.kept, t.from = t.kept[n:], end
	return piece
}

// A recordLimit ends its input if a record is too long. It does so with io.EOF, because the
// csv.Reader then says where the record starts.
type recordLimit struct {
	io.Reader
	read    int // bytes since the last record, or a few more, because r reads ahead
	reached bool
}

func (l *recordLimit) Read(p []byte) (int, error) {
	if l.read >= maxCSVRecord {
		l.reached = true
		return 0, io.EOF
	}
	n, err := l.Reader.Read(p)
	l.read += n
	return n, err
}

// newCSVColumn returns io.EOF for an empty input that should have a header.
func newCSVColumn(r io.Reader, f extraction, whole bool) (*csvColumn, error) {
	c := &csvColumn{column: f.column - 1}
	if whole {
		c.tape = &tape{Reader: r}
		r = c.tape
	}
	c.limit = &recordLimit{Reader: r}
	buffered := bufio.NewReaderSize(c.limit, bufferBytes)
	// Some programs write a byte order mark. It is not part of a name.
	if head, _ := buffered.Peek(3); string(head) == "\ufeff" {
		buffered.Discard(3)
		if whole {
			c.tape.cut(3)
			c.tape.from = 0 // r counts without the mark
		}
	}
	c.r = csv.NewReader(buffered)
	c.r.ReuseRecord = true
	c.r.FieldsPerRecord = -1 // other columns do not matter
	if f.name == "" {
		return c, nil
	}
	header, _, err := c.read()
	if err != nil {
		return nil, err
	}
	for i, name := range header {
		if name != f.name {
			continue
		}
		if c.column >= 0 {
			return nil, &misfit{fmt.Errorf("two columns are called %q", f.name), false}
		}
		c.column = i
	}
	if c.column < 0 {
		return nil, &misfit{fmt.Errorf("no column is called %q", f.name), false}
	}
	if whole {
		c.header = bytes.Clone(c.whole())
	}
	return c, nil
}

// whole drops the empty lines before the record, which are not records.
func (c *csvColumn) whole() []byte {
	piece := c.tape.cut(c.r.InputOffset())
	for {
		rest, found := bytes.CutPrefix(piece, []byte("\n"))
		if !found {
			rest, found = bytes.CutPrefix(piece, []byte("\r\n"))
		}
		if !found {
			return bytes.TrimSuffix(piece, []byte("\n"))
		}
		piece = rest
	}
}

// read returns a record and the line on which it starts.
func (c *csvColumn) read() (record []string, line int, err error) {
	record, err = c.r.Read()
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		line, err = bad.StartLine, &misfit{err, false}
	} else if err == nil {
		line, _ = c.r.FieldPos(0)
	}
	if c.limit.reached {
		err = &misfit{fmt.Errorf("record on line %d: longer than %s; a quote may not be closed", line, roundSize(maxCSVRecord)), false}
	}
	c.limit.read = 0
	return record, line, err
}

// next returns the line on which the record starts as its number.
func (c *csvColumn) next() ([]byte, int, error) {
	record, line, err := c.read()
	if err != nil {
		return nil, 0, err
	}
	if c.column >= len(record) {
		return nil, 0, &misfit{fmt.Errorf("record on line %d: no column %d", line, c.column+1), false}
	}
	c.key = append(c.key[:0], record[c.column]...)
	return c.key, line, nil
}

// A misfit is the error of an input that does not fit the format.
type misfit struct {
	error
	hex bool // the key, not the record, does not fit
}

func (m *misfit) Unwrap() error { return m.error }
