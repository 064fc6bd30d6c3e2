package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A block is a block of README, with the number of its first line.
type block struct {
	line  int
	lang  string // the word after the fence; "" for an indented block
	lines []string
	marks []mark
}

// A mark is a comment before a block.
type mark struct {
	line   int
	kind   string // "text", "output" or "step"
	prefix string // of a step: the prefix of the commands that it runs
	step   string
}

func (b *block) marked(kind string) bool {
	return slices.ContainsFunc(b.marks, func(m mark) bool { return m.kind == kind })
}

const (
	indent    = "    "
	fence     = "```"
	markOpen  = "<!-- readme:"
	markClose = "-->"
)

// parse finds the blocks, and reports malformed marks.
func parse(readme string) (blocks []block, problems []problem) {
	lines := strings.Split(strings.ReplaceAll(readme, "\r\n", "\n"), "\n")
	var marks []mark
	add := func(b block) {
		b.marks, marks = marks, nil
		blocks = append(blocks, b)
	}
	begins := true // an indented block may begin here
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, fence):
			b := block{line: i + 2, lang: strings.TrimSpace(strings.TrimLeft(line, "`"))}
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], fence); i++ {
				b.lines = append(b.lines, lines[i])
			}
			if i == len(lines) {
				problems = append(problems, problem{b.line - 1, "the block is not closed"})
			}
			add(b)
			begins = false
		case begins && strings.HasPrefix(line, indent) && strings.TrimSpace(line) != "":
			b := block{line: i + 1}
			for ; i < len(lines) && (strings.HasPrefix(lines[i], indent) || strings.TrimSpace(lines[i]) == ""); i++ {
				b.lines = append(b.lines, strings.TrimPrefix(lines[i], indent))
			}
			i--
			for strings.TrimSpace(b.lines[len(b.lines)-1]) == "" {
				b.lines = b.lines[:len(b.lines)-1]
			}
			add(b)
		case strings.HasPrefix(line, markOpen):
			m, err := parseMark(line)
			if m.line = i + 1; err != nil {
				problems = append(problems, problem{m.line, err.Error()})
			} else {
				marks = append(marks, m)
			}
			begins = true
		default:
			if begins = strings.TrimSpace(line) == ""; begins {
				continue
			}
			for _, m := range marks {
				problems = append(problems, problem{m.line, "no block follows"})
			}
			marks = nil
		}
	}
	for _, m := range marks {
		problems = append(problems, problem{m.line, "no block follows"})
	}
	return blocks, problems
}

var stepMark = regexp.MustCompile(`^(\S.*): step (\w+), \S`)

func parseMark(line string) (m mark, err error) {
	text, ok := strings.CutSuffix(strings.TrimSpace(line), markClose)
	text = strings.TrimSpace(strings.TrimPrefix(text, markOpen))
	switch found := stepMark.FindStringSubmatch(text); {
	case !ok:
		return m, fmt.Errorf("the comment does not end on its line")
	case text == "text" || text == "output":
		return mark{kind: text}, nil
	case found != nil:
		return mark{kind: "step", prefix: found[1], step: found[2]}, nil
	}
	return m, fmt.Errorf("%q is not \"text\", \"output\" or \"COMMAND: step NAME, WHY\"", text)
}

// A command is a line for bash, with the output that README shows for it.
type command struct {
	line  int
	text  string
	shown []string
	whole bool // shown must equal whole lines
}

const (
	prompt    = "$ "
	anyLines  = "…"
	shownMark = "# -> "
)

// commands returns the commands of a block.
func (b *block) commands() (all []command) {
	console := len(b.lines) > 0 && strings.HasPrefix(b.lines[0], prompt)
	for i := 0; i < len(b.lines); i++ {
		text, line := b.lines[i], b.line+i
		if console {
			var ok bool
			if text, ok = strings.CutPrefix(text, prompt); !ok {
				last := &all[len(all)-1]
				last.shown, last.whole = append(last.shown, text), true
				continue
			}
		}
		for strings.HasSuffix(text, `\`) && i+1 < len(b.lines) {
			i++
			text += "\n" + b.lines[i]
		}
		c := command{line: line, text: text}
		if at := strings.LastIndex(text, shownMark); at >= 0 {
			c.text = strings.TrimRight(text[:at], " \t")
			c.shown = strings.Split(strings.TrimSpace(text[at+len(shownMark):]), " and ")
		}
		switch {
		case c.text == "" && c.shown != nil && len(all) > 0: // on its own line
			last := &all[len(all)-1]
			last.shown = append(last.shown, c.shown...)
		case c.text != "" && !strings.HasPrefix(c.text, "#"):
			all = append(all, c)
		}
	}
	return all
}

// A problem is something wrong in README.
type problem struct {
	line int // in README; 0 if none
	text string
}

func (p problem) String() string {
	if p.line == 0 {
		return "README.md: " + p.text
	}
	return fmt.Sprintf("README.md:%d: %s", p.line, p.text)
}
