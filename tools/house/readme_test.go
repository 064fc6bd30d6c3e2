package house

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var doReadme = flag.Bool("readme", false, "let TestReadme run the commands of README, in a clone of the last commit")

// commandTime limits each command of README. A step of the gate runs commands that take longer.
const commandTime = 10 * time.Minute

// TestReadme checks README.md. With -readme, it also runs the commands of README.
//
// A block of Go must be one of the programs that step consumer builds and runs. An indented block has
// commands: bash runs each line in the root of a fresh clone, in order, and the line must exit with 0.
// In the end, there must be no new files that .gitignore does not name. A line may show the output of
// its command:
//
//	seq 3 | wc -l     # -> 3
//
// Each line of the output contains what is shown for it; " and " separates lines. An indented block
// below a paragraph that ends in "prints" is the whole output of the command before it. Numbers are not
// compared, unless they are sizes. Commands in elsewhere are not run here.
func TestReadme(t *testing.T) {
	dir, err := filepath.Abs("../..")
	must(t, err)
	if *doReadme {
		clone := filepath.Join(t.TempDir(), "clone")
		git(t, dir, "clone", "--quiet", dir, clone)
		dir = clone
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	must(t, err)
	gate, err := os.ReadFile(filepath.Join(dir, ".ci", "run"))
	must(t, err)
	r := readme{name: "README.md", dir: dir, gate: string(gate), run: *doReadme, log: t.Log, marks: elsewhere}
	r.check(string(text))
	for _, b := range r.broken {
		t.Error(b)
	}
	if !*doReadme {
		return
	}
	if left := git(t, dir, "status", "--porcelain"); left != "" {
		t.Errorf("the commands of README leave files that .gitignore does not name:\n%s", left)
	}
}

// git returns the output of a git command.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	must(t, err)
	return string(out)
}

// A readme checks the text of README.md or RECIPES.md.
type readme struct {
	name    string // of the page
	exact   bool   // whether numbers in outputs are compared, too
	dir     string // where commands run
	gate    string // the text of .ci/run
	run     bool   // whether to run the commands
	log     func(...any)
	printed string // what the last command printed
	marks   []mark // of commands that are not run here
	broken  []string
}

// A mark says that a step of the gate runs the commands with this prefix. The text of the step must have
// the last word of the prefix.
type mark struct{ prefix, step string }

// elsewhere has the commands of README that other steps run.
var elsewhere = []mark{
	{"go get", "consumer"},
	{"go install", "consumer"},
	{"go run ./tools/mmapfilter demo", "demo"}, // the step checks the output
	{"go test ./mmapfilter", "bench"},          // runs every benchmark of ./mmapfilter once
	{"go test", "test"},                        // takes minutes
	{"go -C tools/bench", "bench"},             // its tests run all of tools/bench with little to do
}

var (
	stepList = regexp.MustCompile(`(?m)^for step in \$\{\*:-([^}]*)\}`)
)

func (r *readme) report(line int, format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf("%s:%d: %s", r.name, line, fmt.Sprintf(format, args...)))
}

// check checks the lines of the page.
func (r *readme) check(text string) {
	lines, used := strings.Split(text+"\n", "\n"), map[mark]bool{}
	for i := 0; i < len(lines); i++ {
		line, begin := lines[i], i
		switch {
		case strings.HasPrefix(line, "<!--"):
			r.report(i+1, "a comment: people who read the source of the page see it")
		case strings.HasPrefix(line, "```"):
			for i++; i < len(lines)-1 && lines[i] != "```"; i++ {
			}
			r.fence(begin+1, line, lines[begin+1:i])
		case strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == ""):
			for strings.HasPrefix(lines[i+1], "    ") {
				i++
			}
			r.block(begin+1, lines[begin:i+1], begin > 1 && strings.HasSuffix(lines[begin-2], "prints"), used)
		}
	}
	for _, m := range r.marks {
		if !used[m] {
			r.report(0, "the page has no command that begins with %s", m.prefix)
		}
	}
	r.reading(text)
}

// programs matches the programs that step consumer builds and runs.
const programs = "tools/release/pack/testdata/consumer/*/main.go"

// fence reports a program that is not one of step consumer's.
func (r *readme) fence(line int, fence string, sample []string) {
	files, _ := filepath.Glob(filepath.Join(r.dir, programs))
	found := slices.ContainsFunc(files, func(name string) bool {
		program, err := os.ReadFile(name)
		return err == nil && string(program) == strings.Join(sample, "\n")+"\n"
	})
	if fence != "```go" || !found {
		r.report(line, "no %s has this program verbatim", programs)
	}
}

