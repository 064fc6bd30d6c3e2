package house

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var systems = flag.String("systems", "", "the systems that TestSystems checks, such as linux/arm64,freebsd/amd64")

// TestSystems checks that the module and its tests compile for other systems.
func TestSystems(t *testing.T) {
	if *systems == "" {
		t.Skip("no -systems; the gate has a list")
	}
	for _, on := range strings.Split(*systems, ",") {
		for _, b := range checkSystem(t, "../..", on) {
			t.Error(b)
		}
	}
}

// A listed is what "go list -json" prints for a package.
type listed struct {
	Dir, ImportPath string
	DepOnly         bool // something needs it; it was not asked for
	Module          struct{ GoVersion string }
	GoFiles         []string
	ImportMap       map[string]string // from the paths in the source, where another is meant
}

// A source imports packages from their source. To compile what they need takes many times as long,
// for each system again.
type source struct {
	fset  *token.FileSet
	sizes types.Sizes
	all   map[string]listed         // by path
	made  map[string]*types.Package // likewise, without the bodies of functions
}

// checkSystem reports what does not compile for a system, such as linux/amd64, in the module in root.
// With -test, go list lists a package p again with the files of its tests, as "p [p.test]".
func checkSystem(t *testing.T, root, on string) (broken []string) {
	t.Helper()
	goos, goarch, _ := strings.Cut(on, "/")
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=Dir,ImportPath,DepOnly,Module,GoFiles,ImportMap", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	must(t, err)
	s := source{token.NewFileSet(), types.SizesFor("gc", goarch), map[string]listed{}, map[string]*types.Package{types.Unsafe.Path(): types.Unsafe}}
	var asked []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var l listed
		must(t, d.Decode(&l))
		s.all[l.ImportPath] = l
		if !l.DepOnly && !strings.HasSuffix(l.ImportPath, ".test") {
			asked = append(asked, l)
		}
	}
	for _, l := range asked {
		tell := func(err error) { broken = append(broken, fmt.Sprintf("%s: %v", on, err)) }
		if made, err := s.check(l, types.Config{Error: tell}); made == nil {
			t.Fatal(err)
		}
	}
	return broken
}

// check checks the types of a package.
func (s *source) check(l listed, conf types.Config) (*types.Package, error) {
	var files []*ast.File
	for _, name := range l.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf.Importer, conf.Sizes = importer{s, l.ImportMap}, s.sizes
	if v := l.Module.GoVersion; v != "" {
		conf.GoVersion = "go" + v
	}
	return conf.Check(l.ImportPath, s.fset, files, nil)
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
	made, err := i.check(l, types.Config{IgnoreFuncBodies: true})
	if err != nil {
		return nil, err
	}
	i.made[path] = made
	return made, nil
}
