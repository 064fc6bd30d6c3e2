package house

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	maxLines    = 600 // of a file: about what one person reads in a sitting
	maxFunction = 70  // lines of a function: about a screen
	maxColumns  = 105 // of prose in a comment: windows side by side would wrap a wider line
)

// longFunctions may have more than maxFunction lines. No function is added to this list.
var longFunctions = []string{
	"layout/_asm/batch.go compactBatch",
}

//go:embed doc.go
var essay string

// TestHouse checks all modules of the repository against the essay.
func TestHouse(t *testing.T) {
	for _, b := range check(t, "../..", essay) {
		t.Error(b)
	}
}

// A file is a Go file of any module of the repository.
type file struct {
	name string // below the root, with slashes
	text string
	fset *token.FileSet
	*ast.File
}

func (f file) folder() string { return path.Dir(f.name) }
func (f file) isTest() bool   { return strings.HasSuffix(f.name, "_test.go") }

// check returns what the modules below root break of the rules of the house.
func check(t *testing.T, root, essay string) (broken []string) {
	t.Helper()
	var all, written []file // all files; files written by people
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		must(t, err)
		name, err := filepath.Rel(root, path)
		must(t, err)
		f := file{name: filepath.ToSlash(name), text: string(text), fset: token.NewFileSet()}
		f.File, err = parser.ParseFile(f.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		must(t, err)
		if all = append(all, f); !ast.IsGenerated(f.File) {
			written = append(written, f)
		}
		return nil
	}))
	for _, f := range written {
		broken = append(broken, checkSize(f)...)
	}
	gate, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	must(t, err)
	return slices.Concat(broken, checkGate(string(gate), all), checkPlan(importsOf(t, root, all), readPlan(essay)), checkEssays(written), checkRules(written), checkStory(written))
}

var testNamed = regexp.MustCompile(`\bTest[A-Z]\w*`)

// checkGate reports tests that the gate names and that do not exist: go test does not fail if no test
// matches.
func checkGate(gate string, files []file) (broken []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(testNamed.FindAllString(gate, -1)))) {
		exists := slices.ContainsFunc(files, func(f file) bool { return strings.Contains(f.text, "\nfunc "+name) })
		if !exists {
			broken = append(broken, ".ci/run names "+name+", which is no test")
		}
	}
	return broken
}

var (
	storyNames = regexp.MustCompile(`\b(?:[a-z]+\.)?[A-Za-z]+\.[A-Za-z]+\b`)
	bareWriter = regexp.MustCompile(`([^.])\bWriter\.`)
)

// checkStory reports functions and types that "One insert, from the key to the disk" names and that do
// not exist. In that section, Writer without a package is the type of package writer. NAME.stash and
// a.go are files.
func checkStory(files []file) (broken []string) {
	declared, story := map[string]bool{}, ""
	for _, f := range files {
		if _, text, ok := strings.Cut(f.Doc.Text(), "\n# One insert"); ok && f.name == "mmapfilter/doc.go" {
			story = bareWriter.ReplaceAllString(text, "${1}writer.Writer.")
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = strings.Trim(types.ExprString(d.Recv.List[0].Type), "*") + "." + name
					declared[name] = true
				}
				declared[f.Name.Name+"."+name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						declared[f.Name.Name+"."+s.Name.Name] = true
					}
				}
			}
		}
	}
	for _, name := range storyNames.FindAllString(story, -1) {
		if !declared[name] && !strings.HasPrefix(name, "NAME.") && !strings.HasSuffix(name, ".go") {
			broken = append(broken, "mmapfilter/doc.go names "+name+", which does not exist")
		}
	}
	return broken
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkSize reports a file or a function that is too long, and comments that are too wide. Tables and
// pictures, which begin with a tab, and directives may be wider, because they cannot be wrapped.
func checkSize(f file) (broken []string) {
	if n := strings.Count(f.text, "\n"); n > maxLines {
		broken = append(broken, fmt.Sprintf("%s has %d lines, more than %d", f.name, n, maxLines))
	}
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || f.isTest() || slices.Contains(longFunctions, f.name+" "+d.Name.Name) {
			continue
		}
		if n := f.fset.Position(d.End()).Line - f.fset.Position(d.Pos()).Line + 1; n > maxFunction {
			broken = append(broken, fmt.Sprintf("%s: %s has %d lines, more than %d", f.name, d.Name.Name, n, maxFunction))
		}
	}
	number := 0
	for line := range strings.Lines(f.text) {
		number++
		comment := strings.TrimLeft(line, "\t")
		columns := 4*(len(line)-len(comment)) + utf8.RuneCountInString(strings.TrimRight(comment, "\r\n"))
		if strings.HasPrefix(comment, "// ") && columns > maxColumns {
			broken = append(broken, fmt.Sprintf("%s:%d: a comment of %d columns, more than %d", f.name, number, columns, maxColumns))
		}
	}
	return broken
}

