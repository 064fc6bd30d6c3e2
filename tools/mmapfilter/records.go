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

// A splitter cuts its input at a separator, or into records of a fixed size with nothing between
// them. The last record may lack the separator.
type splitter struct {
	r          io.Reader
	separator  byte
	size       int // 0 if a separator ends the records
	buf        []byte
	start, end int // buf[start:end] has been read but not returned
	record     []byte
	number     int
	err        error  // of r, returned once the buffer is used up
	binary     func() // if not nil, is called once if a zero byte is read
}

func newSplitter(r io.Reader, separator byte, size, bufferSize int) *splitter {
	return &splitter{r: r, separator: separator, size: size, buf: make([]byte, max(size, bufferSize))}
}

func (s *splitter) next() ([]byte, int, error) {
	searched := 0 // bytes from start on that hold no separator
	for {
		if s.size == 0 {
			if i := bytes.IndexByte(s.buf[s.start+searched:s.end], s.separator); i >= 0 {
				return s.take(searched+i, 1)
			}
		} else if s.end-s.start >= s.size {
			return s.take(s.size, 0)
		}
		if s.err != nil {
			break
		}
		searched = s.end - s.start
		s.fill()
	}
	switch left := s.end - s.start; {
	case s.err != io.EOF || left == 0:
		return nil, 0, s.err
	case s.size != 0:
		return nil, 0, &misfit{fmt.Errorf("record %d, the last one, has %s of %d", s.number+1, formatNumber(left, "byte", "bytes"), s.size), false}
	default:
		return s.take(left, 0)
	}
}

// take returns the next n bytes as a record, and skips the bytes that end it.
func (s *splitter) take(n, skip int) ([]byte, int, error) {
	s.record = s.buf[s.start : s.start+n]
	s.start += n + skip
	s.number++
	return s.record, s.number, nil
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

// maxCSVRecord bounds the bytes of a CSV record. A quote that is not closed makes the rest of a
// file one record, which may not fit in memory.
const maxCSVRecord = 64 << 20

// A csvColumn returns one column of its input. A line end inside quotes becomes a newline in the
// key even if it is CR LF in the file, because package csv converts it.
type csvColumn struct {
	r      *csv.Reader
	tape   *tape  // under r
	header []byte // the header of the input, if it has one and whole records are wanted
	column int    // from 0
	key    []byte
}

// A tape passes on its input, but ends it if a record is too long: with io.EOF, because the
// csv.Reader then says where the record starts. It can keep the bytes that are read until cut
// removes them.
type tape struct {
	io.Reader
	read int  // bytes since the last record, or a few more, because the csv.Reader reads ahead
	long bool // a record is too long

	keeps bool
	kept  []byte
	from  int64 // offset in the input of kept[0]
}

func (t *tape) Read(p []byte) (int, error) {
	if t.long = t.read >= maxCSVRecord; t.long {
		return 0, io.EOF
	}
	n, err := t.Reader.Read(p)
	t.read += n
	if t.keeps {
		t.kept = append(t.kept, p[:n]...)
	}
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

// newCSVColumn returns io.EOF for an empty input that should have a header.
func newCSVColumn(r io.Reader, f extraction, whole bool) (*csvColumn, error) {
	c := &csvColumn{column: f.column - 1, tape: &tape{Reader: r, keeps: whole}}
	buffered := bufio.NewReaderSize(c.tape, bufferBytes)
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

// whole drops empty lines before the record, since they are not records.
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
	if c.tape.long {
		err = &misfit{fmt.Errorf("record on line %d: longer than %s; a quote may not be closed", line, roundSize(maxCSVRecord)), false}
	}
	c.tape.read = 0
	return record, line, err
}

// The number that next returns is the line on which the record starts.
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
