package resp

import (
	"io"
	"strconv"
	"strings"
)

// longBytes is how long the replies that a Writer keeps may become before it is time to write them.
const longBytes = 64 << 10

// A Writer writes replies only in Flush, because code that makes a reply may hold locks, and
// clients may be slow. After a write has failed, the Writer drops replies, and Flush returns the
// error.
type Writer struct {
	RESP3 bool // the client has asked for version 3
	out   io.Writer
	kept  []byte
	err   error
}

// NewWriter returns a writer of version 2.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Reset makes the writer forget its stream, and write to another one.
func (w *Writer) Reset(out io.Writer, resp3 bool) {
	*w = Writer{RESP3: resp3, out: out, kept: w.kept[:0]}
}

// Flush writes the replies that are kept.
func (w *Writer) Flush() error {
	if len(w.kept) > 0 && w.err == nil {
		_, w.err = w.out.Write(w.kept)
	}
	if w.kept = w.kept[:0]; cap(w.kept) > 2*longBytes {
		w.kept = nil
	}
	return w.err
}

// Drop forgets the replies that are kept.
func (w *Writer) Drop() { w.kept = w.kept[:0] }

// Long reports whether it is time for a Flush even if there are more commands to answer.
func (w *Writer) Long() bool { return len(w.kept) >= longBytes }

// line ends a line of a reply.
func (w *Writer) line() { w.kept = append(w.kept, '\r', '\n') }

func (w *Writer) number(kind byte, n int64) {
	w.kept = strconv.AppendInt(append(w.kept, kind), n, 10)
	w.line()
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// Simple writes a short text that says how a command went, such as OK.
func (w *Writer) Simple(text string) {
	w.kept = append(append(w.kept, '+'), oneLine.Replace(text)...)
	w.line()
}

// Error writes an error. By custom, a first word in capitals says what kind of error it is.
func (w *Writer) Error(text string) {
	w.kept = append(append(w.kept, '-'), oneLine.Replace(text)...)
	w.line()
}

// Int writes an integer.
func (w *Writer) Int(n int64) { w.number(':', n) }

// Bool writes a truth value: in version 2, the integer 1 or 0.
func (w *Writer) Bool(b bool) {
	switch {
	case w.RESP3 && b:
		w.kept = append(w.kept, '#', 't')
	case w.RESP3:
		w.kept = append(w.kept, '#', 'f')
	case b:
		w.kept = append(w.kept, ':', '1')
	default:
		w.kept = append(w.kept, ':', '0')
	}
	w.line()
}

// Bulk writes a string of any bytes.
func (w *Writer) Bulk(text string) {
	w.number('$', int64(len(text)))
	w.kept = append(w.kept, text...)
	w.line()
}

// Null writes that there is no value.
func (w *Writer) Null() {
	if w.RESP3 {
		w.kept = append(w.kept, '_')
	} else {
		w.kept = append(w.kept, "$-1"...)
	}
	w.line()
}

// Array begins an array: its n elements follow.
func (w *Writer) Array(n int) { w.number('*', int64(n)) }

// Map begins a map: n keys follow, each with its value. In version 2 it is an array of 2n.
func (w *Writer) Map(n int) {
	if w.RESP3 {
		w.number('%', int64(n))
	} else {
		w.Array(2 * n)
	}
}
