// Package transcript reads what a server replies to commands, from files that people write. The
// tests of the server send the commands directly, and the tests of tools/clients send them through
// popular clients of Redis.
//
// A line begins with "# " before a comment, "> " before a command, and "< " before each line of its
// reply. A reply is written as in version 3 of the protocol, but strings are in quotes and have no
// length. Version 2 has the same replies without the types that are new in 3: see [Entry.Reply]. A line
// that only one of the versions has begins with "<2 " or "<3 ". The reply ":..100" stands for any whole
// number from 1 to 100.
package transcript

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// An Entry is a command with its reply.
type Entry struct {
	Line    int // number of its line in the file
	Command string
	replies [2][]string // in version 2 and in version 3
}

// Read reads a file.
func Read(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for i, line := range strings.Split(string(text), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		if mark == "" && rest == "" || mark == "#" {
			continue
		}
		if mark == ">" {
			all = append(all, Entry{Line: i + 1, Command: rest})
			continue
		}
		versions := map[string][]int{"<": {2, 3}, "<2": {2}, "<3": {3}}[mark]
		if versions == nil || len(all) == 0 {
			return nil, fmt.Errorf("%s:%d: %q", path, i+1, line)
		}
		e := &all[len(all)-1]
		for _, v := range versions {
			e.replies[v-2] = append(e.replies[v-2], inVersion(v, rest))
		}
	}
	return all, nil
}

// inVersion returns a line of version 3 as another version has it.
func inVersion(version int, line string) string {
	if version == 3 {
		return line
	}
	switch {
	case line == "#t":
		return ":1"
	case line == "#f":
		return ":0"
	case line == "_":
		return "$-1"
	case strings.HasPrefix(line, "%"):
		if n, err := strconv.Atoi(line[1:]); err == nil {
			return "*" + strconv.Itoa(2*n)
		}
	}
	return line
}

// Reply returns the lines of the reply in a version, 2 or 3. In version 2, truth values are the
// integers 1 and 0, a null is a string of length -1, and a map is an array of keys and values.
func (e *Entry) Reply(version int) []string { return e.replies[version-2] }

// Same reports whether a line of a reply matches a line of an entry.
func Same(got, want string) bool {
	most, bounded := strings.CutPrefix(want, ":..")
	if !bounded {
		return got == want
	}
	m, err := strconv.Atoi(most)
	n, wrong := strconv.Atoi(strings.TrimPrefix(got, ":"))
	return err == nil && wrong == nil && got[0] == ':' && 0 < n && n <= m
}
