package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Limits are the largest lengths that a [Reader] accepts.
type Limits struct {
	Args   int // words of a command
	Bulk   int // bytes of a word
	Total  int // bytes of all words of a command
	Inline int // bytes of a command that is a line
}

// Unknown are the limits for a client that has yet to give its password, and Known those for others.
var (
	Unknown = Limits{Args: 10, Bulk: 16 << 10, Total: 32 << 10, Inline: 16 << 10}
	Known   = Limits{Args: 1 << 20, Bulk: 32 << 20, Total: 64 << 20, Inline: 64 << 10}
)

// A ProtocolError says how a client has broken the protocol.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

const (
	readBytes   = 16 << 10 // of the buffer of a Reader
	stepBytes   = 64 << 10 // that memory grows by at once, at least
	headerBytes = 32       // of the longest line that has a length
)

// A Reader reads commands.
type Reader struct {
	Limits
	in    *bufio.Reader
	words []byte // of the command, one after another
	ends  []int  // end of each argument, in words
	args  [][]byte
}

// NewReader returns a reader of what in has, with the limits of Unknown.
func NewReader(in io.Reader) *Reader {
	return &Reader{Limits: Unknown, in: bufio.NewReaderSize(in, readBytes)}
}

// Reset has the reader forget its stream, and read commands from in.
func (r *Reader) Reset(in io.Reader, limits Limits) {
	r.in.Reset(in)
	r.Limits = limits
}

// Wait reads from the stream once, unless there are bytes of a command already.
func (r *Reader) Wait() error {
	_, err := r.in.Peek(1)
	return err
}

// Buffered returns how many bytes that were read are not yet of a command.
func (r *Reader) Buffered() int { return r.in.Buffered() }

// Command reads a command of at least one word. The words are valid until the next call. The error is
// a [ProtocolError], io.EOF before a command, or that of the stream.
func (r *Reader) Command() ([][]byte, error) {
	for {
		r.reset()
		first, err := r.in.Peek(1)
		if err != nil {
			return nil, err
		}
		if first[0] == '*' {
			err = r.array()
		} else {
			err = r.inline()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // in a command
		}
		if err != nil {
			return nil, err
		}
		if len(r.ends) > 0 {
			return r.cut(), nil
		}
	}
}

// reset forgets the last command, and its memory if that was large.
func (r *Reader) reset() {
	if cap(r.words) > stepBytes || cap(r.ends) > stepBytes/8 {
		r.words, r.ends, r.args = nil, nil, nil
	}
	r.words, r.ends, r.args = r.words[:0], r.ends[:0], r.args[:0]
}

// cut returns the words of the command, which end where ends says.
func (r *Reader) cut() [][]byte {
	start := 0
	for _, end := range r.ends {
		r.args = append(r.args, r.words[start:end:end])
		start = end
	}
	return r.args
}

func (r *Reader) array() error {
	n, err := r.length('*', "invalid multibulk length")
	if err != nil {
		return err
	}
	if n > int64(r.Args) {
		return ProtocolError("invalid multibulk length")
	}
	for range n {
		size, err := r.length('$', "invalid bulk length")
		if err != nil {
			return err
		}
		if size < 0 || size > int64(r.Bulk) || size > int64(r.Total-len(r.words)) {
			return ProtocolError("invalid bulk length")
		}
		if err := r.bulk(int(size)); err != nil {
			return err
		}
	}
	return nil
}

// length reads a line of a type and a number.
func (r *Reader) length(kind byte, broken ProtocolError) (int64, error) {
	first, err := r.in.ReadByte()
	if err != nil {
		return 0, err
	}
	if first != kind {
		return 0, ProtocolError(fmt.Sprintf("expected '%c', got %q", kind, first))
	}
	line := make([]byte, 0, headerBytes)
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if c == '\n' {
			break
		}
		if len(line) == cap(line) {
			return 0, broken
		}
		line = append(line, c)
	}
	if n, ok := Number(trimCR(line)); ok && len(line) > 0 && line[len(line)-1] == '\r' {
		return n, nil
	}
	return 0, broken
}

// bulk reads a word of n bytes and the end of its line.
func (r *Reader) bulk(n int) error {
	for n > 0 {
		step := min(n, stepBytes)
		at := len(r.words)
		r.words = slices.Grow(r.words, step)[:at+step]
		if _, err := io.ReadFull(r.in, r.words[at:]); err != nil {
			return err
		}
		n -= step
	}
	r.ends = append(r.ends, len(r.words))
	for _, want := range []byte("\r\n") {
		c, err := r.in.ReadByte()
		if err != nil {
			return err
		}
		if c != want {
			return ProtocolError("a bulk string does not end where its length says")
		}
	}
	return nil
}

// inline reads a command that is a line.
func (r *Reader) inline() error {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > r.Inline {
			return ProtocolError("too big inline request")
		}
		if err == nil && line == nil {
			line = part // the usual case: no copy
			break
		}
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return r.split(trimCR(line[:len(line)-1]))
}

func trimCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// Number parses a decimal number as Redis does: without a plus sign, spaces or leading zeros.
func Number(text []byte) (n int64, ok bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}
