package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A system is what code is built for, such as "linux/amd64".
type system string

// of returns the operating system and the architecture.
func (s system) of() (goos, goarch string) {
	goos, goarch, _ = strings.Cut(string(s), "/")
	return goos, goarch
}

// A listed is what "go list -json" prints for a package.
type listed struct {
	Dir, ImportPath                    string
	DepOnly                            bool // something needs it; it was not asked for
	Module                             struct{ Path, GoVersion string }
	Nested                             bool `json:"-"` // the module is in a folder of another
	GoFiles, TestGoFiles, XTestGoFiles []string
	IgnoredGoFiles, Imports            []string
	ImportMap                          map[string]string // from the paths in the source, where another is meant
}

// A source imports packages from their source. To compile what they need takes many times as
// long, for each system again.
type source struct {
	fset *token.FileSet
	on   system
	all  map[string]listed         // by path
	made map[string]*types.Package // likewise, without the bodies of functions
}

// list lists the packages of the module in root, in the order of "go list", and finds what they
// need. With tests, a package that has some is there again with their files, as "p [p.test]", and
// those of package p_test are there as "p_test [p.test]".
func list(root string, on system, tests bool) (*source, []listed, error) {
	goos, goarch := on.of()
	if goarch == "" { // the go command would take its own
		return nil, nil, fmt.Errorf("%q is not like linux/amd64", on)
	}
	args := []string{"list", "-deps", "-json=Dir,ImportPath,DepOnly,Module,GoFiles,TestGoFiles,XTestGoFiles,IgnoredGoFiles,Imports,ImportMap"}
	if tests {
		args = append(args, "-test")
	}
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	s := &source{token.NewFileSet(), on, map[string]listed{}, map[string]*types.Package{types.Unsafe.Path(): types.Unsafe}}
	var asked []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var l listed
		if err := d.Decode(&l); err != nil {
			return nil, nil, err
		}
		s.all[l.ImportPath] = l
		if program := tests && strings.HasSuffix(l.ImportPath, ".test"); !l.DepOnly && !program {
			asked = append(asked, l)
		}
	}
	return s, asked, nil
}

// check checks the types of a package.
func (s *source) check(l listed, conf types.Config, info *types.Info) (*types.Package, error) {
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	_, goarch := s.on.of()
	conf.Importer, conf.Sizes = importer{s, l.ImportMap}, types.SizesFor("gc", goarch)
	if v := l.Module.GoVersion; v != "" {
		conf.GoVersion = "go" + v
	}
	return conf.Check(l.ImportPath, s.fset, files, info)
}

// An importer resolves the imports of a package, some of which mean other paths (ImportMap).
type importer struct {
	*source
	means map[string]string
}

func (i importer) Import(path string) (*types.Package, error) {
	if other, ok := i.means[path]; ok {
		path = other
	}
	if made := i.made[path]; made != nil {
		return made, nil
	}
	l, ok := i.all[path]
	if !ok {
		return nil, fmt.Errorf("%s is not listed", path)
	}
	made, err := i.check(l, types.Config{IgnoreFuncBodies: true}, nil)
	if err != nil {
		return nil, err
	}
	i.made[path] = made
	return made, nil
}

// checkSystem reports what does not compile for a system, in the module in root with its tests.
func checkSystem(root string, on system) (broken []string, err error) {
	s, asked, err := list(root, on, true)
	if err != nil {
		return nil, err
	}
	for _, l := range asked {
		tell := func(err error) { broken = append(broken, fmt.Sprintf("%s: %v", on, err)) }
		if made, err := s.check(l, types.Config{Error: tell}, nil); made == nil {
			return nil, err
		}
	}
	return broken, nil
}