// block runs the commands of an indented block, or compares the block with the last command's output.
func (r *readme) block(at int, lines []string, output bool, used map[mark]bool) {
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "    ")
	}
	if output {
		if r.run && !slices.Equal(r.masked(lines), r.masked(strings.Split(strings.TrimRight(r.printed, "\n"), "\n"))) {
			r.report(at, "this is not what the command prints:\n%s", r.printed)
		}
		return
	}
	for i, line := range lines {
		command, shown, shows := strings.Cut(line, "# -> ")
		if r.elsewhere(at+i, command, used) || !r.run {
			continue
		}
		r.log("+", command)
		r.do(at+i, command)
		printed := r.masked(strings.Split(strings.TrimRight(r.printed, "\n"), "\n"))
		if want := r.masked(strings.Split(shown, " and ")); shows && !slices.EqualFunc(printed, want, strings.Contains) {
			r.report(at+i, "it shows %q, but the command prints\n%s", shown, r.printed)
		}
	}
}

// elsewhere reports whether a mark says that a step of the gate runs the command, and checks the mark.
func (r *readme) elsewhere(line int, command string, used map[mark]bool) bool {
	for _, m := range r.marks {
		if !strings.HasPrefix(command, m.prefix) {
			continue
		}
		name := "step_" + m.step + "() "
		_, step, _ := strings.Cut("\n"+r.gate, "\n"+name)
		step, _, _ = strings.Cut(name+step, "\nstep_")
		about := m.prefix[strings.LastIndex(m.prefix, " ")+1:]
		list := stepList.FindStringSubmatch(r.gate)
		if list == nil || !slices.Contains(strings.Fields(list[1]), m.step) || !strings.Contains(step, about) {
			r.report(line, "the gate runs no step %s that mentions %s", m.step, about)
		}
		used[m] = true
		return true
	}
	return false
}

// do runs a command and keeps what it prints, errors included.
func (r *readme) do(line int, command string) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command)
	bash.Dir, bash.WaitDelay = r.dir, time.Second // in case processes keep the output open
	out, err := bash.CombinedOutput()
	if r.printed = string(out); err != nil {
		r.report(line, "%s: %v, %v\n%s", command, err, ctx.Err(), out)
	}
}

var (
	figure    = regexp.MustCompile(`[0-9]+([.,:][0-9]+)*( [KMG]iB)?`)
	readEntry = regexp.MustCompile("(?m)^[0-9]+\\. (`.*) \\(([^()]+)\\):")
	readName  = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
)

