package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestTagsAreTheProxy checks that the tags give Go the modules that the proxy serves, byte for byte: it makes
// them in a clone of the last commit, which Go takes for the repository at GitHub.
func TestTagsAreTheProxy(t *testing.T) {
	dir, proxy := filepath.Join(t.TempDir(), "clone"), t.TempDir()
	here, err := filepath.Abs("../..")
	must(t, err)
	_, err = git(here, "clone", "-q", "--no-tags", here, dir)
	must(t, err)
	for key, value := range map[string]string{"user.name": "tester", "user.email": "tester@example.com"} {
		_, err := git(dir, "config", key, value)
		must(t, err)
	}
	tree, err := readTree(dir)
	must(t, err)
	must(t, tree.makeTags())
	must(t, tree.writeProxy(proxy))
	served, err := consume(proxy, t.TempDir())
	must(t, err)
	tagged, err := consume(proxy, t.TempDir())
	must(t, err)
	tagged = append(tagged, "GOPROXY=direct", "GIT_CONFIG_COUNT=1", "GIT_ALLOW_PROTOCOL=file", "GONOSUMDB=*", "GIT_CONFIG_KEY_0=url.file://"+dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/mmapfilter/mmapfilter")
	for _, m := range tree.modules {
		sum := func(env []string) (d struct{ Version, Sum, GoModSum string }) {
			out, err := run(t.TempDir(), env, "go", "mod", "download", "-json", m.path()+"@"+tree.version)
			must(t, err)
			must(t, json.Unmarshal([]byte(out), &d))
			return d
		}
		if a, b := sum(served), sum(tagged); a != b || a.Sum == "" {
			t.Errorf("%s: the proxy serves %v, the tag gives %v", m.path(), a, b)
		}
	}
}
