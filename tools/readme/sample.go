package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compile checks a block of Go against the packages that it uses. The block is a file, or the
// statements of a function that returns an error. Its variables may be unused, because a sample
// is incomplete.
func (c *checker) compile(b block) {
	text := strings.Join(b.lines, "\n") + "\n"
	if strings.HasPrefix(text, "func ") {
		c.findExample(b, text)
		return
	}
	fmt.Fprintf(c.log, "+ compile lines %d to %d\n", b.line, b.line+len(b.lines)-1)
	fset := token.NewFileSet()
	name := filepath.Join(c.dir, "README.md") // imports are found relative to its directory
	place := fmt.Sprintf("//line %s:%d\n", name, b.line)
	if !strings.HasPrefix(strings.TrimSpace(text), "package ") {
		statements := "func sample() error {\n" + place + text + "\nreturn nil }\n"
		file, err := parser.ParseFile(fset, name, "package sample\n"+statements, parser.SkipObjectResolution)
		if err != nil {
			c.reportGo(b, err)
			return
		}
		text = "package sample\n" + c.imports(file) + statements
	} else {
		text = place + text
	}
	file, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		c.reportGo(b, err)
		return
	}
	build.Default.CgoEnabled = false // otherwise the importer would run cgo
	config := types.Config{
		Importer: importer.ForCompiler(fset, "source", nil),
		Error: func(err error) {
			if e, ok := err.(types.Error); !ok || !e.Soft { // soft errors are about unused names
				c.reportGo(b, err)
			}
		},
	}
	config.Check("sample", fset, []*ast.File{file}, nil)
}

// findExample looks for a function in the examples, which tests compile and run.
func (c *checker) findExample(b block, text string) {
	fmt.Fprintf(c.log, "+ find the example of lines %d to %d\n", b.line, b.line+len(b.lines)-1)
	files, _ := filepath.Glob(filepath.Join(c.dir, "*", "example_test.go"))
	for _, name := range files {
		if example, err := os.ReadFile(name); err == nil && strings.Contains("\n"+string(example), "\n"+text) {
			return
		}
	}
	c.report(b.line, "no example_test.go has this function, as it stands here")
}

// reportGo reports an error of the parser or of the type checker.
func (c *checker) reportGo(b block, err error) {
	line, text := b.line, err.Error()
	at := func(p token.Position, message string) {
		text = message
		if p.Line >= b.line && p.Line < b.line+len(b.lines) {
			line = p.Line
		}
	}
	switch e := err.(type) {
	case scanner.ErrorList:
		at(e[0].Pos, e[0].Msg)
	case types.Error:
		at(e.Fset.Position(e.Pos), e.Msg)
	}
	c.report(line, "the sample does not compile: %s", text)
}

// imports declares the packages that a file uses: those of the module by their last element, all
// others as those of the standard library.
func (c *checker) imports(file *ast.File) string {
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
		return true
	})
	text := ""
	for _, name := range names {
		switch {
		case isDir(c.dir, name):
			text += fmt.Sprintf("import %q; ", c.module()+"/"+name)
		case isDir(build.Default.GOROOT, "src", name):
			text += fmt.Sprintf("import %q; ", name)
		} // otherwise it is a variable
	}
	return text + "\n"
}

func isDir(path ...string) bool {
	info, err := os.Stat(filepath.Join(path...))
	return err == nil && info.IsDir()
}

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)`)

func (c *checker) module() string {
	mod, _ := os.ReadFile(filepath.Join(c.dir, "go.mod"))
	if found := moduleLine.FindSubmatch(mod); found != nil {
		return string(found[1])
	}
	return ""
}
