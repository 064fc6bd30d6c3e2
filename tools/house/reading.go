package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// An entry of README's list of what to read has names in backquotes, and the file or the folder
// that has these functions.
var (
	readingEntry = regexp.MustCompile("(?m)^[0-9]+\\. (`.*) \\(([^()]+)\\):")
	readingName  = regexp.MustCompile("`([^`]+)`")
)

// checkReading reports functions that README names in "Reading the source" and that are not where
// it says.
func checkReading(root string) (broken []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), "\n## Reading the source\n")
	for _, entry := range readingEntry.FindAllStringSubmatch(section, -1) {
		declared, err := functionsIn(filepath.Join(root, filepath.FromSlash(entry[2])))
		if err != nil {
			return nil, err
		}
		for _, name := range readingName.FindAllStringSubmatch(entry[1], -1) {
			if !declared[name[1]] {
				broken = append(broken, fmt.Sprintf("README names %s, which is not in %s", name[1], entry[2]))
			}
		}
	}
	return broken, nil
}

// functionsIn returns the functions in a file or in the files of a folder, as F and as T.F.
func functionsIn(path string) (sets, error) {
	files := []string{path}
	if filepath.Ext(path) != ".go" {
		var err error
		if files, err = filepath.Glob(filepath.Join(path, "*.go")); err != nil {
			return nil, err
		}
	}
	names := sets{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				names[receiver(d)+d.Name.Name] = true
			}
		}
	}
	return names, nil
}

// receiver returns the type of the receiver of a method, and a dot; of a function, "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
