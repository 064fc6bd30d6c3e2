package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestTagsAreTheProxy checks that Go gets the same bytes of each module from the proxy and by the tags.
// The tags are made in a clone of the last commit, which Go uses in place of the repository on GitHub.
func TestTagsAreTheProxy(t *testing.T) {
	dir, proxy := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	here := must(filepath.Abs("../../.."))
	git(here, "clone", "-q", "--no-tags", here, dir)
	git(dir, "config", "user.name", "tester")
	git(dir, "config", "user.email", "tester@example.com")
	tree := readTree(dir)
	tree.makeTags()
	tree.writeProxy(proxy)
	served := consume(proxy, t.TempDir())
	tagged := append(consume(proxy, t.TempDir()), "GOPROXY=direct", "GIT_ALLOW_PROTOCOL=file", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/mmapfilter/mmapfilter")
	for _, m := range tree.modules {
		sum := func(env []string) (d struct{ Version, Sum, GoModSum string }) {
			out := run(t.TempDir(), env, "go", "mod", "download", "-json", m.path()+"@"+tree.version)
			check(json.Unmarshal([]byte(out), &d))
			return d
		}
		if a, b := sum(served), sum(tagged); a != b || a.Sum == "" {
			t.Errorf("%s: the proxy serves %v, the tag gives %v", m.path(), a, b)
		}
	}
}
