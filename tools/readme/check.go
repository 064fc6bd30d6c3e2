package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// check does what the blocks say, in order.
func (c *checker) check(blocks []block) {
	var printed string // the output of the last command
	ran := false
	for _, b := range blocks {
		switch {
		case b.marked("text"):
		case b.marked("output"):
			if !ran {
				c.report(b.line, "no command before this block could have printed it")
				break
			}
			c.compare(command{line: b.line, shown: b.lines, whole: true}, printed)
		case b.lang == "go":
			c.compile(b)
		default:
			for _, cmd := range b.commands() {
				if !c.elsewhere(&b, cmd) {
					printed, ran = c.run(cmd), true
				}
			}
			c.checkMarks(&b)
		}
	}
}

// elsewhere reports whether a mark says that a step runs the command.
func (c *checker) elsewhere(b *block, cmd command) bool {
	for _, m := range b.marks {
		if m.kind == "step" && strings.HasPrefix(cmd.text, m.prefix) {
			fmt.Fprintf(c.log, "- %s (step %s)\n", cmd.text, m.step)
			return true
		}
	}
	return false
}

// checkMarks reports marks with unknown steps, with steps that do not mention the command, and
// marks that match no command.
func (c *checker) checkMarks(b *block) {
	for _, m := range b.marks {
		words := strings.Fields(m.prefix)
		if text, ok := c.steps[m.step]; !ok {
			c.report(m.line, ".ci/run runs no step %q", m.step)
		} else if about := words[len(words)-1]; !strings.Contains(text, about) {
			c.report(m.line, "step %s of .ci/run does not mention %s", m.step, about)
		}
		if !slices.ContainsFunc(b.commands(), func(cmd command) bool { return strings.HasPrefix(cmd.text, m.prefix) }) {
			c.report(m.line, "no command of the block begins with %q", m.prefix)
		}
	}
}

var (
	stepFunction = regexp.MustCompile(`(?m)^step_(\w+)\(\)`)
	stepList     = regexp.MustCompile(`(?m)^for step in \$\{\*:-([^}]*)\}`)
)

// steps returns the text of the steps that the gate runs by default.
func steps(gate string) map[string]string {
	all := map[string]string{}
	list := stepList.FindStringSubmatchIndex(gate)
	if list == nil {
		return all
	}
	run := strings.Fields(gate[list[2]:list[3]])
	found := stepFunction.FindAllStringSubmatchIndex(gate, -1)
	for i, at := range found {
		end := list[0]
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if name := gate[at[2]:at[3]]; slices.Contains(run, name) {
			all[name] = gate[at[0]:max(end, at[0])]
		}
	}
	return all
}

// run runs a command in bash and returns its output, including errors.
func (c *checker) run(cmd command) (printed string) {
	fmt.Fprintf(c.log, "+ %s\n", cmd.text)
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", cmd.text)
	bash.Dir = c.dir
	var out bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &out
	killTogether(bash)
	bash.WaitDelay = time.Second // for processes that keep the output open
	err := bash.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.report(cmd.line, "%s: still running after %v; if a step of .ci/run does it, say so in a comment:\n\t%s COMMAND: step NAME, WHY %s", cmd.text, c.limit, markOpen, markClose)
	case err != nil:
		c.report(cmd.line, "%s: %v\n%s", cmd.text, err, indented(out.String()))
	default:
		c.compare(cmd, out.String())
	}
	return out.String()
}

func indented(text string) string {
	return "\t" + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n\t")
}

// compare compares the output that README shows for a command with the real output.
func (c *checker) compare(cmd command, printed string) {
	if cmd.shown == nil || matches(masked(cmd.shown), masked(strings.Split(strings.TrimRight(printed, "\n"), "\n")), cmd.whole) {
		return
	}
	c.report(cmd.line, "README shows\n%s\nbut the command prints\n%s", indented(strings.Join(cmd.shown, "\n")), indented(printed))
}

// matches reports whether the lines match what is shown.
func matches(shown, lines []string, whole bool) bool {
	if len(shown) == 0 {
		return len(lines) == 0
	}
	if shown[0] == anyLines {
		for i := range len(lines) + 1 {
			if matches(shown[1:], lines[i:], whole) {
				return true
			}
		}
		return false
	}
	return len(lines) > 0 && (lines[0] == shown[0] || !whole && strings.Contains(lines[0], shown[0])) && matches(shown[1:], lines[1:], whole)
}

var figure = regexp.MustCompile(`[0-9]+([.,:][0-9]+)*( [KMG]iB)?`)

// masked replaces all numbers except sizes by 0, and runs of spaces by one space.
func masked(lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, strings.Join(strings.Fields(figure.ReplaceAllStringFunc(line, maskedFigure)), " "))
	}
	return out
}

// maskedFigure keeps sizes, which are the same everywhere.
func maskedFigure(figure string) string {
	if strings.HasSuffix(figure, "iB") {
		return figure
	}
	return "0"
}
