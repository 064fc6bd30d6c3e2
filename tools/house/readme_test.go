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

var doReadme = flag.Bool("readme", false, "TestReadme does what README says, in a clone of the last commit")

// commandTime bounds a command of README. Those that take longer belong to a step of the gate.
const commandTime = 2 * time.Minute

// TestReadme checks README.md, and with -readme does what it tells a newcomer to do.
//
// A block of Go is a function of an example_test.go, verbatim: tests compile and run it. An indented
// block has commands: bash runs each line in the root of a fresh clone, in order, and the line must exit
// with 0. Then there are no new files that .gitignore does not name. Shown output is compared but for
// numbers, unless these are sizes:
//
//	seq 3 | wc -l     # -> 3                       its lines, with " and " between them: each contains this
//
// Comments before a block change how it is treated:
//
//	<!-- readme: output -->                            it is the output of the command before it
//	<!-- readme: go test: step test, ten minutes -->   commands that begin with "go test" are not run here
//	                                                   but in step test of .ci/run, which has "test" somewhere
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
	r := readme{dir: dir, gate: string(gate), run: *doReadme, log: t.Log}
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

// A readme checks the text of a README.
type readme struct {
	dir     string // where commands run
	gate    string // the text of .ci/run
	run     bool   // the commands
	log     func(...any)
	printed string // by the last command
	marks   []mark // of the block that comes
	broken  []string
}

// A mark is a comment before a block.
type mark struct {
	line               int
	text, prefix, step string
	used               bool
}

var (
	markLine = regexp.MustCompile(`^<!-- readme: (output|(\S.*): step (\w+), \S.*) -->$`)
	stepList = regexp.MustCompile(`(?m)^for step in \$\{\*:-([^}]*)\}`)
)

func (r *readme) report(line int, format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf("README.md:%d: %s", line, fmt.Sprintf(format, args...)))
}

// check goes through the lines of README.
func (r *readme) check(text string) {
	lines := strings.Split(text+"\n", "\n")
	for i := 0; i < len(lines); i++ {
		line, begin := lines[i], i
		switch m := markLine.FindStringSubmatch(line); {
		case m != nil:
			r.marks = append(r.marks, mark{line: i + 1, text: m[1], prefix: m[2], step: m[3]})
		case strings.HasPrefix(line, "<!-- readme:"):
			r.report(i+1, "this is not \"output\" or \"COMMAND: step NAME, WHY\"")
		case strings.HasPrefix(line, "```"):
			for i++; i < len(lines)-1 && lines[i] != "```"; i++ {
			}
			r.fence(begin+1, line, lines[begin+1:i])
		case strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == "" || strings.HasPrefix(lines[i-1], "<!--")):
			for strings.HasPrefix(lines[i+1], "    ") {
				i++
			}
			r.block(begin+1, lines[begin:i+1])
			r.endMarks()
		case line != "" || i == len(lines)-1:
			r.endMarks()
		}
	}
	r.reading(text)
}

// endMarks reports marks that mean nothing.
func (r *readme) endMarks() {
	for _, m := range r.marks {
		if !m.used {
			r.report(m.line, "no block or command follows that this comment is about")
		}
	}
	r.marks = nil
}

// fence looks for a function in the examples.
func (r *readme) fence(line int, fence string, sample []string) {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*", "example_test.go"))
	found := slices.ContainsFunc(files, func(name string) bool {
		example, err := os.ReadFile(name)
		return err == nil && strings.Contains("\n"+string(example), "\n"+strings.Join(sample, "\n")+"\n")
	})
	if fence != "```go" || !found || !strings.HasPrefix(sample[0], "func ") {
		r.report(line, "no example_test.go has this function, as it stands here")
	}
}

// block runs the commands of an indented block, or compares it with the output of the last one.
func (r *readme) block(at int, lines []string) {
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "    ")
	}
	if len(r.marks) == 1 && r.marks[0].text == "output" {
		r.marks[0].used = true
		if r.run && !slices.Equal(masked(lines), masked(strings.Split(strings.TrimRight(r.printed, "\n"), "\n"))) {
			r.report(at, "this is not what the command prints:\n%s", r.printed)
		}
		return
	}
	for i, line := range lines {
		command, shown, shows := strings.Cut(line, "# -> ")
		if r.elsewhere(command) || !r.run {
			continue
		}
		r.log("+", command)
		r.do(at+i, command)
		printed := masked(strings.Split(strings.TrimRight(r.printed, "\n"), "\n"))
		if want := masked(strings.Split(shown, " and ")); shows && !slices.EqualFunc(printed, want, strings.Contains) {
			r.report(at+i, "README shows %q, but the command prints\n%s", shown, r.printed)
		}
	}
}

// elsewhere reports whether a mark says that a step of the gate runs the command, and checks it.
func (r *readme) elsewhere(command string) bool {
	for i, m := range r.marks {
		if m.prefix == "" || !strings.HasPrefix(command, m.prefix) {
			continue
		}
		name := "step_" + m.step + "() "
		_, step, _ := strings.Cut("\n"+r.gate, "\n"+name)
		step, _, _ = strings.Cut(name+step, "\nstep_")
		about := m.prefix[strings.LastIndex(m.prefix, " ")+1:]
		list := stepList.FindStringSubmatch(r.gate)
		if list == nil || !slices.Contains(strings.Fields(list[1]), m.step) || !strings.Contains(step, about) {
			r.report(m.line, "the gate runs no step %s that mentions %s", m.step, about)
		}
		r.marks[i].used = true
		return true
	}
	return false
}

// do runs a command and keeps what it prints, errors included.
func (r *readme) do(line int, command string) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command)
	bash.Dir, bash.WaitDelay = r.dir, time.Second // for processes that keep the output open
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

