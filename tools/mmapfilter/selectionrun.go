package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

// notWithURL are the flags of check that a URL excludes.
var notWithURL = []string{"follow", "recover", "unrecovered", "residency"}

// open opens the filter or the set and sets the format of keys.
func (s *selection) open(cmd *cobra.Command) (err error) {
	set, err := sets.IsSet(s.path)
	if errors.Is(err, fs.ErrNotExist) && s.opening.WaitForFile {
		set = strings.HasSuffix(s.path, manifestSuffix)
	}
	s.opening.FollowInterval = -1 // the method newest looks for a new file instead
	follow := s.follow && !isURL(s.path)
	switch set = set || isSetURL(s.path); {
	case set && follow:
		s.set, err = sets.Follow(s.path, &s.opening)
	case set:
		s.set, err = openSet(cmd, s.path, &s.opening, notWithURL...)
	case follow:
		s.follower, err = mmapfilter.Follow(s.path, &s.opening)
	default:
		s.filter, err = openFilter(cmd, s.path, &s.opening, notWithURL...)
	}
	if err != nil {
		return err
	}
	if s.follow {
		s.in.misfits = s.takeOver
	}
	if err := s.setFormat(s.answers()); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// run processes the whole input. As in grep(1), an error of a source is reported, and the next
// sources are still read.
func (s *selection) run(ctx context.Context, out io.Writer) error {
	s.out = bufio.NewWriterSize(out, bufferBytes)
	s.objects = newJSONEncoder(s.out)
	s.found = make([]bool, blockKeys)
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
			if s.block.take(key, s.in); s.block.full() {
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
	s.reportShards()
	switch {
	case s.err != nil:
		return s.err
	case s.limited:
		return errReported
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
	}
}

// takeOver looks up the keys read so far, and reports whether a new file with another format has
// arrived.
func (s *selection) takeOver() bool {
	before := s.note
	s.ask()
	if s.err == nil {
		_, err := s.newest()
		s.fail(err)
	}
	return s.err == nil && s.note != before
}

// ask looks up the block, prints its selected keys and starts another block. It looks up the
// whole block in one file.
func (s *selection) ask() {
	if s.err != nil || s.done() || len(s.block.spans) == 0 {
		return
	}
	found, cut, err := s.lookUp()
	if err != nil {
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
			s.print(i, at.number)
		}
	}
	s.block.clear()
	s.fail(cut)
}

// lookUp looks up the block in the newest file. If another file takes its place meanwhile, lookUp
// looks the block up in that file. cut comes from newest, and err from fault.
func (s *selection) lookUp() (found []bool, cut, err error) {
	var last answering
	for {
		answers, c := s.newest()
		cut = cmp.Or(cut, c)
		keys := s.block.keys()
		found = s.found[:len(keys)]
		answers.ContainsBatch(keys, found)
		err = s.fault(answers)
		if !s.follow || !errors.Is(err, mmapfilter.ErrSuperseded) || answers == last { // in the last case, no newer file can be opened
			return found, cut, err
		}
		last = answers
	}
}

// print writes key i of the block, or its record. The buffered writer keeps errors until flush.
// With several input files, the file name comes before the number, as in grep -n.
func (s *selection) print(i, number int) {
	if s.json {
		s.printJSON(i, number)
		return
	}
	text := s.block.text(i)
	if s.record {
		s.head()
		text = s.block.record(i)
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

// head writes the names of the columns, so that CSV records can be read again. Records with
// numbers before them cannot be read again, so they get no header.
func (s *selection) head() {
	if s.in.header != nil && !s.headed && !s.number {
		s.headed = true
		s.out.Write(s.in.header)
		s.out.WriteString(s.in.end())
	}
}

// An answerJSON is the object that check --json prints for a key. JSON strings are Unicode, so a
// key or record that is not valid UTF-8 has replacement characters, and the object also has the
// bytes of that key or record in hex. Binary keys and records always have the hex, too.
type answerJSON struct {
	File      string  `json:"file,omitempty"` // the input file, if there are several
	Line      int     `json:"line"`
	Key       string  `json:"key"`
	Hex       string  `json:"hex,omitempty"`
	Record    *string `json:"record,omitempty"` // with --record
	RecordHex string  `json:"record_hex,omitempty"`
	Present   bool    `json:"present"`
}

func (s *selection) printJSON(i, number int) {
	text := s.block.text(i)
	binary := s.in.format.recordSize != 0 && !s.in.format.hex
	object := answerJSON{Line: number, Key: string(text), Hex: hexIf(binary, text), Present: !s.invert}
	if len(s.in.sources.list) > 1 {
		object.File = s.in.file
	}
	if s.record {
		record := s.block.record(i)
		text := string(record)
		object.Record, object.RecordHex = &text, hexIf(binary, record)
	}
	s.objects.Encode(object)
}

// hexIf returns text in hex if it is binary or not UTF-8, and "" otherwise.
func hexIf(binary bool, text []byte) string {
	if binary || !utf8.Valid(text) {
		return hex.EncodeToString(text)
	}
	return ""
}
