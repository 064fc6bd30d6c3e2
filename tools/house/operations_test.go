package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperations checks that mmapfilter/OPERATIONS.md has each error that a program can meet, and each
// field of each Stats, at the beginning of a row of a table.
func TestOperations(t *testing.T) {
	page, err := os.ReadFile("../../mmapfilter/OPERATIONS.md")
	must(t, err)
	dirs := []string{"mmapfilter", "mmapfilter/sets", "mmapfilter/replica"}
	guards, err := filepath.Glob("../../mmapfilter/guard/*guard")
	must(t, err)
	if len(guards) != 3 {
		t.Fatalf("there are the guards %q, not three", guards)
	}
	for _, guard := range append(guards, "../../mmapfilter/guard") {
		dirs = append(dirs, strings.TrimPrefix(guard, "../../"))
	}
	for _, missing := range unlisted(t, "../..", dirs, string(page)) {
		t.Errorf("OPERATIONS.md has no row for %s", missing)
	}
}

// unlisted returns the errors and the fields of Stats of the packages that are not in the first cell of
// any row of a page. A name without a package stands for this name in all packages.
func unlisted(t *testing.T, root string, dirs []string, page string) (missing []string) {
	var rows strings.Builder
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			rows.WriteString(cells[1])
		}
	}
	want := func(dir, name string) {
		if !strings.Contains(rows.String(), "`"+name+"`") && !strings.Contains(rows.String(), "`"+filepath.Base(dir)+"."+name+"`") {
			missing = append(missing, fmt.Sprintf("%s (%s)", name, dir))
		}
	}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		must(t, err)
		structs := map[string]*ast.StructType{}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			must(t, err)
			for _, d := range f.Decls {
				if d, ok := d.(*ast.GenDecl); ok {
					for _, s := range d.Specs {
						for _, name := range errorsOf(s, structs) {
							want(dir, name)
						}
					}
				}
			}
		}
		for _, name := range fieldsOf("Stats", structs) {
			want(dir, name)
		}
	}
	return missing
}

// errorsOf returns the names of the errors in a declaration. If that declares a struct, errorsOf adds it
// to structs.
func errorsOf(s ast.Spec, structs map[string]*ast.StructType) (names []string) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if strings.HasPrefix(name.Name, "Err") {
				names = append(names, name.Name)
			}
		}
	case *ast.TypeSpec:
		if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
			names = append(names, s.Name.Name)
		}
		if fields, ok := s.Type.(*ast.StructType); ok {
			structs[s.Name.Name] = fields
		}
	}
	return names
}

// fieldsOf returns the exported fields of a struct, and of the structs embedded in it.
func fieldsOf(name string, structs map[string]*ast.StructType) (fields []string) {
	if structs[name] == nil {
		return nil
	}
	for _, field := range structs[name].Fields.List {
		if embedded, ok := field.Type.(*ast.Ident); ok && field.Names == nil {
			fields = append(fields, fieldsOf(embedded.Name, structs)...)
		}
		for _, name := range field.Names {
			if name.IsExported() {
				fields = append(fields, name.Name)
			}
		}
	}
	return fields
}

// TestUnlisted checks a page that lacks errors of both kinds, and fields of a struct and of an embedded
// one.
func TestUnlisted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a/a.go":      "package a\n\nvar ErrOne, ErrTwo, other error\n\ntype OneError struct{ Field int }\n\ntype TwoError = OneError\n\ntype hiddenError int\n",
		"a/stats.go":  "package a\n\ntype Stats struct {\n\tLen, Cap int\n\tPlan\n\thidden int\n}\n\ntype Plan struct{ Lines int `json:\"lines\"` }\n",
		"a/a_test.go": "package a\n\nvar ErrThree error\n",
	})
	const page = "| error | means |\n| `a.ErrOne`, `OneError` | `ErrTwo` |\n| `Len` | `Cap` |\nText: `TwoError` `Lines`\n"
	got := strings.Join(unlisted(t, dir, []string{"a"}, page), " ")
	if want := "ErrTwo (a) TwoError (a) Cap (a) Lines (a)"; got != want {
		t.Errorf("the page lacks %s, not %s", got, want)
	}
}
