package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const manHelp = `Write the manual to the directory DIR: the page mmapfilter.1 and a page for each
command, such as mmapfilter-build.1. Without DIR, print mmapfilter.1.`

func newManCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "man [DIR]", Short: "print the manual, or write its pages to a directory", Long: manHelp,
		Args: takes(0, 1, "one directory at most"), ValidArgsFunction: completeDirs, Example: "mmapfilter man ~/.local/share/man/man1"}
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

// manualCommands returns the commands that have a page: all except the commands that cobra adds.
func manualCommands(parent *cobra.Command) (commands []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "completion" {
			commands = append(append(commands, cmd), manualCommands(cmd)...)
		}
	}
	return commands
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the manual page of a command, from the texts of its help. The page has no date,
// so that all builds of a version print the same page.
func manPage(cmd *cobra.Command) string {
	p := new(page)
	p.line(".TH %q 1 \"\" %q \"User Commands\"", strings.ToUpper(pageName(cmd)), "mmapfilter "+cmd.Root().Version)
	p.line(".SH NAME\n%s", roff(pageName(cmd)+" - "+cmd.Short))
	p.line(".SH SYNOPSIS\n.B %s", roff(cmd.UseLine()))
	p.line(".SH DESCRIPTION")
	p.text(cmd.Long)
	if cmd.HasAvailableLocalFlags() {
		p.line(".SH OPTIONS")
		cmd.LocalFlags().VisitAll(p.flag)
	}
	names := []string{pageName(cmd.Root()) + "(1)"}
	if !cmd.HasParent() {
		names = nil
		p.line("%s", manEnd)
	}
	if cmd.Example != "" {
		p.line(".SH EXAMPLE\n.nf\n%s\n.fi", roff(cmd.Example))
	}
	for _, c := range manualCommands(cmd) {
		names = append(names, pageName(c)+"(1)")
	}
	p.line(".SH SEE ALSO\n%s", roff(strings.Join(names, ", ")))
	return p.String()
}

// manEnd is a part of the page of the root.
const manEnd = `.SH FILES
.TP
.B FILTER
the filter
.TP
.B FILTER.stash
its log, while a writer has FILTER open or after that writer has died; copy and move it with FILTER
.TP
.B FILTER.stash.X
the log of a filter that was moved away without it; X is the UUID of that filter
.TP
.B FILTER.hashes
the hashes of its keys, if it keeps them; copy and move them with FILTER
.TP
.B FILTER.past
the hashes from before the last rebuild, with --keep-changes
.TP
.B NAME.set
the manifest of a set; it names the filters that are its shards
.SH ENVIRONMENT
.TP
.B MMAPFILTER_SEED
the seed of the hash, for build, create, set plan and uniq
.TP
.B TMPDIR
where uniq keeps its filter if --filter is not given`

// A page is a manual page under construction.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes paragraphs. The formatter fills the lines of a paragraph that is not indented.
func (p *page) text(text string) {
	for _, paragraph := range strings.Split(text, "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			paragraph = ".nf\n" + roff(paragraph) + "\n.fi"
		} else {
			paragraph = roff(paragraph)
		}
		p.line(".PP\n%s", paragraph)
	}
}

// flag writes what a flag is for.
func (p *page) flag(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name + " " + value
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	p.line(".TP\n.B %s\n%s", roff(strings.TrimSpace(name)), roff(usage))
}

// roff escapes what is special to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'").Replace("\n" + text)
	return text[1:]
}
