package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg holds what is checked about a package.
type pkg struct {
	path     string          // below the module path; "." is the module itself
	imports  []string        // packages of this module, written like path
	lines    map[string]int  // by file, including tests, without generated files
	exported int             // exported names, including methods and fields of exported types
	uses     map[string]sets // by file, the files whose names it uses; no tests
}

type sets map[string]bool

func (p pkg) total() (n int) {
	for _, lines := range p.lines {
		n += lines
	}
	return n
}

// load lists the packages of all modules in root and how their files use one another.
func load(root string) (all []pkg, err error) {
	// The plan and the cycles are those of one system, on whichever the program runs.
	s, packages, err := list(root, "linux/amd64", false)
	if err != nil {
		return nil, err
	}
	build.Default.GOOS, build.Default.GOARCH = s.on.of()
	build.Default.CgoEnabled = false
	nested, err := listNested(root, packages[0].Module.Path)
	if err != nil {
		return nil, err
	}
	for _, l := range append(packages, nested...) {
		p := newPkg(l)
		if err := errors.Join(p.count(l), p.resolve(s, l)); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// listNested lists the packages of the modules in folders of a module, as of one that has all of
// them. It asks for nothing that these need.
func listNested(root, module string) (all []listed, err error) {
	inside := sets{} // folders of such modules
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
			return filepath.SkipDir
		}
		_, err = os.Stat(filepath.Join(path, "go.mod"))
		if err != nil && !inside[filepath.Dir(path)] {
			return nil
		}
		inside[path] = true
		p, err := build.ImportDir(path, 0)
		if none := new(build.NoGoError); errors.As(err, &none) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		l := listed{
			Dir: path, ImportPath: module + "/" + filepath.ToSlash(name), Nested: true, GoFiles: p.GoFiles, TestGoFiles: p.TestGoFiles,
			XTestGoFiles: p.XTestGoFiles, IgnoredGoFiles: p.IgnoredGoFiles, Imports: p.Imports,
		}
		l.Module.Path = module
		all = append(all, l)
		return nil
	})
	return all, err
}

// newPkg finds out what a package imports.
func newPkg(l listed) pkg {
	p := pkg{path: below(l.Module.Path, l.ImportPath), lines: map[string]int{}, uses: map[string]sets{}}
	for _, i := range l.Imports {
		if i == l.Module.Path || strings.HasPrefix(i, l.Module.Path+"/") {
			p.imports = append(p.imports, below(l.Module.Path, i))
		}
	}
	return p
}

// count counts the lines of a package.
func (p *pkg) count(l listed) error {
	for _, file := range slices.Concat(l.GoFiles, l.TestGoFiles, l.XTestGoFiles, l.IgnoredGoFiles) {
		text, err := os.ReadFile(filepath.Join(l.Dir, file))
		if err != nil {
			return err
		}
		if !generated.Match(text) {
			p.lines[file] = bytes.Count(text, []byte("\n"))
		}
	}
	return nil
}

func below(module, path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

// resolve finds which files use names of which other files. A nested module may need modules, or
// parts of the standard library, that are not listed. Then it may miss a use of what their functions and
// types give back.
func (p *pkg) resolve(s *source, l listed) error {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{}
	if l.Nested {
		conf.Error = func(error) {} // of which there are many
	}
	made, err := s.check(l, conf, info)
	if err != nil && (!l.Nested || made == nil) {
		return err
	}
	name := func(pos token.Pos) string { return filepath.Base(s.fset.Position(pos).Filename) }
	for f := range p.lines {
		if slices.Contains(l.GoFiles, f) {
			p.uses[subject(f)] = sets{}
		}
	}
	for ident, object := range info.Uses {
		if object.Pkg() != made || isLocal(object) {
			continue
		}
		user, used := name(ident.Pos()), name(object.Pos())
		_, written := p.lines[user]
		_, also := p.lines[used]
		if user, used = subject(user), subject(used); written && also && user != used {
			p.uses[user][used] = true
		}
	}
	for _, name := range made.Scope().Names() {
		if object := made.Scope().Lookup(name); object.Exported() {
			p.exported += 1 + members(object)
		}
	}
	return nil
}

// subject is the name of a file without its system or processor: such variants count as one
// file.
func subject(file string) string {
	name := strings.TrimSuffix(file, ".go")
	for _, suffix := range []string{"linux", "unix", "bsd", "windows", "other", "none", "amd64", "arm64"} {
		name = strings.TrimSuffix(name, "_"+suffix)
	}
	return name
}

// isLocal reports whether an object is a label or is declared in a function, and so is in the
// same file as its use.
func isLocal(o types.Object) bool {
	_, label := o.(*types.Label)
	return label || o.Parent() != nil && o.Parent() != o.Pkg().Scope() && o.Parent() != types.Universe
}

// members counts the exported methods and fields of a type.
func members(o types.Object) (n int) {
	t, ok := o.Type().(*types.Named)
	if _, isType := o.(*types.TypeName); !ok || !isType {
		return 0
	}
	for i := range t.NumMethods() {
		if t.Method(i).Exported() {
			n++
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			if u.Field(i).Exported() {
				n++
			}
		}
	case *types.Interface:
		n += u.NumExplicitMethods()
	}
	return n
}
