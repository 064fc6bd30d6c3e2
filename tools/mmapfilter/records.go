package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
)

// Records are the pieces of an input that hold one key each.
type records interface {
	// next gives the next record, which is valid until the one after it, and
	// its number. After the last one the error is io.EOF.
	next() (record []byte, number int, err error)
}

// A splitter cuts its input at a separator. A last record without one counts.
type splitter struct {
	r          io.Reader
	separator  byte
	buf        []byte
	start, end int // buf[start:end] has been read and not given out
	number     int
	err        error // of r, for when the buffer is used up
}

func newSplitter(r io.Reader, separator byte, bufferSize int) *splitter {
	return &splitter{r: r, separator: separator, buf: make([]byte, bufferSize)}
}

func (s *splitter) next() ([]byte, int, error) {
	searched := 0 // bytes from start on that are known to hold no separator
	for {
		i := bytes.IndexByte(s.buf[s.start+searched:s.end], s.separator)
		if i >= 0 {
			record := s.buf[s.start : s.start+searched+i]
			s.start += searched + i + 1
			s.number++
			return record, s.number, nil
		}
		if s.err != nil {
			break
		}
		searched = s.end - s.start
		s.fill()
	}
	if s.err == io.EOF && s.start < s.end {
		record := s.buf[s.start:s.end]
		s.start = s.end
		s.number++
		return record, s.number, nil
	}
	return nil, 0, s.err
}

// fill reads more into the buffer, which it enlarges if one record fills it.
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
		s.end += n
		if n > 0 || s.err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

// maxCSVRecord bounds the bytes of a record of CSV. A quote that is not closed
// makes the rest of a file one record, which may be more than there is memory.
const maxCSVRecord = 64 << 20

// A csvColumn gives one column of its input. The end of a line inside quotes is
// a newline in the key, also where the file has CR LF: package csv does that.
type csvColumn struct {
	r      *csv.Reader
	limit  *recordLimit // under r
	column int          // from 0
	key    []byte
}

// A recordLimit ends its input where a record is too long. It does so with
// io.EOF, since then the csv.Reader says where the record starts.
type recordLimit struct {
	io.Reader
	read    int // bytes since the last record, or a few more: r reads ahead
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

// newCSVColumn gives io.EOF for an input that should have a header and has
// nothing at all.
func newCSVColumn(r io.Reader, f extraction) (*csvColumn, error) {
	limit := &recordLimit{Reader: r}
	buffered := bufio.NewReaderSize(limit, bufferBytes)
	// Some programs write a byte order mark; it is not a part of a name.
	if head, _ := buffered.Peek(3); string(head) == "\ufeff" {
		buffered.Discard(3)
	}
	c := &csvColumn{r: csv.NewReader(buffered), limit: limit, column: f.column - 1}
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
	return c, nil
}

// read gives a record and the line on which it starts.
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

// The number is that of the line on which the record starts.
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
