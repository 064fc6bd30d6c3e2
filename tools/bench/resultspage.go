package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	blockBegin = regexp.MustCompile(`^<!-- results ([a-z0-9-]+): (.+) -->$`)
	blockEnd   = "<!-- end of %s -->"
)

// A section of a page is prose, or a block with a command.
type section struct {
	name, command string // "" for prose
	lines         []string
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
			now = section{name: begin[1], command: begin[2]}
		case now.name != "" && line == fmt.Sprintf(blockEnd, now.name):
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
			fmt.Fprintf(&b, "<!-- results %s: %s -->\n", p.name, p.command)
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

// A page is RESULTS.md in parts.
type page []section

func (p page) block(name string) (section, error) {
	for _, b := range p {
		if b.name == name {
			return b, nil
		}
	}
	return section{}, fmt.Errorf("there is no block %q", name)
}

// cell returns a cell of the first table that has the row and the column. If head is given, the
// head of the table must begin with it.
func (p page) cell(block, row, column string, head ...string) (string, error) {
	b, err := p.block(block)
	if err != nil {
		return "", err
	}
	var columns []string
	for i, line := range b.lines {
		cells := tableCells(line)
		if cells == nil {
			columns = nil
			continue
		}
		if columns == nil {
			columns = cells
			continue
		}
		at := slices.Index(columns, column)
		begins := strings.Split(row, "|")
		if at < 0 || len(head) > 0 && columns[0] != head[0] || len(cells) < len(begins) || !slices.Equal(cells[:len(begins)], begins) {
			continue
		}
		if at >= len(cells) || cells[at] == "" {
			return "", fmt.Errorf("line %d of block %s has no cell %q", i+1, block, column)
		}
		return cells[at], nil
	}
	return "", fmt.Errorf("block %s has no row %q with a column %q", block, row, column)
}

// tableCells returns the cells of a line of a table, without asterisks for bold; or nil for any
// other line.
func tableCells(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimRight(inner, " "), "|"), "|")
	for i, c := range cells {
		cells[i] = strings.Trim(strings.TrimSpace(c), "*")
	}
	return cells
}

// head returns the parts of the line of a block that says when and on what it was measured.
func (p page) head(block string) ([]string, error) {
	b, err := p.block(block)
	if err != nil {
		return nil, err
	}
	for _, line := range b.lines {
		if date, rest, ok := strings.Cut(line, ", "); ok && len(date) == len("2026-01-31") && strings.Contains(rest, "; commit ") {
			return append([]string{date}, strings.Split(rest, "; ")...), nil
		}
	}
	return nil, fmt.Errorf("block %s does not say what it was measured on", block)
}

// machine returns the processor, system and Go version of blocks, which must have the same, but for who
// built the kernel.
func (p page) machine(blocks ...string) (machine string, err error) {
	for i, block := range blocks {
		head, err := p.head(block)
		if err != nil {
			return "", err
		}
		if len(head) < 6 {
			return "", errors.New("the head of block " + block + " has too few parts")
		}
		system, _, _ := strings.Cut(head[3], "-")
		switch of := strings.Join([]string{head[1], system, head[4]}, ", "); {
		case i == 0:
			machine = of
		case of != machine:
			return "", fmt.Errorf("block %s was measured on %s, and block %s on %s", blocks[0], machine, block, of)
		}
	}
	return machine, nil
}

// dates returns the first and the last date of blocks.
func (p page) dates(blocks ...string) (string, error) {
	var all []string
	for _, block := range blocks {
		head, err := p.head(block)
		if err != nil {
			return "", err
		}
		all = append(all, head[0])
	}
	first, last := slices.Min(all), slices.Max(all)
	if first == last {
		return "on " + first, nil
	}
	return "from " + first + " to " + last, nil
}

// commands returns the commands of some blocks.
func (p page) commands(blocks ...string) (all []string, err error) {
	for _, name := range blocks {
		b, err := p.block(name)
		if err != nil {
			return nil, err
		}
		all = append(all, b.command)
	}
	return all, nil
}
