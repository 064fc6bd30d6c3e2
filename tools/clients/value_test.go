package clients

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The value of a reply is nil, or a bool, int64, string, []any, map[string]any or error.

// parse returns the value of the reply that lines begin with, and the lines after it.
func parse(t testing.TB, lines []string) (value any, rest []string) {
	line, rest := lines[0], lines[1:]
	n, err := strconv.Atoi(line[1:])
	switch {
	case line == "_" || line == "$-1":
		return nil, rest
	case line[0] == '#':
		return line == "#t", rest
	case line[0] == '+':
		return line[1:], rest
	case line[0] == '-':
		return errors.New(line[1:]), rest
	case line[0] == '"':
		text, err := strconv.Unquote(line)
		if err != nil {
			t.Fatal(line)
		}
		return text, rest
	case strings.HasPrefix(line, ":.."):
		return bounded(line), rest
	case err != nil:
		t.Fatal(line)
	case line[0] == '*':
		all := make([]any, n)
		for i := range all {
			all[i], rest = parse(t, rest)
		}
		return all, rest
	case line[0] == '%':
		all := map[string]any{}
		for range n {
			var key any
			key, rest = parse(t, rest)
			all[key.(string)], rest = parse(t, rest)
		}
		return all, rest
	}
	return int64(n), rest
}

// bounded is the text of a number of which a transcript gives only the greatest value.
type bounded string

// kindOfError matches the first word of an error, if some clients drop it.
var kindOfError = regexp.MustCompile("^(ERR|EXECABORT) ")

// show returns lines for a value. They are the same for two values that clients do not tell apart.
func show(value any) []string {
	switch v := value.(type) {
	case nil:
		return []string{"_"}
	case bool:
		return []string{map[bool]string{true: "#t", false: "#f"}[v]}
	case int64:
		return []string{fmt.Sprintf(":%d", v)}
	case bounded:
		return []string{string(v)}
	case string:
		return []string{strconv.Quote(v)}
	case error:
		return []string{"-" + kindOfError.ReplaceAllString(v.Error(), "")}
	case []any:
		lines := []string{fmt.Sprintf("*%d", len(v))}
		for _, e := range v {
			lines = append(lines, show(e)...)
		}
		return lines
	case map[string]any:
		lines := []string{fmt.Sprintf("%%%d", len(v))}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			lines = append(append(lines, strconv.Quote(name)), show(v[name])...)
		}
		return lines
	}
	return []string{fmt.Sprintf("%T %v", value, value)}
}

// asIntegers replaces truth values by integers, which some functions of clients return in their place.
func asIntegers(lines []string) []string {
	for i, l := range lines {
		switch l {
		case "#t":
			lines[i] = ":1"
		case "#f":
			lines[i] = ":0"
		}
	}
	return lines
}
