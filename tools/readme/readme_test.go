package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const gate = `step_bench() { sleep 9; }
step_test() { echo; }
step_old() { sleep 9; }
for step in ${*:-test bench gone}; do
done
`

// checked checks a README in an empty directory.
func checked(t *testing.T, readme string) (problems []problem) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("NOT TESTED: there is no bash")
	}
	blocks, problems := parse(readme)
	c := checker{dir: t.TempDir(), limit: time.Minute, steps: steps(gate), log: io.Discard, problems: problems}
	c.check(blocks)
	return c.problems
}

// TestProblems checks READMEs that have a problem in one line, or none if line is 0.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name, readme string
		line         int
		says         string
	}{
		{"nothing", "# A title\n\nText.\n", 0, ""},
		{"commands that work", "Text:\n\n    echo 1\n    true # a comment\n\n    true\n", 0, ""},
		{"a command that fails", "Text:\n\n    true\n    echo why; false # a comment\n    true\n", 4, "why"},
		{"a command that fails in a fenced block", "Text:\n```sh\ntrue\n\nfalse\n```\n", 5, "exit status 1"},
		{"a command that fails in a pipe", "\n    false | true\n", 2, "exit status 1"},
		{"a command that is no command", "Text:\n\n    ┌────┐\n", 3, "not found"},
		{"a picture", "Text:\n\n<!-- readme: text -->\n\n    ┌────┐\n", 0, ""},
		{"text in a fence", "<!-- readme: text -->\n```\nfalse\n```\n", 0, ""},
		{"a mark holds for one block", "<!-- readme: text -->\n\n    false\n\nText.\n\n    false\n", 7, "exit status 1"},
		{"not indented as a block", "A paragraph\n    false\n- item\n    false\n", 0, ""},
		{"a command in two lines", "\n    echo a \\\n      b # -> a b\n", 0, ""},
		{"a command in two lines that fails", "\n    true\n    false \\\n      b\n", 3, "exit status 1"},
		{"commands in their order", "\n    echo 1 >file\n\nText.\n\n    cat file # -> 1\n", 0, ""},

		{"what is shown", "\n    printf '17,x\\n18,y\\n' # -> 17,x and 18,y\n", 0, ""},
		{"other figures", "\n    echo it took 1.5 s, 1,000 keys # -> took 12 s, 7 keys\n", 0, ""},
		{"the same sizes", "\n    echo 1.5 MiB in 3 s # -> 1.5 MiB in 7 s\n", 0, ""},
		{"other sizes", "\n    echo 1.5 MiB # -> 1.4 MiB\n", 2, "1.5 MiB"},
		{"another output", "\n    true\n    echo 17,x # -> 17,y\n", 3, "17,x"},
		{"a line less", "\n    echo 1 # -> 1 and 2\n", 2, "README shows"},
		{"a line more", "\n    seq 3 # -> 1 and 2\n", 2, "README shows"},
		{"nothing where something is shown", "\n    true # -> 1\n", 2, "README shows"},
		{"in lines of their own", "\n    seq 2\n    # -> 1\n    # -> 2\n", 0, ""},
		{"errors are shown, too", "\n    echo file: 3 keys >&2 # -> 3 keys\n", 0, ""},
		{"some lines", "\n    printf 'a\\nb\\nc\\n' # -> a and … and c\n", 0, ""},
		{"some lines, and another", "\n    printf 'a\\nb\\nc\\n' # -> a and … and d\n", 2, "README shows"},

		{"an output", "\n    printf 'a  1\\nb 20\\n'\n\nprints\n\n<!-- readme: output -->\n```text\na 3\nb  4\n```\n", 0, ""},
		{"an output that differs", "\n    printf 'a\\nb\\n'\n\n<!-- readme: output -->\n\n    a\n    c\n", 6, "README shows"},
		{"a part of a line is not an output", "\n    echo a b\n\n<!-- readme: output -->\n\n    a\n", 6, "README shows"},
		{"an output of nothing", "<!-- readme: output -->\n\n    a\n", 3, "no command"},
		{"a console", "```console\n$ seq 2\n1\n2\n$ true\n$ echo a\na\n```\n", 0, ""},
		{"a console that differs", "```console\n$ true\n$ seq 2\n1\n```\n", 3, "README shows"},

		{"a step", "<!-- readme: sleep: step bench, which has the time -->\n\n    sleep 1000\n    true\n", 0, ""},
		{"a step for another command", "<!-- readme: sleep: step bench, which has the time -->\n\n    false\n    sleep 1000\n", 3, "exit status 1"},
		{"a step about something else", "<!-- readme: go sleep: step test, which has the time -->\n\n    go sleep 1000\n", 1, "does not mention sleep"},
		{"a step that does nothing", "<!-- readme: sleep: step bench, which has the time -->\n\n    true\n", 1, `begins with "sleep"`},
		{"an unknown step", "\n<!-- readme: sleep: step bunch, which has the time -->\n\n    sleep 1000\n", 2, `no step "bunch"`},
		{"a step that the gate does not run", "<!-- readme: sleep: step old, once -->\n\n    sleep 1000\n", 1, `no step "old"`},
		{"a step that the gate does not have", "<!-- readme: sleep: step gone, once -->\n\n    sleep 1000\n", 1, `no step "gone"`},
		{"no reason", "<!-- readme: sleep: step bench -->\n\n    true\n", 1, "WHY"},
		{"an unknown mark", "<!-- readme: skip -->\n\n    true\n", 1, `"skip"`},
		{"an open mark", "<!-- readme: text\n-->\n\n    true\n", 1, "does not end"},
		{"a mark of no block", "<!-- readme: text -->\n\nText.\n\n    true\n", 1, "no block"},
		{"a mark at the end", "Text.\n\n<!-- readme: text -->\n", 3, "no block"},
		{"an open fence", "Text.\n```sh\ntrue\n", 2, "not closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			problems := checked(t, c.readme)
			switch {
			case c.line == 0 && len(problems) > 0:
				t.Errorf("%v", problems)
			case c.line > 0 && (len(problems) != 1 || problems[0].line != c.line || !strings.Contains(problems[0].text, c.says)):
				t.Errorf("%v; there should be one of line %d that says %q", problems, c.line, c.says)
			}
		})
	}
}

