package main

import (
	"bytes"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/gcexportdata"
	"golang.org/x/tools/go/packages"
)

// apiDir has the types of each public package, as the compiler writes them, but without positions.
const apiDir = "tools/release/pack/testdata/api"

// public returns the packages whose API is recorded: all importable packages below mmapfilter, and
// the packages whose types have aliases in these.
func (t *tree) public() (public []*packages.Package) {
	for _, m := range t.modules {
		patterns := []string{"./..."}
		if m.dir == "" {
			patterns = []string{"./mmapfilter/...", "./layout", "./recovery", "./recovery/osfile"}
		}
		env := append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		config := &packages.Config{Mode: packages.LoadTypes, Dir: filepath.Join(t.root, m.dir), Env: env}
		for _, p := range must(packages.Load(config, patterns...)) {
			for _, err := range p.Errors {
				check(err)
			}
			if !slices.Contains(strings.Split(p.PkgPath, "/"), "internal") && p.Name != "main" {
				public = append(public, p)
			}
		}
	}
	return public
}

// record returns the name of the file that records a package: the package's path in the tree, with
// + for slashes.
func (t *tree) record(p *packages.Package) string {
	name := strings.TrimPrefix(p.PkgPath, t.modules[0].path()+"/")
	return filepath.Join(t.root, apiDir, strings.ReplaceAll(name, "/", "+")+".export")
}

// recordAPI replaces the record of the API.
func (t *tree) recordAPI() {
	public := t.public()
	check(os.RemoveAll(filepath.Join(t.root, apiDir)))
	check(os.MkdirAll(filepath.Join(t.root, apiDir), 0o777))
	for _, p := range public {
		var out bytes.Buffer
		check(gcexportdata.Write(&out, token.NewFileSet(), p.Types))
		check(os.WriteFile(t.record(p), out.Bytes(), 0o666))
	}
}

// changesAPI returns the differences from the record. Differences that can break a program
// begin with "! ".
func (t *tree) changesAPI() (changes []string) {
	public := t.public()
	for _, p := range public {
		recorded, err := os.ReadFile(t.record(p))
		if err != nil {
			changes = append(changes, p.PkgPath+": is new")
			continue
		}
		old := must(gcexportdata.Read(bytes.NewReader(recorded), token.NewFileSet(), map[string]*types.Package{}, p.PkgPath))
		for _, c := range apidiff.Changes(old, p.Types).Changes {
			changes = append(changes, map[bool]string{false: "! "}[c.Compatible]+p.PkgPath+": "+c.Message)
		}
	}
	for _, name := range must(filepath.Glob(filepath.Join(t.root, apiDir, "*.export"))) {
		if !slices.ContainsFunc(public, func(p *packages.Package) bool { return t.record(p) == name }) {
			changes = append(changes, "! "+t.modules[0].path()+": "+strings.NewReplacer("+", "/", ".export", "").Replace(filepath.Base(name))+": is gone")
		}
	}
	return changes
}

// breaking matches the sections "Changed" and "Removed" of the changelog, and item an item
// of a list in them.
var breaking = regexp.MustCompile(`(?m)^### (?:Changed|Removed)$(?:\n(?:[^#\n].*)?)*`)
var item = regexp.MustCompile(`(?m)^- .*(?:\n +\S.*)*`)

// unannounced returns the changes that can break a program and that are not announced. An item in
// "Changed" or "Removed" of the newest section of CHANGELOG.md announces a change if it names the
// changed thing in backquotes: a method (*T).M as `T.M`, a package by the last part of its path.
func (t *tree) unannounced() []string {
	announced := item.FindAllString(strings.Join(breaking.FindAllString(t.section, -1), ""), -1)
	return slices.DeleteFunc(t.changesAPI(), func(change string) bool {
		words := strings.SplitN(change, ": ", 3)
		name, _, _ := strings.Cut(strings.NewReplacer("(*", "", ")", "").Replace(path.Base(words[1])), ",")
		return !strings.HasPrefix(change, "! ") || strings.Contains(strings.Join(announced, ""), "`"+name+"`")
	})
}
