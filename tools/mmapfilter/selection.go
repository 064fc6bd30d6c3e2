package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A selection is a run of check: it asks a filter for keys, many at a time,
// and prints those that are selected in the order of the input.
type selection struct {
	*checkCommand
	filter   asked
	refused  error // why a new file was not taken over, with --follow
	in       *input
	out      *bufio.Writer
	objects  *json.Encoder // on out
	bar      *progress
	report   func(error) // says that a source could not be read, or not all of it
	reported bool
	selected uint64
	err      error // the first one of asking or printing

	block block
	found []bool
}

func newSelection(c *checkCommand, filter asked, in *input, out io.Writer) *selection {
	s := &selection{
		checkCommand: c,
		filter:       filter,
		in:           in,
		out:          bufio.NewWriterSize(out, bufferBytes),
		found:        make([]bool, blockKeys),
	}
	s.objects = newJSONEncoder(s.out)
	return s
}

// run goes through the whole input. As with grep(1), an error of a source is
// reported and does not keep it from the sources after that one.
func (s *selection) run(ctx context.Context) error {
	s.in.beforeRead = func() error {
		s.ask()
		s.flush()
		if s.done() {
			return io.EOF
		}
		s.bar.show("checking", s.in.sources.read.Load(), s.in.sources.bytes, nil)
		return s.err
	}
	for key, err := range s.in.keys(ctx) {
		switch {
		case ctx.Err() != nil:
			s.ask()
			s.fail(ctx.Err())
		case err != nil:
			s.sourceFailed(err)
		default:
			s.block.add(key, s.in.text, s.in.number)
			if s.block.full() {
				s.ask()
			}
		}
		if s.err != nil || s.done() {
			break
		}
	}
	s.ask()
	s.bar.close()
	if s.count && !s.quiet && s.err == nil {
		fmt.Fprintln(s.out, s.selected)
	}
	s.flush()
	switch {
	case s.err != nil:
		return s.err
	case s.done():
		return nil
	case s.reported:
		return errReported
	case s.selected == 0:
		return errNo
	}
	return nil
}

// sourceFailed reports an error after the answers for the keys before it.
func (s *selection) sourceFailed(err error) {
	s.ask()
	s.flush()
	if s.err == nil && !s.done() {
		s.report(err)
		s.reported = true
	}
}

// fail keeps the first error, unless the outcome was known before it.
func (s *selection) fail(err error) {
	if s.err == nil && !s.done() {
		s.err = err
	}
}

// done reports whether no key changes the outcome any more.
func (s *selection) done() bool { return s.quiet && s.selected > 0 }

// ask looks up the block, prints what is selected of it and starts another.
func (s *selection) ask() {
	if s.err != nil || s.done() {
		return
	}
	keys := s.block.keys()
	found := s.found[:len(keys)]
	if len(keys) > 0 {
		s.look()
	}
	s.filter.ContainsBatch(keys, found)
	if err := s.filter.Err(); !errors.Is(err, s.refused) {
		s.fail(err)
		return
	}
	for i, at := range s.block.spans {
		if found[i] == s.invert {
			continue
		}
		s.selected++
		if s.done() {
			break
		}
		if !s.count {
			s.print(s.block.text(i), at.number)
		}
	}
	s.block.clear()
}

// look has a follower look at its path. The same error is reported once.
func (s *selection) look() {
	follower, ok := s.filter.(*mmapfilter.Follower)
	if !ok {
		return
	}
	_, err := follower.Refresh()
	if err != nil && (s.refused == nil || err.Error() != s.refused.Error()) {
		s.flush()
		s.report(err)
		s.reported = true
	}
	s.refused = err
}

func (s *selection) flush() {
	s.fail(s.out.Flush())
}

// print writes one key. Errors are kept by the buffered writer until flush.
// With more than one file the name of the file comes first, as with grep(1).
func (s *selection) print(text []byte, number int) {
	if s.json {
		s.printJSON(text, number)
		return
	}
	if s.number {
		if len(s.in.sources.list) > 1 {
			s.out.WriteString(s.in.file)
			s.out.WriteByte(':')
		}
		s.out.Write(strconv.AppendInt(s.out.AvailableBuffer(), int64(number), 10))
		s.out.WriteByte(':')
	}
	s.out.Write(text)
	s.out.WriteString(s.in.end())
}

// printJSON writes a key as an object. A string of JSON is Unicode, so a key
// that is not has the replacement character for what is not, and all its bytes
// in hex beside it; so has every key of a file that is no text. With more than
// one file the object names the file.
func (s *selection) printJSON(text []byte, number int) {
	object := struct {
		File    string `json:"file,omitempty"`
		Line    int    `json:"line"`
		Key     string `json:"key"`
		Hex     string `json:"hex,omitempty"`
		Present bool   `json:"present"`
	}{Line: number, Key: string(text), Present: !s.invert}
	if len(s.in.sources.list) > 1 {
		object.File = s.in.file
	}
	if !utf8.Valid(text) || s.in.format.recordSize != 0 && !s.in.format.hex {
		object.Hex = hex.EncodeToString(text)
	}
	s.objects.Encode(object)
}