// checkEssays reports packages that have no essay: a comment that touches the package line and begins
// with the name of the package. A blank line between the two would hide it from go doc.
func checkEssays(files []file) (broken []string) {
	begins, found := map[string]string{}, map[string]bool{} // by folder
	for _, f := range files {
		if f.isTest() {
			continue
		}
		begin := "Package " + f.Name.Name + " "
		if f.Name.Name == "main" {
			begin = "Command " + strings.TrimPrefix(path.Base(f.folder()), "_") + " "
		}
		begins[f.folder()] = begin
		if strings.HasPrefix(f.Doc.Text(), begin) {
			found[f.folder()] = true
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(begins)) {
		if !found[folder] {
			broken = append(broken, fmt.Sprintf("%s has no essay that begins with %q", folder, begins[folder]))
		}
	}
	return broken
}

var (
	ruleStated = regexp.MustCompile(`(?m)^//\t([A-Z][0-9]+)  `)
	ruleNamed  = regexp.MustCompile(`\b[A-Z][0-9]+\b`)
)

// checkRules reports rules of essays that have the number of another rule, or that no test names. The
// files of packages crashsim and guardtest are taken as tests.
func checkRules(files []file) (broken []string) {
	stated, tested := map[string]string{}, map[string]bool{}
	for _, f := range files {
		switch {
		case path.Base(f.name) == "doc.go":
			for _, m := range ruleStated.FindAllStringSubmatch(f.text, -1) {
				if other := stated[m[1]]; other != "" {
					broken = append(broken, fmt.Sprintf("%s and %s each have a rule %s", other, f.name, m[1]))
				}
				stated[m[1]] = f.name
			}
		case f.isTest(), f.folder() == "recovery/crashsim", f.folder() == "mmapfilter/internal/guardtest":
			for _, rule := range ruleNamed.FindAllString(f.text, -1) {
				tested[rule] = true
			}
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(stated)) {
		if !tested[rule] {
			broken = append(broken, fmt.Sprintf("no test names rule %s, which %s has", rule, stated[rule]))
		}
	}
	return broken
}

// importsOf returns, for each package of the repository, the packages of the root module that it imports
// on Linux on amd64. Packages are given by their folders.
func importsOf(t *testing.T, root string, files []file) map[string]map[string]bool {
	on := build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	must(t, err)
	module := strings.Fields(string(mod))[1] + "/"
	imports := map[string]map[string]bool{}
	for _, f := range files {
		matches, err := on.MatchFile(filepath.Join(root, f.folder()), path.Base(f.name))
		must(t, err)
		if !matches || f.isTest() {
			continue
		}
		if imports[f.folder()] == nil {
			imports[f.folder()] = map[string]bool{}
		}
		for _, i := range f.Imports {
			if folder, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ok {
				imports[f.folder()][folder] = true
			}
		}
	}
	return imports
}

// A part is a package of the plan.
type part struct {
	path    string
	imports []string
}

// readPlan reads the parts from the section "The parts" of an essay. Each of its lines with a tab has a
// part and its subject, or an arrow and the parts that the part above imports.
func readPlan(essay string) (plan []part) {
	_, section, _ := strings.Cut(essay, "\n// # The parts\n")
	section, _, _ = strings.Cut(section, "\n// # ")
	for line := range strings.Lines(section) {
		line, ok := strings.CutPrefix(line, "//\t")
		if !ok {
			continue
		}
		if fields := strings.Fields(line); fields[0] == "→" && len(plan) > 0 {
			plan[len(plan)-1].imports = fields[1:]
		} else {
			plan = append(plan, part{path: fields[0]})
		}
	}
	return plan
}

// checkPlan compares the imports of packages with the plan.
func checkPlan(imports map[string]map[string]bool, plan []part) (broken []string) {
	report := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	place := map[string]int{} // in the plan, from 1 on
	for i, p := range plan {
		place[p.path] = i + 1
		if imports[p.path] == nil {
			report("there is no package %s, which the plan has", p.path)
		}
		for _, other := range p.imports {
			if !imports[p.path][other] {
				report("%s does not import %s: the plan has an arrow too many", p.path, other)
			}
			if place[other] == 0 {
				report("the plan does not have %s before %s, which imports it", other, p.path)
			}
		}
	}
	isTool := func(path string) bool { return strings.HasPrefix(path, "tools/") }
	for folder, others := range imports {
		at := place[folder]
		if at == 0 {
			report("%s is not in the plan (tools/house/doc.go)", folder)
		}
		for other := range others {
			switch {
			case isTool(folder):
			case isTool(other):
				report("%s imports %s", folder, other)
			case at > 0 && !slices.Contains(plan[at-1].imports, other):
				report("%s imports %s, and the plan has no such arrow", folder, other)
			}
		}
	}
	return broken
}