// masked replaces all numbers by 0, except sizes, which are the same everywhere, and runs of spaces by
// one.
func masked(lines []string) (out []string) {
	for _, line := range lines {
		line = figure.ReplaceAllStringFunc(line, func(figure string) string {
			if strings.HasSuffix(figure, "iB") {
				return figure
			}
			return "0"
		})
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return out
}

// reading reports functions of the section "Reading the source" that are not where it says.
func (r *readme) reading(text string) {
	_, section, _ := strings.Cut(text, "\n## Reading the source\n")
	for _, entry := range readEntry.FindAllStringSubmatch(section, -1) {
		files := []string{filepath.Join(r.dir, entry[2])}
		if filepath.Ext(entry[2]) != ".go" {
			files, _ = filepath.Glob(filepath.Join(files[0], "*.go"))
		}
		var code strings.Builder
		for _, file := range files {
			text, _ := os.ReadFile(file) // whatever is missing is not found
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

// TestReadmes checks READMEs that have a problem in one line, or none if line is 0.
func TestReadmes(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("NOT TESTED: there is no bash")
	}
	const gate = "step_bench() { sleep 9; }\nstep_test() { echo; }\nstep_old() { sleep 9; }\nfor step in ${*:-test bench gone}; do\n"
	const bench = "<!-- readme: sleep: step bench, which has the time -->\n"
	for _, c := range []struct {
		readme string
		line   int
		says   string
	}{
		{"# A title\n\nText.\n", 0, ""},
		{"Text:\n\n    echo 1\n    true # a comment\n\n    true\n", 0, ""},
		{"Text:\n\n    true\n    echo why; false # a comment\n    true\n", 4, "why"},
		{"\n    false | true\n", 2, "exit status 1"},
		{"A paragraph\n    false\n- item\n    false\n", 0, ""},
		{"\n    echo 1 >file\n\nText.\n\n    cat file # -> 1\n", 0, ""},
		{"\n    printf '17,x\\n18,y\\n' # -> 17,x and 18,y\n", 0, ""},
		{"\n    echo it took 1.5 s, 1,000 keys >&2 # -> took 12 s, 7 keys\n", 0, ""},
		{"\n    echo 1.5 MiB in 3 s # -> 1.5 MiB in 7 s\n", 0, ""},
		{"\n    echo 1.5 MiB # -> 1.4 MiB\n", 2, "1.5 MiB"},
		{"\n    true\n    echo 17,x # -> 17,y\n", 3, "17,x"},
		{"\n    echo 1 # -> 1 and 2\n", 2, "README shows"},
		{"\n    seq 3 # -> 1 and 2\n", 2, "README shows"},
		{"\n    true # -> 1\n", 2, "README shows"},
		{"\n    printf 'a  1\\nb 20\\n'\n\nprints\n\n<!-- readme: output -->\n    a 3\n    b  4\n", 0, ""},
		{"\n    printf 'a\\nb\\n'\n\n<!-- readme: output -->\n\n    a\n    c\n", 6, "not what"},
		{"\n    echo a b\n\n<!-- readme: output -->\n\n    a\n", 6, "not what"},
		{"<!-- readme: output -->\n\n    a\n", 3, "not what"},
		{bench + "\n    sleep 1000\n    true\n", 0, ""},
		{bench + "\n    false\n    sleep 1000\n", 3, "exit status 1"},
		{"<!-- readme: go sleep: step test, which has the time -->\n\n    go sleep 1000\n", 1, "mentions sleep"},
		{bench + "\n    true\n", 1, "no block or command"},
		{bench + "\nText.\n\n    true\n", 1, "no block or command"},
		{"Text.\n\n" + bench, 3, "no block or command"},
		{"\n<!-- readme: sleep: step bunch, which has the time -->\n\n    sleep 1000\n", 2, "no step bunch"},
		{"<!-- readme: sleep: step old, once -->\n\n    sleep 1000\n", 1, "no step old"},
		{"<!-- readme: sleep: step gone, once -->\n\n    sleep 1000\n", 1, "no step gone"},
		{"<!-- readme: sleep: step bench -->\n\n    true\n", 1, "WHY"},
		{"Text:\n\n```go\nfunc one() {\n\tprintln(1)\n}\n```\n", 0, ""},
		{"Text:\n\n```go\nfunc one() {\n\tprintln(2)\n}\n```\n", 3, "no example_test.go"},
		{"```go\nfunc one() {\n\tprintln(1) // 1\n}\n```\n", 1, "no example_test.go"},
		{"```go\n\tprintln(1)\n```\n", 1, "no example_test.go"},
		{"```sh\nfunc one() {\n\tprintln(1)\n}\n```\n", 1, "no example_test.go"},
		{"\n## Reading the source\n\n1. `one` and `T.two` (pkg/example_test.go): a\n2. `T.two` (pkg): b\n", 0, ""},
		{"\n## Reading the source\n\n1. `one` and `two` (pkg): a\n", 0, "`two` is not in pkg"},
		{"\n## Reading the source\n\n1. `T.one` (pkg/example_test.go): a\n", 0, "`T.one` is not in"},
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"pkg/example_test.go": "package pkg_test\n\nfunc one() {\n\tprintln(1)\n}\n\nfunc (t *T) two() {}\n"})
		r := readme{dir: dir, gate: gate, run: true, log: t.Log}
		r.check(c.readme)
		want := fmt.Sprintf("README.md:%d: ", c.line)
		if all := strings.Join(r.broken, "\n"); (c.says == "") != (all == "") || len(r.broken) > 1 || c.says != "" && !strings.HasPrefix(all, want) || !strings.Contains(all, c.says) {
			t.Errorf("%q: %q; there should be one problem of line %d that says %q", c.readme, r.broken, c.line, c.says)
		}
	}
}
