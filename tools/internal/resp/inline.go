package resp

import (
	"bytes"
	"strconv"
)

// errQuotes is the error of a line whose quotes do not match, in the words of Redis.
const errQuotes = ProtocolError("unbalanced quotes in request")

// split cuts a line into words. A word may have parts in quotes: in double ones with the escapes of C
// and \xHH, in single ones with \' alone. What follows the end of quotes must be a space.
func (r *Reader) split(line []byte) error {
	for {
		line = bytes.TrimLeft(line, " \t\r\n\v\f\x00")
		if len(line) == 0 {
			return nil
		}
		var ok bool
		if line, ok = r.word(line); !ok {
			return errQuotes
		}
		if len(r.ends) == r.Args {
			return ProtocolError("too big inline request")
		}
		r.ends = append(r.ends, len(r.words))
	}
}

// word appends the first word of line to r.words and returns what follows.
func (r *Reader) word(line []byte) (rest []byte, ok bool) {
	for len(line) > 0 {
		switch c := line[0]; c {
		case ' ', '\t', '\r', '\n', '\v', '\f', 0:
			return line, true
		case '"', '\'':
			line, ok = r.quoted(line[1:], c)
			return line, ok
		default:
			r.words = append(r.words, c)
			line = line[1:]
		}
	}
	return nil, true
}

// quoted is word for what follows a quote.
func (r *Reader) quoted(line []byte, quote byte) (rest []byte, ok bool) {
	for len(line) > 0 {
		c := line[0]
		if c == quote {
			line = line[1:]
			return line, len(line) == 0 || bytes.IndexByte([]byte(" \t\r\n\v\f\x00"), line[0]) >= 0
		}
		used := 1
		if c == '\\' && len(line) > 1 {
			c, used = unescape(line, quote)
		}
		r.words = append(r.words, c)
		line = line[used:]
	}
	return nil, false
}

// unescape returns the byte that the escape at the start of line stands for, and the length of it.
func unescape(line []byte, quote byte) (c byte, used int) {
	if quote == '\'' {
		if line[1] == '\'' {
			return '\'', 2
		}
		return '\\', 1
	}
	if line[1] == 'x' && len(line) >= 4 {
		if n, err := strconv.ParseUint(string(line[2:4]), 16, 8); err == nil {
			return byte(n), 4
		}
	}
	if i := bytes.IndexByte([]byte("nrtba"), line[1]); i >= 0 {
		return "\n\r\t\b\a"[i], 2
	}
	return line[1], 2
}
