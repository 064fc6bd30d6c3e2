package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

const manHelp = `Usage: mmapfilter man [DIR]

Write the manual to the directory DIR: the page mmapfilter.1 and a page for each
command, such as mmapfilter-build.1. Without DIR, print mmapfilter.1.

Example: mmapfilter man ~/.local/share/man/man1`

func newManCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "man", Long: manHelp}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("man takes one directory, not %d", len(args))
		}
		return nil
	}
	cmd.ValidArgsFunction = completeDirs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			_, err := io.WriteString(cmd.OutOrStdout(), manPage(cmd.Root()))
			return err
		}
		return writeManual(cmd.Root(), args[0])
	}
	return cmd
}

// writeManual writes the page of the root and a page for each command.
func writeManual(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &fileError{dir, err}
	}
	for _, cmd := range append(manualCommands(root), root) {
		path := filepath.Join(dir, pageName(cmd)+".1")
		if err := os.WriteFile(path, []byte(manPage(cmd)), 0o666); err != nil {
			return &fileError{path, err}
		}
	}
	return nil
}

// manualCommands returns the commands that have a page: all but those that cobra adds.
func manualCommands(parent *cobra.Command) (commands []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() && strings.HasPrefix(cmd.Long, "Usage: ") {
			commands = append(append(commands, cmd), manualCommands(cmd)...)
		}
	}
	return commands
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage makes a manual page from the help of a command, so that the text exists only once. The
// help consists of paragraphs, and lists of flags or commands:
//
//	-n, --capacity N      what it is for, which may go on
//	                      in a line that is indented
func manPage(cmd *cobra.Command) string {
	p := new(page)
	p.line(".TH %q 1 \"\" %q \"User Commands\"", strings.ToUpper(pageName(cmd)), "mmapfilter "+cmd.Root().Version)
	p.section("NAME")
	p.text(pageName(cmd) + " - " + cmd.Short)
	usage, body, _ := strings.Cut(strings.TrimPrefix(cmd.Long, "Usage: "), "\n")
	p.section("SYNOPSIS")
	p.line(".B %s", roff(usage))
	p.section("DESCRIPTION")
	p.help(body)
	var names []string
	if cmd.HasParent() {
		names = append(names, pageName(cmd.Parent())+"(1)")
	} else {
		p.help(manEnd)
	}
	p.section("SEE ALSO")
	for _, c := range manualCommands(cmd) {
		names = append(names, pageName(c)+"(1)")
	}
	p.text(strings.Join(names, ", "))
	return p.b.String()
}

// manEnd follows the help on the page of the root.
const manEnd = `
Files:
  FILTER          the filter
  FILTER.stash    its log, while it is written to or after its writer has died;
                  it belongs to FILTER, and is copied and moved with it
  FILTER.stash.X  the log of a filter that was moved away without it, X its UUID
  FILTER.hashes   the hashes of its keys, if it keeps them; likewise
  NAME.set        the manifest of a set; it names the filters that are its shards

Environment:
  MMAPFILTER_SEED   the seed of the hash, for build, create, set plan and uniq
  TMPDIR            where uniq keeps what it remembers in one run`

// A page is a manual page under construction.
type page struct {
	b strings.Builder
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *page) section(name string) { p.line(".SH %s", name) }

func (p *page) text(text string) { p.line("%s", roff(text)) }

// item matches a line of a list: the term and, after two spaces or more, its description. A long
// term may have the line to itself.
var item = regexp.MustCompile(`^ {2,6}(\S.*?)(?: {2,}(\S.*))?$`)

// headed matches the start of a paragraph that becomes a section of a page.
var headed = regexp.MustCompile(`^(Exit status|Examples?|Files|Environment)[:,]`)

// help writes the body of a help text. The formatter fills the lines of a paragraph.
func (p *page) help(body string) {
	inList := false // the previous line was in a list
	newParagraph := true
	for _, line := range strings.Split(body, "\n") {
		m := item.FindStringSubmatch(line)
		switch {
		case line == "":
			newParagraph, inList = true, false
			continue
		case m != nil && !(inList && strings.HasPrefix(line, "       ")):
			p.line(".TP\n.B %s", roff(m[1]))
			if m[2] != "" {
				p.text(m[2])
			}
			inList = true
		case strings.HasPrefix(line, " "):
			p.text(strings.TrimSpace(line))
		default:
			p.paragraph(line, newParagraph || inList)
			inList = false
		}
		newParagraph = false
	}
}

// paragraph writes a line of a paragraph. Before the first line it starts a section or
// paragraph.
func (p *page) paragraph(line string, first bool) {
	if name := headed.FindString(line); name != "" && first {
		p.section(strings.ToUpper(strings.TrimRight(name, ":,")))
		if line = strings.TrimSpace(line[len(name):]); line == "" {
			return
		}
	} else if first {
		p.line(".PP")
	}
	p.text(line)
}

// roff escapes characters that are special to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
