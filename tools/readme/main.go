// Command readme does what README.md tells a newcomer to do, in a fresh clone, and
// reports what does not work or prints something else than it says:
//
//	go run ./tools/readme
//
// A block of README is fenced, or indented by four spaces. One of go is compiled, but for
// a function: that stands in an example_test.go, letter by letter. Every other one is commands: each line is run by bash, in the root of the clone, in the order
// of README, and must exit with 0. A line that ends with \ goes on in the next one. Files
// that the commands leave must be ones that .gitignore names. What a command prints is
// compared, figures aside, where README shows it:
//
//	seq 3 | wc -l           # -> 3                 each line of it, with " and " between them
//
// A line matches if it contains what is shown. In a block whose first line begins with
// "$ ", so do all commands, and the lines after one are what it prints, as a whole.
// HTML comments before a block say what else is to be done with it:
//
//	<!-- readme: text -->                          it is no commands
//	<!-- readme: output -->                        it is what the command before it prints
//	<!-- readme: go test: step test, ten minutes -->   commands that begin with "go test"
//	                                               are not run here but in step test of
//	                                               .ci/run, which has "test" somewhere
//
// A line of what is printed may be "…" alone: any lines.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	limit := flag.Duration("limit", 2*time.Minute, "how long a command may take")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	problems, err := inClone(".", *limit)
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}

// inClone clones the repository that dir is in, as it was committed last, and holds its
// README against it.
func inClone(dir string, limit time.Duration) (problems []problem, err error) {
	root, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	if changed, err := git(root, "status", "--porcelain", "--untracked-files=no"); err != nil {
		return nil, err
	} else if changed != "" {
		fmt.Println("What is not committed is not looked at:\n" + changed)
	}
	temp, err := os.MkdirTemp("", "readme")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	clone := filepath.Join(temp, "clone")
	if _, err := git(root, "clone", "--quiet", root, clone); err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(clone, "README.md"))
	if err != nil {
		return nil, err
	}
	gate, err := os.ReadFile(filepath.Join(clone, ".ci", "run"))
	if err != nil {
		return nil, err
	}
	blocks, problems := parse(string(readme))
	c := checker{dir: clone, limit: limit, steps: steps(string(gate)), log: os.Stdout, problems: problems}
	c.check(blocks)
	left, err := git(clone, "status", "--porcelain")
	if left != "" {
		c.report(0, "the commands leave files that .gitignore does not name:\n%s", left)
	}
	return c.problems, err
}

// git gives what a git command prints, without the last newline.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if e, ok := err.(*exec.ExitError); ok {
		return "", fmt.Errorf("git %s: %v: %s", args[0], err, e.Stderr)
	}
	return string(trimNewline(out)), err
}

func trimNewline(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		return b[:n-1]
	}
	return b
}

// A problem is something in README that is not so.
type problem struct {
	line int // of README; 0: none
	text string
}

func (p problem) String() string {
	if p.line == 0 {
		return "README.md: " + p.text
	}
	return fmt.Sprintf("README.md:%d: %s", p.line, p.text)
}
