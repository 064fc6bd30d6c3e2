// Command readme does what README.md tells a newcomer to do, in a fresh clone, and reports what
// fails or prints something other than README shows:
//
//	go run ./tools/readme
//
// A block of README is fenced, or indented by four spaces. Blocks of Go are compiled, except
// that a single function must instead be in an example_test.go, verbatim. Every other block
// holds commands: bash runs each line in the root of the clone, in the order of README, and the
// line must exit with 0. A line that ends with \ continues in the next one. .gitignore must name
// the files that the commands leave. If README shows the output of a command, the two are compared,
// except for numbers that are not sizes:
//
//	seq 3 | wc -l           # -> 3                 its lines, with " and " between them
//
// A line matches if it contains what is shown. If the first line of a block begins with "$ ", so
// does every command in it, and the lines that follow a command are its whole output. HTML
// comments before a block change how it is treated:
//
//	<!-- readme: text -->                          it does not hold commands
//	<!-- readme: output -->                        it is the output of the command before it
//	<!-- readme: go test: step test, ten minutes -->   commands that begin with "go test"
//	                                               are not run here but in step test of
//	                                               .ci/run, which has "test" somewhere
//
// In output that README shows, a line "…" stands for any lines.
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
	limit := flag.Duration("limit", 2*time.Minute, "time limit for a command")
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

// inClone clones the repository of dir at its last commit, and checks the README in the clone.
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

// git returns the output of a git command, without the last newline.
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
