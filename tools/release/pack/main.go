// Command pack is what command release runs. It makes a release of mmapfilter from a clone:
//
//	go run ./tools/release -o DIR       the archives of the command, a Debian package, their checksums
//	go run ./tools/release -proxy DIR   a proxy of files, which serves the modules as their release would
//	go run ./tools/release -api         a record of the public API, with which later ones are compared
//	go run ./tools/release -tag         the tags, after all checks and the gate, in the order to push them
//
// Without a flag it checks that the tree can be released. Only -proxy and -api also take uncommitted
// changes. Version and date come from the first section of CHANGELOG.md; all go.mod files require this
// version of one another. The go.mod files of modules without versions begin with "// This module is
// run in a clone only:".
//
// Nothing is published: look at the tags, push them, and upload what is in DIR. The archives depend only
// on the commit and the version of Go.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := release(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A failure ends release, wherever it happens.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func refuse(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// caught is deferred, and puts a failure into err. Any other panic goes on.
func caught(err *error) {
	p := recover()
	if f, ok := p.(failure); ok {
		*err = f.error
	} else if p != nil {
		panic(p)
	}
}

func release(args []string) (err error) {
	defer caught(&err)
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	out := flags.String("o", "", "write archives, Debian packages and SHA256SUMS to `DIR`")
	systems := flags.String("systems", allSystems, "write the archives for these `SYSTEMS`")
	proxy := flags.String("proxy", "", "write a module proxy to `DIR`")
	api := flags.Bool("api", false, "record the public API")
	tag := flags.Bool("tag", false, "run the gate, then make the tags")
	flags.Parse(args)
	given := "" // in alphabetical order
	flags.Visit(func(f *flag.Flag) {
		if given += " -" + f.Name; f.Value.String() == "" {
			refuse("-%s has no value", f.Name)
		}
	})
	if flags.NArg() > 0 || !slices.Contains([]string{"", " -api", " -o", " -o -systems", " -proxy", " -tag"}, given) {
		refuse("give one flag, or -o and -systems, and nothing else: not%s %s", given, strings.Join(flags.Args(), " "))
	}
	t := readTree(strings.TrimSpace(git(".", "rev-parse", "--show-toplevel")))
	if problems := t.problems(); problems != nil {
		refuse("%s", strings.Join(problems, "\n"))
	}
	switch {
	case *api:
		t.recordAPI()
	case *proxy != "":
		t.writeProxy(must(filepath.Abs(*proxy)))
	case *out != "":
		t.committed()
		t.writeArchives(*out, strings.Split(*systems, ","))
	case *tag:
		t.ready()
		head := git(t.root, "rev-parse", "HEAD")
		t.gate()
		if t.ready(); git(t.root, "rev-parse", "HEAD") != head {
			refuse("another commit was checked out while the gate ran")
		}
		t.makeTags()
	default:
		t.ready()
	}
	return nil
}

// gate runs all steps of the gate, and refuses if one was not run.
func (t *tree) gate() {
	var out strings.Builder
	cmd := exec.Command(filepath.Join(t.root, ".ci/run"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.root, io.MultiWriter(os.Stderr, &out), os.Stderr
	cmd.Env = append(os.Environ(), "SKIP=", "FUZZRUNS=")
	check(cmd.Run())
	if !regexp.MustCompile(`(?:^|\n)== passed in \d+s\n$`).MatchString(out.String()) {
		refuse("the gate did not run all its steps")
	}
}

// committed refuses a tree with uncommitted changes.
func (t *tree) committed() {
	if changed := git(t.root, "status", "--porcelain", "--untracked-files=all"); changed != "" {
		refuse("these files are not committed:\n%s", changed)
	}
}

// newFolder makes a folder, and refuses one that is inside the tree or has files.
func (t *tree) newFolder(dir string) string {
	check(os.MkdirAll(dir, 0o777))
	dir = must(filepath.EvalSymlinks(must(filepath.Abs(dir))))
	if rel, err := filepath.Rel(must(filepath.EvalSymlinks(t.root)), dir); err == nil && filepath.IsLocal(rel) {
		refuse("%s is inside the tree", dir)
	}
	if len(must(os.ReadDir(dir))) > 0 {
		refuse("%s is not empty", dir)
	}
	return dir
}

// ready refuses a tree that cannot be released.
func (t *tree) ready() {
	t.committed()
	if _, err := time.Parse(time.DateOnly, t.date); err != nil {
		refuse("CHANGELOG.md has no date for %s: %w", t.version, err)
	}
	git(t.root, "var", "GIT_COMMITTER_IDENT") // fails without an identity, which tags need
	if tags := git(t.root, "tag", "--list", t.version, "*/"+t.version); tags != "" {
		refuse("there are tags already:\n%s", tags)
	}
	if changes := t.changesAPI(); changes != nil {
		refuse("the record of the API differs from this tree: run this program with -api, and commit\n%s", strings.Join(changes, "\n"))
	}
}

// makeTags makes all tags or none, and prints how to push them.
func (t *tree) makeTags() {
	var made []string // tags to remove again after a failure
	defer func() { git(t.root, append([]string{"tag", "--delete"}, made...)...) }()
	for _, m := range t.modules {
		git(t.root, "tag", "--annotate", "--message", m.path()+" "+t.version, m.tag(t.version))
		made = append(made, m.tag(t.version))
	}
	fmt.Println("git push origin " + strings.Join(made, "\ngit push origin "))
	made = nil
}
