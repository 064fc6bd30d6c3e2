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

// TestHelp checks that each command and each flag has a help text, that the help fits a terminal with 80
// columns, and that the manual has the words of the help in the same order, and uses only known macros.
func TestHelp(t *testing.T) {
	t.Chdir(t.TempDir())
	if stdout := must(t, "", "man", "share/man1"); stdout != "" {
		t.Error(stdout)
	}
	macro := regexp.MustCompile(`^\.(TH|SH|PP|TP|B|nf|fi)( |$)`)
	root := newRootCommand()
	commands := append(manualCommands(root), root)
	for _, cmd := range commands {
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s has no help text", pageName(cmd))
		}
		help := must(t, "", append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(help) {
			if len(line) > 80+len("\n") || strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Errorf("%s: %q", pageName(cmd), line)
			}
		}
		words := strings.Fields(cmd.Short + " " + cmd.UseLine() + " " + cmd.Long)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			value, usage := pflag.UnquoteUsage(f)
			if f.Hidden {
				return
			}
			if usage == "" || (value == "") != (f.NoOptDefVal != "") || value != strings.ToUpper(value) && value != "NAME.set" {
				t.Errorf("%s: --%s %q %q", pageName(cmd), f.Name, value, usage)
			}
			words = append(words, "--"+f.Name)
			words = append(words, strings.Fields(value+" "+usage)...)
		})
		page, err := os.ReadFile(filepath.Join("share/man1", pageName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		var printed []string
		for line := range strings.Lines(string(page)) {
			line = strings.TrimSuffix(line, "\n")
			if found := macro.FindString(line); found != "" {
				line = line[len(found):]
			} else if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				t.Errorf("%s: not a known macro: %s", pageName(cmd), line)
			}
			line = strings.NewReplacer(`\e`, `\`, `\&`, "", `\-`, "-").Replace(line)
			printed = append(printed, strings.Fields(line)...)
		}
		for _, word := range append(words, strings.Fields(cmd.Example)...) {
			i := slices.Index(printed, word)
			if i < 0 {
				t.Errorf("%s: the manual lacks the word %q, or has it elsewhere", pageName(cmd), word)
				break
			}
			printed = printed[i+1:]
		}
	}
	if files := fileNames(t, "share/man1"); len(files) != len(commands) {
		t.Errorf("%d pages for %d commands", len(files), len(commands))
	}
	page, err := os.ReadFile("share/man1/mmapfilter.1")
	if stdout := must(t, "", "man"); err != nil || stdout != string(page) || !strings.Contains(stdout, "\n.SH ENVIRONMENT\n") || !strings.Contains(stdout, "mmapfilter\\-check(1), ") {
		t.Errorf("%v, %s", err, stdout)
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

// TestCompletion checks the answers that cobra gives to its completion scripts.
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
	files := []string{"output", "filter", "keep", "like", "plan", "seed-file", "requirepass-file", "config", "for", "token-file"}
	for _, cmd := range manualCommands(newRootCommand()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			_, completed := cmd.GetFlagCompletionFunc(f.Name)
			if takesValue := f.NoOptDefVal == ""; takesValue && !f.Hidden && completed == slices.Contains(files, f.Name) {
				t.Errorf("%s --%s: completed: %v", cmd.Name(), f.Name, completed)
			}
		})
	}
}
