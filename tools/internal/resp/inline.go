package resp

import (
	"bytes"
	"strconv"
	"strings"
)

// errQuotes is the error of a line whose quotes do not match, in the words of Redis.
const errQuotes = ProtocolError("unbalanced quotes in request")

const spaces = " \t\r\n\v\f\x00"

func isSpace(c byte) bool { return strings.IndexByte(spaces, c) >= 0 }

// split cuts a line into words, which it writes over the line. A word may have parts in quotes: in
// double quotes with the escapes of C and \xHH, in single quotes only with \'. A word ends with its
// closing quote.
func (r *Reader) split(line []byte) error {
	words := line[:0]
	for line = bytes.TrimLeft(line, spaces); len(line) > 0; line = bytes.TrimLeft(line, spaces) {
		quote := byte(0) // the quote that has been opened, or 0
		begin := len(words)
		i := 0
		for ; i < len(line) && (quote != 0 || !isSpace(line[i])); i++ {
			c := line[i]
			switch {
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote == 0:
				words = append(words, c)
			case c == quote:
				if quote = 0; i+1 < len(line) && !isSpace(line[i+1]) {
					return errQuotes
				}
			default:
				used := 1
				if c == '\\' && i+1 < len(line) {
					c, used = unescape(line[i:], quote)
				}
				words = append(words, c)
				i += used - 1
			}
		}
		if quote != 0 {
			return errQuotes
		}
		if len(r.args) == r.Args {
			return ProtocolError("too big inline request")
		}
		r.args = append(r.args, words[begin:len(words):len(words)])
		line = line[i:]
	}
	return nil
}

// unescape returns the byte that the escape at the start of line means, and the length of the
// escape.
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
	if i := strings.IndexByte("nrtba", line[1]); i >= 0 {
		return "\n\r\t\b\a"[i], 2
	}
	return line[1], 2
}
