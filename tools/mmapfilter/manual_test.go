package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestManual checks that a page has all text of the help, in the same order, and that none of it
// is special to the formatter.
func TestManual(t *testing.T) {
	t.Chdir(t.TempDir())
	if exit, stdout, stderr := runHere(nil, "man", "share/man1"); exit != 0 || stdout != "" {
		t.Fatal(exit, stdout, stderr)
	}
	macro := regexp.MustCompile(`^\.(TH|SH|PP|TP|B)( |$)`)
	root := newRootCommand()
	commands := append(manualCommands(root), root)
	for _, cmd := range commands {
		page, err := os.ReadFile(filepath.Join("share/man1", pageName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		if cmd.Short == "" {
			t.Errorf("%s: the help of the root says nothing about it", cmd.Name())
		}
		var words []string
		for line := range strings.Lines(string(page)) {
			line = strings.TrimSuffix(line, "\n")
			if found := macro.FindString(line); found != "" {
				line = line[len(found):]
			} else if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				t.Errorf("%s: no macro: %s", cmd.Name(), line)
			}
			line = strings.NewReplacer(`\e`, `\`, `\&`, "", `\-`, "-").Replace(line)
			words = append(words, strings.Fields(line)...)
		}
		for _, word := range strings.Fields(strings.TrimPrefix(cmd.Long, "Usage: ")) {
			// Headings of sections are in capitals, without the colon or comma.
			i := slices.IndexFunc(words, func(w string) bool {
				return w == word || w == strings.ToUpper(strings.TrimRight(word, ":,"))
			})
			if i < 0 {
				t.Errorf("%s: %q, or its place, is lost", cmd.Name(), word)
				break
			}
			words = words[i+1:]
		}
	}
	if files, err := os.ReadDir("share/man1"); err != nil || len(files) != len(commands) {
		t.Errorf("%d pages of %d commands, %v", len(files), len(commands), err)
	}
	page, err := os.ReadFile("share/man1/mmapfilter.1")
	if exit, stdout, _ := runHere(nil, "man"); exit != 0 || stdout != string(page) || err != nil {
		t.Errorf("exit %d, %s", exit, stdout)
	}
	if !strings.Contains(string(page), "\n.SH ENVIRONMENT\n") || !strings.Contains(string(page), "mmapfilter\\-check(1), ") {
		t.Errorf("%s", page)
	}
	page, _ = os.ReadFile("share/man1/mmapfilter-check.1")
	for _, want := range []string{"\n.TP\n.B \\-n, \\-\\-line\\-number\n", "\n.SH SEE ALSO\nmmapfilter(1)\n", "\n.PP\nKeys are the lines"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("not there: %q", want)
		}
	}
}

func TestVersion(t *testing.T) {
	build := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.24.1", Main: debug.Module{Version: module}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123abcd"}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "unknown"},
		{build("v1.2.3"), "v1.2.3 go1.24.1"},
		{build(""), "(devel) go1.24.1"},
		{build("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "(devel) (revision 0123abcd) go1.24.1"},
		{build("v1.2.4-pre", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "v1.2.4-pre (revision 0123abcd, modified) go1.24.1"},
	} {
		if got := version(c.info, c.info != nil); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	want := "mmapfilter " + version(debug.ReadBuildInfo()) + "\n"
	if exit, stdout, stderr := runHere(nil, "--version"); exit != 0 || stdout != want {
		t.Errorf("exit %d, %s%s, want %s", exit, stdout, stderr, want)
	}
}

// TestCompletion checks what cobra answers to its completion scripts.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct{ args, want string }{
		{"build --layout ", "auto packed semisorted compact :4"},
		{"grow --layout ", "auto packed semisorted compact :4"},
		{"merge -o m.mmf ", ":0"},
		{"uniq --window ", ":4"},
		{"check --residency ", "default random willneed populate lock heap :4"},
		{"demo --dir ", ":16"},
		{"man ", ":16"},
		{"set part", "partition :4"},
		{"set plan --layout ", "auto packed semisorted compact :4"},
		{"set build --plan ", ":0"},
		{"set build --spool ", ":16"},
		{"set gc ", ":16"},
		{"check -e ", ":4"},
		{"build --seed-file ", ":0"},
		{"check ", ":0"},
	} {
		args := append([]string{"__completeNoDesc"}, strings.Split(c.args, " ")...)
		exit, stdout, stderr := runHere(nil, args...)
		if got := strings.Join(strings.Fields(stdout), " "); exit != 0 || got != c.want {
			t.Errorf("%s: exit %d, %s, %s", c.args, exit, got, stderr)
		}
	}
	exit, stdout, _ := runHere(nil, "__complete", "")
	for _, cmd := range newRootCommand().Commands() {
		if line := cmd.Name() + "\t" + cmd.Short + "\n"; exit != 0 || !strings.Contains(stdout, line) {
			t.Errorf("not completed: %s", line)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if exit, stdout, stderr := runHere(nil, "completion", shell); exit != 0 || !strings.Contains(stdout, "__complete") {
			t.Errorf("%s: exit %d, %s", shell, exit, stderr)
		}
	}
	// The value of a flag without a completion is a file name.
	files := []string{"output", "filter", "keep", "like", "plan", "seed-file"}
	for _, cmd := range manualCommands(newRootCommand()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			_, completed := cmd.GetFlagCompletionFunc(f.Name)
			if takesValue := f.NoOptDefVal == ""; takesValue && !f.Hidden && completed == slices.Contains(files, f.Name) {
				t.Errorf("%s --%s: completed: %v", cmd.Name(), f.Name, completed)
			}
		})
	}
}
