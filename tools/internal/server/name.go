package server

import (
	"fmt"
	"strings"
)

// maxName is how long the name of a key may be once it is escaped. A file name may have 255 bytes, and
// the files beside a filter have longer names than the filter.
const maxName = 200

const errLongName = refusal("ERR the name of the key is too long for a file")

// suffix ends the name of the file of a key.
const suffix = ".mmf"

// fileName returns the name of the file of a key: letters, digits and a few signs stand for themselves,
// any other byte is % and two hex digits. The empty key is a lone %.
func fileName(key string) (string, error) {
	if key == "" {
		return "%" + suffix, nil
	}
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_:,@+=", c) >= 0, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
		if b.Len() > maxName {
			return "", errLongName
		}
	}
	return b.String() + suffix, nil
}

// keyName is the inverse of fileName. It reports false for a name that fileName does not return.
func keyName(file string) (key string, ok bool) {
	escaped, ok := strings.CutSuffix(file, suffix)
	if !ok {
		return "", false
	}
	if escaped == "%" {
		return "", true
	}
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		c := escaped[i]
		if c == '%' && i+2 < len(escaped) {
			fmt.Sscanf(escaped[i+1:i+3], "%02x", &c)
			i += 2
		}
		b.WriteByte(c)
	}
	again, err := fileName(b.String())
	return b.String(), err == nil && again == file
}

// fileBeside takes the name of a file beside the file of a key. It returns the key, and the end of the
// name, which says what the file is. For the file of a key itself, whose name may look alike, and for
// any other file, it returns "".
func fileBeside(file string) (key, what string) {
	i := strings.LastIndex(file, suffix+".")
	if i < 0 {
		return "", ""
	}
	key, ok := keyName(file[:i] + suffix)
	if _, is := keyName(file); is || !ok {
		return "", ""
	}
	return key, file[i+len(suffix)+1:]
}
