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

// writeManual writes a page for the root, and one for each command.
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

// manualCommands are the commands that have a page: those of this program, not
// those that package cobra adds.
func manualCommands(root *cobra.Command) (commands []*cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && strings.HasPrefix(cmd.Long, "Usage: ") {
			commands = append(commands, cmd)
		}
	}
	return commands
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage makes a page of the manual from the help of a command, so that there is
// one text of the two. The help is paragraphs, and lists of flags or commands:
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
	if cmd.HasParent() {
		p.section("SEE ALSO")
		p.text(pageName(cmd.Root()) + "(1)")
		return p.b.String()
	}
	p.help(manEnd)
	p.section("SEE ALSO")
	var names []string
	for _, c := range manualCommands(cmd) {
		names = append(names, pageName(c)+"(1)")
	}
	p.text(strings.Join(names, ", "))
	return p.b.String()
}

// manEnd is what the first page has besides the help.
const manEnd = `
Files:
  FILTER          the filter
  FILTER.stash    its log, while it is written to or after its writer has died;
                  it belongs to FILTER, and is copied and moved with it

Environment:
  MMAPFILTER_SEED   the seed of the hash, for build, create and uniq
  TMPDIR            where uniq keeps what it remembers in one run`

// A page is written line by line.
type page struct {
	b strings.Builder
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

func (p *page) section(name string) { p.line(".SH %s", name) }

func (p *page) text(text string) { p.line("%s", roff(text)) }

// item matches a line of a list: the term, and after two spaces or more what it
// is. A term may be so long that it has the line to itself.
var item = regexp.MustCompile(`^ {2,6}(\S.*?)(?: {2,}(\S.*))?$`)

// headed matches a paragraph that is a section of a page.
var headed = regexp.MustCompile(`^(Exit status|Examples?|Files|Environment)[:,]`)

// help writes the body of a help. Lines of a paragraph are filled.
func (p *page) help(body string) {
	inList := false // the line before was of a list
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

// paragraph writes a line of one, the first with what sets it off.
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

// roff takes away what characters mean to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
