// Command release makes a release of mmapfilter from a clone:
//
//	go -C tools/release run . -proxy DIR   a proxy of files, which serves the modules as their release would
//	go -C tools/release run . -tag         the tags, after all checks and the gate, in the order to push them
//
// Without a flag it checks whether the tree could be released. Its version and its date are those of the
// first section of CHANGELOG.md; all go.mod files require this version of one another. The modules with
// versions are those whose go.mod does not begin with "// This module is run in a clone only:".
//
// Nothing is published: whoever has looked at the tags pushes them, and uploads. What it writes depends
// only on the tree and its last commit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := release(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(args []string) error {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	root := flags.String("root", "../..", "the clone")
	proxy := flags.String("proxy", "", "write a module proxy to `DIR`")
	tag := flags.Bool("tag", false, "run the gate, then make the tags")
	flags.Parse(args)
	dir, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	t, err := readTree(dir)
	if err != nil {
		return err
	}
	if problems := t.problems(); problems != nil {
		return errors.New(strings.Join(problems, "\n"))
	}
	if *proxy != "" {
		return t.writeProxy(*proxy)
	}
	if err := t.ready(); err != nil || !*tag {
		return err
	}
	return t.tag()
}

// ready returns why the tree cannot be released.
func (t *tree) ready() error {
	changed, err := git(t.root, "status", "--porcelain")
	switch {
	case err != nil:
		return err
	case changed != "":
		return fmt.Errorf("these files are not committed:\n%s", changed)
	case t.date == "not released":
		return fmt.Errorf("CHANGELOG.md has no date for %s", t.version)
	}
	for _, m := range t.modules {
		if has, err := git(t.root, "tag", "--list", m.tag(t.version)); err != nil {
			return err
		} else if has != "" {
			return fmt.Errorf("there is a tag %s already", m.tag(t.version))
		}
	}
	return nil
}

// tag makes the tags if the gate passes.
func (t *tree) tag() error {
	head, err := git(t.root, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if _, err := run(t.root, nil, ".ci/run"); err != nil {
		return err
	}
	if now, err := git(t.root, "rev-parse", "HEAD"); err != nil || now != head {
		return errors.Join(err, errors.New("another commit was checked out while the gate ran"))
	}
	if err := t.ready(); err != nil {
		return err
	}
	return t.makeTags()
}

func (t *tree) makeTags() error {
	for _, m := range t.modules {
		name := m.tag(t.version)
		if _, err := git(t.root, "tag", "--annotate", "--message", m.path()+" "+t.version, name); err != nil {
			return err
		}
		fmt.Println("git push origin " + name)
	}
	return nil
}
