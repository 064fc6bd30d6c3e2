// Command release makes a release of mmapfilter from a clone. It builds and runs command pack, in
// the folder below, which is a module of its own, so that the library does not depend on what
// writes Debian packages. What pack does, and its flags, are described there.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	err := release()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(1) // git, go or pack has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release() error {
	find := exec.Command("git", "rev-parse", "--show-toplevel")
	find.Stderr = os.Stderr
	root, err := find.Output()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "pack")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "tools/release/pack")
	pack := exec.Command(program, os.Args[1:]...)
	for _, cmd := range []*exec.Cmd{build, pack} {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}
