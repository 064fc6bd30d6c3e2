package main

import (
	"slices"
	"testing"
)

// TestAPI checks that CHANGELOG.md names each change of the public API that can break a program. Before
// the first release, the record may be made anew instead: go -C tools/release run . -api
func TestAPI(t *testing.T) {
	for _, change := range readTree("../..").unannounced() {
		t.Errorf("the changelog does not name it: %s", change)
	}
}

// TestUnannounced changes the API of a module in every way that counts.
func TestUnannounced(t *testing.T) {
	const code = "package mmapfilter\n\ntype T struct{ A, B int }\n\nfunc (*T) M() {}\n\nfunc F(int) {}\n\ntype I interface{ M() }\n"
	files := map[string]string{
		"CHANGELOG.md":                      "## v0.2.0 (not released)\n\n### Added\n\nT.M\n\n### Changed\n\nF takes text. T.B is no more.\n\n## v0.1.0 (2026-11-28)\n\nT.M\n",
		"go.mod":                            "module x.org/m\n\ngo 1.24\n",
		"mmapfilter/m.go":                   code,
		"mmapfilter/gone/g.go":              "package gone\n",
		"mmapfilter/internal/in.go":         "package internal\n\nfunc F() {}\n",
		"tools/release/testdata/api/x/file": "",
	}
	dir := clone(t, files)
	tree := readTree(dir)
	tree.recordAPI()
	if changes := tree.changesAPI(); changes != nil {
		t.Errorf("nothing has changed, and it says %q", changes)
	}
	write(dir, map[string]string{
		"mmapfilter/m.go":           "package mmapfilter\n\ntype T struct{ A int }\n\nfunc F(string) {}\n\nfunc G() {}\n\ntype I interface{ M(); N() }\n",
		"mmapfilter/gone/g.go":      "package main\n\nfunc main() {}\n",
		"mmapfilter/internal/in.go": "package internal\n",
	})
	want := []string{"! x.org/m/mmapfilter: (*T).M: removed", "! x.org/m/mmapfilter: I.N: added", "! gone: is gone"}
	if got := tree.unannounced(); !slices.Equal(got, want) {
		t.Errorf("%q, not %q, of %q", got, want, tree.changesAPI())
	}
}
