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
const apiDir = "tools/release/testdata/api"

// public returns the packages whose API is recorded: all below mmapfilter that may be imported.
func (t *tree) public() (public []*packages.Package) {
	for _, m := range t.modules {
		pattern := "./..."
		if m.dir == "" {
			pattern = "./mmapfilter/..."
		}
		config := &packages.Config{Mode: packages.LoadTypes, Dir: filepath.Join(t.root, m.dir), Env: append(os.Environ(), "CGO_ENABLED=0")}
		for _, p := range must(packages.Load(config, pattern)) {
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

func (t *tree) record(p *packages.Package) string {
	return filepath.Join(t.root, apiDir, path.Base(p.PkgPath)+".export")
}

// recordAPI replaces the record.
func (t *tree) recordAPI() {
	check(os.RemoveAll(filepath.Join(t.root, apiDir)))
	check(os.MkdirAll(filepath.Join(t.root, apiDir), 0o777))
	for _, p := range t.public() {
		var out bytes.Buffer
		check(gcexportdata.Write(&out, token.NewFileSet(), p.Types))
		check(os.WriteFile(t.record(p), out.Bytes(), 0o666))
	}
}

// changesAPI returns what differs from the record. What can break a program begins with "! ".
func (t *tree) changesAPI() (changes []string) {
	public := t.public()
	for _, p := range public {
		recorded, err := os.Open(t.record(p))
		if err != nil {
			changes = append(changes, p.PkgPath+": is new")
			continue
		}
		old := must(gcexportdata.Read(recorded, token.NewFileSet(), map[string]*types.Package{}, p.PkgPath))
		check(recorded.Close())
		for _, c := range apidiff.Changes(old, p.Types).Changes {
			mark := "! "
			if c.Compatible {
				mark = ""
			}
			changes = append(changes, mark+p.PkgPath+": "+c.Message)
		}
	}
	for _, name := range must(filepath.Glob(filepath.Join(t.root, apiDir, "*.export"))) {
		if !slices.ContainsFunc(public, func(p *packages.Package) bool { return t.record(p) == name }) {
			changes = append(changes, "! "+strings.TrimSuffix(filepath.Base(name), ".export")+": is gone")
		}
	}
	return changes
}

var breaking = regexp.MustCompile(`(?s)\n### (Changed|Removed)\n.*`)

// unannounced returns the changes that can break a program and that the newest section of CHANGELOG.md
// does not name under "Changed" or "Removed".
func (t *tree) unannounced() []string {
	announced := breaking.FindString(t.section)
	return slices.DeleteFunc(t.changesAPI(), func(change string) bool {
		words := strings.SplitN(change, ": ", 3)
		name := strings.NewReplacer("(*", "", ")", "", "! ", "").Replace(words[len(words)-2])
		named := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		return !strings.HasPrefix(change, "! ") || named.MatchString(announced)
	})
}
