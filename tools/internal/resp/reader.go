package resp

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
)

// Limits are the largest lengths that a [Reader] accepts.
type Limits struct {
	Args   int // words of a command
	Bulk   int // bytes of a word
	Total  int // bytes of all words of a command
	Inline int // bytes of a command that is a line
}

// Unknown are the limits for a client that has not given its password yet, and Known the limits for
// other clients.
var (
	Unknown = Limits{Args: 10, Bulk: 16 << 10, Total: 32 << 10, Inline: 16 << 10}
	Known   = Limits{Args: 1 << 20, Bulk: 32 << 20, Total: 64 << 20, Inline: 64 << 10}
)

// A ProtocolError says how a client has broken the protocol.
type ProtocolError string

func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

const (
	readBytes   = 16 << 10 // of the buffer of a Reader
	stepBytes   = 64 << 10 // of memory that a Reader keeps after a large command
	headerBytes = 34       // of the longest line that has a length
)

// A Reader reads commands. Their words are parts of its buffer, so it moves the buffer only between
// commands. A command that does not end in the buffer goes on in a new buffer.
type Reader struct {
	Limits
	in   io.Reader
	buf  []byte // has been read
	at   int    // in buf: where the bytes begin that are not yet part of a command
	args [][]byte
	size int // bytes of args
}

// NewReader returns a reader of the stream in, with the limits of Unknown.
func NewReader(in io.Reader) *Reader { return &Reader{Limits: Unknown, in: in} }

// Reset makes the reader forget its stream, and read the commands of another stream.
func (r *Reader) Reset(in io.Reader, limits Limits) {
	r.forget()
	*r = Reader{Limits: limits, in: in, buf: r.buf[:0], args: r.args}
}

// Command reads a command of at least one word. The words are valid until the next call. The error
// is a [ProtocolError], io.EOF before a command, or the error of the stream.
func (r *Reader) Command() ([][]byte, error) {
	for {
		r.forget()
		if err := r.Wait(); err != nil {
			return nil, err
		}
		var err error
		if r.buf[r.at] == '*' {
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
		if len(r.args) > 0 {
			return r.args, nil
		}
	}
}

// forget forgets the last command, and frees its memory if that is large.
func (r *Reader) forget() {
	clear(r.args) // so that they keep no old buffer alive
	if cap(r.args) > stepBytes/8 {
		r.args = nil
	}
	if rest := r.buf[r.at:]; cap(r.buf) > stepBytes && len(rest) < readBytes {
		r.buf, r.at = append(make([]byte, 0, readBytes), rest...), 0
	}
	r.args, r.size = r.args[:0], 0
}

// Wait reads from the stream once, unless there are bytes of a command already.
func (r *Reader) Wait() error {
	if r.Buffered() > 0 {
		return nil
	}
	return r.fill()
}

// Buffered returns how many bytes have been read that are not part of a returned command.
func (r *Reader) Buffered() int { return len(r.buf) - r.at }

// fill reads once.
func (r *Reader) fill() error {
	if rest := r.buf[r.at:]; len(rest) == 0 && len(r.args) == 0 {
		r.buf, r.at = r.buf[:0], 0
	} else if len(r.buf) == cap(r.buf) {
		to := r.buf[:0]
		if len(r.args) > 0 || len(rest) > cap(r.buf)/2 {
			to = make([]byte, 0, max(readBytes, 2*len(rest)))
		}
		r.buf, r.at = append(to, rest...), 0
	}
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 0, readBytes)
	}
	n, err := r.in.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil
	}
	return cmp.Or(err, io.ErrNoProgress)
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
		if size < 0 || size > int64(r.Bulk) || size > int64(r.Total-r.size) {
			return ProtocolError("invalid bulk length")
		}
		if err := r.bulk(int(size)); err != nil {
			return err
		}
	}
	return nil
}

// length reads a line that has a type and a number.
func (r *Reader) length(kind byte, broken ProtocolError) (int64, error) {
	for {
		line := r.buf[r.at:]
		if len(line) > 0 && line[0] != kind {
			return 0, ProtocolError(fmt.Sprintf("expected '%c', got %q", kind, line[0]))
		}
		end := bytes.IndexByte(line[:min(len(line), headerBytes)], '\n')
		if end > 1 && line[end-1] == '\r' {
			r.at += end + 1
			n, ok := Number(line[1 : end-1])
			if !ok {
				return 0, broken
			}
			return n, nil
		}
		if end >= 0 || len(line) >= headerBytes {
			return 0, broken
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// bulk reads a word of n bytes and the end of its line.
func (r *Reader) bulk(n int) error {
	for r.Buffered() < n+2 {
		if err := r.fill(); err != nil {
			return err
		}
	}
	rest := r.buf[r.at:]
	if rest[n] != '\r' || rest[n+1] != '\n' {
		return ProtocolError("a bulk string does not end where its length says")
	}
	r.args = append(r.args, rest[:n:n])
	r.size += n
	r.at += n + 2
	return nil
}

// inline reads a command that is a line.
func (r *Reader) inline() error {
	for {
		line := r.buf[r.at:]
		end := bytes.IndexByte(line, '\n')
		if end >= r.Inline || end < 0 && len(line) > r.Inline {
			return ProtocolError("too big inline request")
		}
		if end >= 0 {
			r.at += end + 1
			return r.split(trimCR(line[:end]))
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
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
