package mistakes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// module returns the directory of the module.
func module(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	must(t, err)
	return dir
}

func list(t *testing.T) []Mistake {
	list, err := List(module(t))
	must(t, err)
	return list
}

// TestApply applies every mistake to the code as it is, and checks the types of the changed packages, so
// that a change of the code that breaks a diff shows up at once.
func TestApply(t *testing.T) {
	checks := map[string]*checker{} // by directory
	for _, m := range list(t) {
		dir := t.TempDir()
		if err := m.Apply(module(t), dir); err != nil {
			t.Error(err)
			continue
		}
		folders := map[string]bool{}
		for _, file := range m.Files {
			folders[filepath.Dir(file)] = true
		}
		for folder := range folders {
			if checks[folder] == nil {
				checks[folder] = newChecker(t, filepath.Join(module(t), folder))
			}
			var err error
			if len(folders) == 1 {
				err = checks[folder].check(filepath.Join(dir, folder))
			} else { // one package may use what the mistake changes in another
				err = compile(t, m, folder)
			}
			if err != nil {
				t.Errorf("%s does not compile: %v", m.Name, err)
			}
		}
		for _, file := range m.Files {
			before, err := os.ReadFile(filepath.Join(module(t), file))
			must(t, err)
			after, err := os.ReadFile(filepath.Join(dir, file))
			must(t, err)
			if bytes.Equal(before, after) {
				t.Errorf("%s does not change %s", m.Name, file)
			}
			if formatted, err := format.Source(after); err != nil || !bytes.Equal(formatted, after) {
				t.Errorf("%s: gofmt would change %s (%v)", m.Name, file, err)
			}
		}
	}
}

// compile compiles a package with a mistake.
func compile(t *testing.T, m Mistake, folder string) error {
	overlay, err := m.Overlay(module(t), t.TempDir())
	if err != nil {
		return err
	}
	c := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, ".")
	c.Dir = filepath.Join(module(t), folder)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// A checker checks the types of a package. This finds what the compiler would find, in a tenth of the
// time, because the go command has compiled the imports before and the package itself is not compiled.
type checker struct {
	path, dir string
	files     []string
	config    types.Config
	fset      *token.FileSet
}

// newChecker returns a checker of the package in a directory.
func newChecker(t *testing.T, dir string) *checker {
	t.Helper()
	c := &checker{dir: dir, fset: token.NewFileSet()}
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", ".")
	list.Dir = dir
	said, err := list.Output()
	if err != nil {
		t.Fatalf("go list in %s: %v", dir, err)
	}
	exports := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(said)); in.More(); {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		must(t, in.Decode(&p))
		exports[p.ImportPath] = p.Export
		c.path, c.files = p.ImportPath, p.GoFiles // the last one is the package itself
	}
	c.config.Importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// check checks the package. Files in the directory changed replace files of the package.
func (c *checker) check(changed string) error {
	var files []*ast.File
	for _, name := range c.files {
		path := filepath.Join(changed, name)
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(c.dir, name)
		}
		f, err := parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err := c.config.Check(c.path, c.fset, files, nil)
	return err
}

// TestChecker checks a package, and files that do not compile.
func TestChecker(t *testing.T) {
	dir := t.TempDir()
	c := newChecker(t, ".")
	for text, says := range map[string]string{
		"": "", "package": "expected", "package mistakes\n\nimport \"io\"\n": "imported and not used",
		"package mistakes\n\nfunc f() { x := 1 }\n": "declared and not used",
	} {
		if text != "" {
			must(t, os.WriteFile(filepath.Join(dir, "mistakes.go"), []byte(text), 0o600))
		}
		err := c.check(dir)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
		os.Remove(filepath.Join(dir, "mistakes.go"))
	}
}

// TestNoLongerApplies changes or removes a file that a mistake changes.
func TestNoLongerApplies(t *testing.T) {
	for _, m := range list(t) {
		copied := t.TempDir()
		for _, file := range m.Files {
			text, err := os.ReadFile(filepath.Join(module(t), file))
			must(t, err)
			must(t, os.MkdirAll(filepath.Join(copied, filepath.Dir(file)), 0o700))
			must(t, os.WriteFile(filepath.Join(copied, file), text, 0o600))
		}
		if err := m.Apply(copied, t.TempDir()); err != nil {
			t.Errorf("a copy of the files: %v", err)
		}
		last := m.Files[len(m.Files)-1]
		says := "testdata/mistakes/" + m.Name + ".diff no longer applies to " + last + ": "
		must(t, os.WriteFile(filepath.Join(copied, last), []byte("package changed\n"), 0o600))
		if err := m.Apply(copied, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s has changed: %v", last, err)
		}
		must(t, os.Remove(filepath.Join(copied, last)))
		if err := m.Apply(copied, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s is gone: %v", last, err)
		}
	}
}

func TestParse(t *testing.T) {
	const diff = "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-package x\n+package y\n"
	for _, c := range []struct{ text, says string }{
		{"It is wrong.\nFound by: TestX, TestKill\n\n" + diff, ""},
		{"It is wrong.\nFound by: TestX, TestKill\ndiff --git a/x.go b/x.go\nindex 1234567..89abcde 100644\n" + diff, ""},
		{diff, "Found by"},
		{"It is wrong.\n\n" + diff, "Found by"},
		{"Found by: TestX\n\n" + diff, "Found by"},
		{"It is wrong.\nFound by: TestX\n", "changes no file"},
		{"It is wrong.\nFound by: TestX\n\n" + strings.ReplaceAll(diff, "x.go", "x_test.go"), "not code"},
		{"It is wrong.\nFound by: TestX\n\n" + strings.ReplaceAll(diff, "x.go", "x.s"), "not code"},
	} {
		m, err := parse("slug", c.text)
		switch {
		case c.says == "" && (err != nil || strings.Join(m.FoundBy, "+") != "TestX+TestKill" || len(m.Files) != 1 || m.Files[0] != "x.go"):
			t.Errorf("%q: %+v, %v", c.text, m, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}
