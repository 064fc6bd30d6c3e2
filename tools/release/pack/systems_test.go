package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

var systems = flag.String("systems", "", "the systems that TestSystems checks, such as linux/arm64,freebsd/amd64")

// TestSystems checks that the module of the library and its tests compile for other systems.
func TestSystems(t *testing.T) {
	if *systems == "" {
		t.Skip("no -systems; the gate has a list")
	}
	for _, on := range strings.Split(*systems, ",") {
		for _, b := range checkSystem("../../..", on) {
			t.Error(b)
		}
	}
}

// checkSystem reports what does not compile for a system, such as linux/amd64, in the module in root. It
// only checks types, from the source of the module and of all that it imports, because compiling all
// this takes many times as long.
func checkSystem(root, on string) (broken []string) {
	goos, goarch, _ := strings.Cut(on, "/")
	config := &packages.Config{Mode: packages.LoadTypes | packages.NeedDeps | packages.NeedModule, Dir: root, Tests: true,
		Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")}
	for _, p := range must(packages.Load(config, "./...")) {
		for _, err := range p.Errors {
			broken = append(broken, fmt.Sprintf("%s: %v", on, err))
		}
	}
	return broken
}

// TestCompiles checks a module that compiles for linux, but not for plan9, for a different reason in
// each file.
func TestCompiles(t *testing.T) {
	dir := t.TempDir()
	write(dir, map[string]string{
		"go.mod":                 "module example.com/x\n\ngo 1.21\n",
		"a.go":                   "package x\n\nimport \"os\"\n\nfunc F() int { return len(os.Args) }\n",
		"a_other.go":             "//go:build !plan9\n\npackage x\n\nfunc G(n int) int { return -n }\n",
		"sub/h_plan9_test.go":    "package sub\n\nvar H = h\n",
		"export_test.go":         "package x\n\nvar E = F\n",
		"export_plan9_test.go":   "package x_test\n\nvar H = x.H\n",
		"a_test.go":              "package x_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/x\"\n)\n\nfunc TestF(*testing.T) { x.G(x.E()) }\n",
		"sub/import_plan9.go":    "package sub\n\nimport \"io\"\n",
		"sub/range_plan9.go":     "package sub\n\nfunc f(n int) { for range n {} }\n",
		"sub/result_plan9.go":    "package sub\n\nfunc g() string { return 1 }\n",
		"sub/undefined_plan9.go": "package sub\n\nimport \"example.com/x\"\n\nvar H = x.H\n",
		"sub/sub.go":             "package sub\n",
	})
	if broken := checkSystem(dir, "linux/amd64"); broken != nil {
		t.Errorf("linux/amd64: %q", broken)
	}
	said := strings.Join(checkSystem(dir, "plan9/amd64"), "\n")
	for _, want := range []string{
		"h_plan9_test.go:3:9: undefined: h", "export_plan9_test.go:3:9: undefined: x", "a_test.go:9:28: undefined: x.G",
		"import_plan9.go:3:8: \"io\" imported and not used", "requires go1.22", "result_plan9.go:3:26: cannot use 1", "undefined_plan9.go:5:11: undefined: x.H",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("plan9/amd64: no %q in: %s", want, said)
		}
	}
}
