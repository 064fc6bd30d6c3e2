package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clone creates a repository with the given files, which are not committed.
func clone(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write(dir, files)
	git(dir, "init", "-q")
	return dir
}

func write(dir string, files map[string]string) {
	for name, text := range files {
		path := filepath.Join(dir, name)
		check(os.MkdirAll(filepath.Dir(path), 0o777))
		check(os.WriteFile(path, []byte(text), 0o666))
	}
}

// TestTree checks that all modules of the repository agree with CHANGELOG.md and with one another.
func TestTree(t *testing.T) {
	tree := readTree("../../..")
	for _, p := range tree.problems() {
		t.Error(p)
	}
	var published []string
	for _, m := range tree.modules {
		published = append(published, m.tag(tree.version))
	}
	slices.Sort(published[1:])
	want := []string{"", "mmapfilter/filterprom/", "mmapfilter/guard/badgerguard/", "mmapfilter/guard/bboltguard/", "mmapfilter/guard/pebbleguard/"}
	for i := range want {
		want[i] += tree.version
	}
	if !slices.Equal(published, want) {
		t.Errorf("the tags would be %q, not %q", published, want)
	}
}

// TestProblems checks trees that have one problem each, and one that has none.
func TestProblems(t *testing.T) {
	const guard = "module x.org/m/guard\n\nrequire x.org/m v0.2.0\n\nreplace x.org/m => ../\n"
	good := map[string]string{
		"CHANGELOG.md": "# Changes\n\n## v0.2.0 (not released)\n\nMore.\n\n## v0.1.0 (2026-11-28)\n\nThe first.\n",
		"go.mod":       "module x.org/m\n",
		"guard/go.mod": guard,
		"bench/go.mod": mark + " no versions.\n\nmodule x.org/m/bench\n\nrequire x.org/m/guard v0.2.0\n\nreplace x.org/m/guard => ../guard\n",
	}
	problems := func(name, text string) (problems string, err error) {
		defer caught(&err)
		files := map[string]string{name: text}
		for name, text := range good {
			if _, ok := files[name]; !ok {
				files[name] = text
			}
		}
		return strings.Join(readTree(clone(t, files)).problems(), "\n"), nil
	}
	said := func(name, text string) string {
		problems, err := problems(name, text)
		if err != nil {
			return err.Error()
		}
		return problems
	}
	if p := said("README.md", ""); p != "" {
		t.Errorf("a good tree: %s", p)
	}
	for _, c := range []struct{ name, text, says string }{
		{"CHANGELOG.md", "# Changes\n\n## 0.2.0\n", "no heading"},
		{"CHANGELOG.md", "# Changes\n\n## v0.3.0 (not released)\n", "guard/go.mod requires x.org/m@v0.2.0, but CHANGELOG.md says v0.3.0"},
		{"guard/go.mod", strings.Replace(guard, "v0.2.0", "v0.0.0", 1), "guard/go.mod requires x.org/m@v0.0.0, but CHANGELOG.md says v0.2.0"},
		{"guard/go.mod", "module x.org/m/guard\n\nrequire x.org/m v0.2.0\n", "guard/go.mod does not replace x.org/m with"},
		{"guard/go.mod", strings.Replace(guard, "../", "../bench", 1), "guard/go.mod does not replace x.org/m with"},
		{"guard/go.mod", strings.Replace(guard, "m =>", "m v0.1.0 =>", 1), "guard/go.mod does not replace x.org/m with"},
		{"guard/go.mod", guard + "\nreplace y.org/y => ../y\n", "guard/go.mod replaces a module of others"},
		{"guard/go.mod", guard + "\nrequire x.org/m/bench v0.2.0\n\nreplace x.org/m/bench => ../bench\n", "guard/go.mod requires x.org/m/bench, which has no versions"},
		{"bench/go.mod", mark + " no versions.\n\nmodule x.org/m/bench\n\nrequire x.org/m/guard v0.1.0\n\nreplace x.org/m/guard => ../guard\n", "bench/go.mod requires x.org/m/guard@v0.1.0"},
		{"go.mod", "module x.org/m\n\nreplace y.org/y => ../y\n", "go.mod has a replace: go install would refuse"},
	} {
		if got := said(c.name, c.text); !strings.Contains(got, c.says) {
			t.Errorf("%s %q: the problems are %q, without %q", c.name, c.text, got, c.says)
		}
	}
}
