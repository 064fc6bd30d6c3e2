package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	blockBegin = regexp.MustCompile(`^<!-- results ([a-z0-9-]+) -->$`)
	blockEnd   = "<!-- end of %s -->"
)

// indent is the indentation of a command.
const indent = "    "

// A section of a page is prose, or a block that begins with its command.
type section struct {
	name  string // "" for prose
	lines []string
}

// command returns the command of a block.
func (s *section) command() string {
	if s.name == "" || len(s.lines) == 0 {
		return ""
	}
	return strings.TrimPrefix(s.lines[0], indent)
}

// parsePage splits a page into sections.
func parsePage(text string) (parts []section, err error) {
	names := map[string]bool{}
	now := section{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		begin := blockBegin.FindStringSubmatch(line)
		switch {
		case now.name == "" && begin != nil:
			if names[begin[1]] {
				return nil, fmt.Errorf("two blocks are called %s", begin[1])
			}
			names[begin[1]] = true
			parts = append(parts, now)
			now = section{name: begin[1]}
		case now.name != "" && line == fmt.Sprintf(blockEnd, now.name):
			if len(now.lines) == 0 || !strings.HasPrefix(now.lines[0], indent) {
				return nil, fmt.Errorf("the block %s does not begin with a command", now.name)
			}
			parts = append(parts, now)
			now = section{}
		case strings.HasPrefix(line, "<!-- "):
			return nil, fmt.Errorf("%q begins or ends no block here", line)
		default:
			now.lines = append(now.lines, line)
		}
	}
	if now.name != "" {
		return nil, fmt.Errorf("the block %s has no end", now.name)
	}
	return append(parts, now), nil
}

// formatPage is the inverse of parsePage.
func formatPage(parts []section) string {
	var b strings.Builder
	for _, p := range parts {
		if p.name != "" {
			fmt.Fprintf(&b, "<!-- results %s -->\n", p.name)
		}
		for _, line := range p.lines {
			b.WriteString(line + "\n")
		}
		if p.name != "" {
			fmt.Fprintf(&b, blockEnd+"\n", p.name)
		}
	}
	return b.String()
}

// fill replaces the text of a block below its command by the output of the command. It drops the
// line in the output that repeats the command, and makes blank lines single.
func (s *section) fill(out string) {
	command := s.command()
	out = strings.TrimSpace(strings.TrimPrefix(out, indent+command+"\n"))
	lines := strings.Split(out, "\n")
	lines = slices.CompactFunc(lines, func(a, b string) bool { return a == "" && b == "" })
	s.lines = append([]string{indent + command}, lines...)
}
