package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestAPI checks that CHANGELOG.md names each change of the public API that can break a program. Until
// the first release, the API may be recorded anew instead: go run ./tools/release -api
func TestAPI(t *testing.T) {
	for _, change := range readTree("../../..").unannounced() {
		t.Errorf("CHANGELOG.md does not name this change: %s", change)
	}
}

// TestUnannounced breaks an API in several ways, and expects just the changes that the changelog does
// not name.
func TestUnannounced(t *testing.T) {
	const code = "package mmapfilter\n\ntype T struct{ A, B int }\n\nfunc (*T) M() {}\n\nfunc F(int) {}\n\nfunc H(int) {}\n\ntype I interface{ M() }\n"
	const changelog = "## v0.2.0 (not released)\n\n### Changed\n\nOf `I.N`, no item.\n\n- `F`\n  takes text. H, too.\n\n" +
		"### Removed\n\n- The field\n  `T.B` is no more.\n- The package `left`.\n\n### Added\n\n- `T.M`\n\n## v0.1.0 (2026-11-28)\n\n### Changed\n\n- `T.M`\n"
	dir := clone(t, map[string]string{
		"CHANGELOG.md":                           changelog,
		"go.mod":                                 "module x.org/m\n\ngo 1.24\n",
		"layout/l.go":                            "package layout\n",
		"recovery/r.go":                          "package recovery\n\ntype R struct{ A int }\n",
		"recovery/osfile/o.go":                   "package osfile\n",
		"mmapfilter/m.go":                        code,
		"mmapfilter/r.go":                        "package mmapfilter\n\nimport \"x.org/m/recovery\"\n\ntype Recovery = recovery.R\n",
		"mmapfilter/gone/g.go":                   "package gone\n",
		"mmapfilter/sets/gone/g.go":              "package gone\n",
		"mmapfilter/left/l.go":                   "package left\n",
		"mmapfilter/internal/in.go":              "package internal\n\nfunc F() {}\n",
		"tools/release/pack/testdata/api/x/file": "",
	})
	tree := readTree(dir)
	tree.recordAPI()
	if changes := tree.changesAPI(); changes != nil {
		t.Errorf("nothing has changed, but the changes are %q", changes)
	}
	write(dir, map[string]string{
		"mmapfilter/m.go":           "package mmapfilter\n\ntype T struct{ A int }\n\nfunc F(string) {}\n\nfunc G() {}\n\nfunc H(string) {}\n\ntype I interface{ M(); N() }\n",
		"recovery/r.go":             "package recovery\n\ntype R struct{ A string }\n",
		"mmapfilter/gone/g.go":      "package main\n\nfunc main() {}\n",
		"mmapfilter/left/l.go":      "package main\n\nfunc main() {}\n",
		"mmapfilter/internal/in.go": "package internal\n",
	})
	want := []string{
		"! x.org/m/mmapfilter: (*T).M: removed",
		"! x.org/m/mmapfilter: H: changed from func(int) to func(string)", "! x.org/m/mmapfilter: I.N: added",
		"! x.org/m/recovery: R.A: changed from int to string", "! x.org/m: mmapfilter/gone: is gone",
	}
	if got := slices.Sorted(slices.Values(tree.unannounced())); !slices.Equal(got, want) {
		t.Errorf("unannounced: %q, not %q; all changes: %q", got, want, tree.changesAPI())
	}
	write(dir, map[string]string{"mmapfilter/m.go": "package mmapfilter\n\nthis is no Go\n"})
	err := func() (err error) {
		defer caught(&err)
		tree.recordAPI()
		return nil
	}()
	if kept, _ := filepath.Glob(filepath.Join(dir, apiDir, "*.export")); err == nil || len(kept) != 7 {
		t.Errorf("after recording an API that does not compile: %v, %q", err, kept)
	}
}