// TestLongCommand checks that a command over the limit is killed with the processes that it
// started, and that the message says what to do.
func TestLongCommand(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("NOT TESTED: there is no bash")
	}
	blocks, _ := parse("Text.\n\n    sleep 1000 & echo $! >pid; wait\n")
	dir := t.TempDir()
	var pid []byte
	for limit := 100 * time.Millisecond; len(pid) == 0; limit *= 2 { // until the pid is written
		c := checker{dir: dir, limit: limit, log: io.Discard}
		c.check(blocks)
		if len(c.problems) != 1 || c.problems[0].line != 3 || !strings.Contains(c.problems[0].text, "<!-- readme: COMMAND: step NAME, WHY -->") {
			t.Fatalf("%v", c.problems)
		}
		pid, _ = os.ReadFile(filepath.Join(dir, "pid"))
	}
	var stat []byte
	for range 1000 { // the process may still be ending
		var err error
		stat, err = os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("a process goes on: %s", stat)
}

// TestSamples compiles blocks of Go, as files or as statements.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.com/filter\n\ngo 1.24\n")
	write(t, dir, "filter/filter.go", "package filter\n\ntype Filter struct{}\n\nfunc Open(name string) (*Filter, error) { return nil, nil }\nfunc (*Filter) Len() int { return 0 }\n")
	for _, c := range []struct {
		name, sample string
		line         int
		says         string
	}{
		{"statements", "f, err := filter.Open(\"x\")\nif err != nil {\n\treturn err\n}\nn := f.Len()", 0, ""},
		{"packages of the library", "fmt.Println(strings.ToUpper(\"x\"))", 0, ""},
		{"a file", "package main\n\nimport \"example.com/filter/filter\"\n\nfunc main() { filter.Open(\"x\") }", 0, ""},
		{"a method that is not there", "f, err := filter.Open(\"x\")\nif err != nil {\n\treturn err\n}\nn := f.Cap()", 9, "Cap"},
		{"a function that is not there", "\n\n_ = filter.Create", 7, "Create"},
		{"a variable that is not there", "f.Len()", 5, "undefined: f"},
		{"no Go", "if if", 5, "expected"},
		{"an argument too many", "package main\n\nimport \"example.com/filter/filter\"\n\nfunc main() { filter.Open(\"x\", 1) }", 9, "too many arguments"},
	} {
		blocks, problems := parse("Text.\n\nText:\n```go\n" + c.sample + "\n```\n")
		check := checker{dir: dir, log: io.Discard, problems: problems}
		t.Chdir(dir)
		check.check(blocks)
		switch problems := check.problems; {
		case c.line == 0 && len(problems) > 0:
			t.Errorf("%s: %v", c.name, problems)
		case c.line > 0 && (len(problems) == 0 || problems[0].line != c.line || !strings.Contains(problems[0].text, c.says)):
			t.Errorf("%s: %v; there should be one of line %d that says %q", c.name, problems, c.line, c.says)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestClone checks that only committed files are used, in a clone, and that nothing is left in
// the repository. Git must ignore all new files in the clone.
func TestClone(t *testing.T) {
	for _, tool := range []string{"git", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("NOT TESTED: there is no " + tool)
		}
	}
	dir := t.TempDir()
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	do("init", "-q")
	write(t, dir, ".ci/run", gate)
	write(t, dir, ".gitignore", "*.out\n")
	write(t, dir, "committed", "yes\n")
	write(t, dir, "README.md", "\n    cat committed >a.out # a.out is ignored\n    ls file\n    echo >left\n")
	do("add", ".")
	do("commit", "-q", "-m", "all")
	write(t, dir, "file", "") // not committed
	write(t, dir, "tools/x", "")
	problems, err := inClone(filepath.Join(dir, "tools"), time.Minute)
	if err != nil || len(problems) != 2 || problems[0].line != 3 || !strings.Contains(fmt.Sprint(problems[1]), "left") || strings.Contains(fmt.Sprint(problems[1]), "a.out") {
		t.Errorf("%v, %v", problems, err)
	}
	for _, name := range []string{"a.out", "left"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left in the repository", name)
		}
	}
}

// TestExampleOfREADME checks that a function in README must appear verbatim in the examples.
func TestExampleOfREADME(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "pkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	const example = "package pkg_test\n\nfunc one() {\n\tprintln(1)\n}\n\nfunc Example() { one() }\n"
	if err := os.WriteFile(filepath.Join(dir, "pkg", "example_test.go"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	for sample, found := range map[string]bool{
		"func one() {\n\tprintln(1)\n}":        true,
		"func one() {\n\tprintln(2)\n}":        false,
		"func one() {\n\tprintln(1) // 1\n}":   false,
		"func two() {\n}":                      false,
		"func Example() { one() }\nfunc x(){}": false,
	} {
		blocks, problems := parse("Text:\n\n```go\n" + sample + "\n```\n")
		c := checker{dir: dir, limit: time.Minute, log: io.Discard, problems: problems}
		c.check(blocks)
		if found != (len(c.problems) == 0) {
			t.Errorf("%q: %v", sample, c.problems)
		}
	}
}
