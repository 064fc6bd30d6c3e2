package main

import (
	"bufio"
	"bytes"
	"encoding/csv"
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

// A csvColumn gives one column of its input.
type csvColumn struct {
	r      *csv.Reader
	column int // from 0
	key    []byte
}

// newCSVColumn gives io.EOF for an input that should have a header and has
// nothing at all.
func newCSVColumn(r io.Reader, f extraction) (*csvColumn, error) {
	buffered := bufio.NewReaderSize(r, bufferBytes)
	// Some programs write a byte order mark; it is not a part of a name.
	if head, _ := buffered.Peek(3); string(head) == "\ufeff" {
		buffered.Discard(3)
	}
	c := &csvColumn{r: csv.NewReader(buffered), column: f.column - 1}
	c.r.ReuseRecord = true
	c.r.FieldsPerRecord = -1 // other columns do not matter
	if f.name == "" {
		return c, nil
	}
	header, err := c.r.Read()
	if err != nil {
		return nil, err
	}
	for i, name := range header {
		if name != f.name {
			continue
		}
		if c.column >= 0 {
			return nil, fmt.Errorf("two columns are called %q", f.name)
		}
		c.column = i
	}
	if c.column < 0 {
		return nil, fmt.Errorf("no column is called %q", f.name)
	}
	return c, nil
}

// The number is that of the line on which the record starts.
func (c *csvColumn) next() ([]byte, int, error) {
	record, err := c.r.Read()
	if err != nil {
		return nil, 0, err
	}
	line, _ := c.r.FieldPos(0)
	if c.column >= len(record) {
		return nil, 0, fmt.Errorf("record on line %d: no column %d", line, c.column+1)
	}
	c.key = append(c.key[:0], record[c.column]...)
	return c.key, line, nil
}