// masked replaces runs of spaces by one space and, unless r.exact is set, all numbers by 0 except sizes,
// which are the same on every machine.
func (r *readme) masked(lines []string) (out []string) {
	for _, line := range lines {
		line = figure.ReplaceAllStringFunc(line, func(figure string) string {
			if r.exact || strings.HasSuffix(figure, "iB") {
				return figure
			}
			return "0"
		})
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// reading reports functions that are not in the files where the section "Reading the source" has them.
func (r *readme) reading(text string) {
	_, section, _ := strings.Cut(text, "\n## Reading the source\n")
	for _, entry := range readEntry.FindAllStringSubmatch(section, -1) {
		files := []string{filepath.Join(r.dir, entry[2])}
		if filepath.Ext(entry[2]) != ".go" {
			files, _ = filepath.Glob(filepath.Join(files[0], "*.go"))
		}
		var code strings.Builder
		for _, file := range files {
			text, _ := os.ReadFile(file) // a function of a missing file is reported below
			code.Write(text)
		}
		for _, name := range readName.FindAllStringSubmatch(entry[1], -1) {
			receiver := ""
			if name[1] != "" {
				receiver = `\(\w+ \*?` + name[1] + `\) `
			}
			if !regexp.MustCompile(`(?m)^func ` + receiver + name[2] + `\b`).MatchString(code.String()) {
				r.report(0, "%s is not in %s", name[0], entry[2])
			}
		}
	}
}

// TestReadmes checks READMEs that have one problem, or none. If the problem is not in a single line,
// line is 0.
func TestReadmes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("NOT TESTED: there is no bash")
	}
	const gate = "step_bench() { sleep 9; }\nstep_test() { echo; }\nstep_old() { sleep 9; }\nfor step in ${*:-test bench gone}; do\n"
	bench, none := []mark{{"sleep", "bench"}}, []mark(nil)
	for _, c := range []struct {
		marks  []mark
		readme string
		line   int
		says   string
	}{
		{none, "# A title\n\nText.\n", 0, ""},
		{none, "Text:\n\n    echo 1\n    true # a comment\n\n    true\n", 0, ""},
		{none, "Text:\n\n    true\n    echo why; false # a comment\n    true\n", 4, "why"},
		{none, "\n    false | true\n", 2, "exit status 1"},
		{none, "A paragraph\n    false\n- item\n    false\n", 0, ""},
		{none, "\n    echo 1 >file\n\nText.\n\n    cat file # -> 1\n", 0, ""},
		{none, "\n    printf '17,x\\n18,y\\n' # -> 17,x and 18,y\n", 0, ""},
		{none, "\n    echo it took 1.5 s, 1,000 keys >&2 # -> took 12 s, 7 keys\n", 0, ""},
		{none, "\n    echo 1.5 MiB in 3 s # -> 1.5 MiB in 7 s\n", 0, ""},
		{none, "\n    echo 1.5 MiB # -> 1.4 MiB\n", 2, "1.5 MiB"},
		{none, "\n    true\n    echo 17,x # -> 17,y\n", 3, "17,x"},
		{none, "\n    echo 1 # -> 1 and 2\n", 2, "it shows"},
		{none, "\n    seq 3 # -> 1 and 2\n", 2, "it shows"},
		{none, "\n    true # -> 1\n", 2, "it shows"},
		{none, "\n    printf 'a  1\\nb 20\\n'\n\nprints\n\n    a 3\n    b  4\n", 0, ""},
		{none, "\n    printf 'a\\nb\\n'\n\nprints\n\n    a\n    c\n", 6, "not what"},
		{none, "\n    echo a b\n\nprints\n\n    a\n", 6, "not what"},
		{none, "<!-- a note -->\n", 1, "a comment"},
		{bench, "\n    sleep 1000\n    true\n", 0, ""},
		{bench, "\n    false\n    sleep 1000\n", 2, "exit status 1"},
		{bench, "\n    true\n", 0, "no command that begins with sleep"},
		{[]mark{{"go sleep", "test"}}, "\n    go sleep 1000\n", 2, "mentions sleep"},
		{[]mark{{"sleep", "bunch"}}, "\n    sleep 1000\n", 2, "no step bunch"},
		{[]mark{{"sleep", "old"}}, "\n    sleep 1000\n", 2, "no step old"},
		{[]mark{{"sleep", "gone"}}, "\n    sleep 1000\n", 2, "no step gone"},
		{none, "Text:\n\n```go\npackage main\n\nfunc main() {}\n```\n", 0, ""},
		{none, "Text:\n\n```go\npackage main\n\nfunc main() { }\n```\n", 3, "main.go has this program"},
		{none, "```go\nfunc main() {}\n```\n", 1, "main.go has this program"},
		{none, "```sh\npackage main\n\nfunc main() {}\n```\n", 1, "main.go has this program"},
		{none, "\n## Reading the source\n\n1. `one` and `T.two` (pkg/example_test.go): a\n2. `T.two` (pkg): b\n", 0, ""},
		{none, "\n## Reading the source\n\n1. `one` and `two` (pkg): a\n", 0, "`two` is not in pkg"},
		{none, "\n## Reading the source\n\n1. `T.one` (pkg/example_test.go): a\n", 0, "`T.one` is not in"},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"pkg/example_test.go": "package pkg_test\n\nfunc one() {\n\tprintln(1)\n}\n\nfunc (t *T) two() {}\n", strings.Replace(programs, "*", "a", 1): "package main\n\nfunc main() {}\n"})
		r := readme{name: "README.md", dir: dir, gate: gate, run: true, log: t.Log, marks: c.marks}
		r.check(c.readme)
		want := fmt.Sprintf("README.md:%d: ", c.line)
		if all := strings.Join(r.broken, "\n"); (c.says == "") != (all == "") || len(r.broken) > 1 || c.says != "" && !strings.HasPrefix(all, want) || !strings.Contains(all, c.says) {
			t.Errorf("%q: %q; want one problem in line %d that says %q", c.readme, r.broken, c.line, c.says)
		}
	}
	exact := readme{name: "RECIPES.md", exact: true, dir: t.TempDir(), run: true, log: t.Log}
	if exact.check("\n    echo 12 # -> 12\n    echo 12 # -> 13\n"); len(exact.broken) != 1 || !strings.HasPrefix(exact.broken[0], "RECIPES.md:3: it shows") {
		t.Errorf("%q; want one problem in line 3", exact.broken)
	}
}
