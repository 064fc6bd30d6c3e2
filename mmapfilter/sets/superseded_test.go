package sets

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestSuperseded lists what no manifest names.
func TestSuperseded(t *testing.T) {
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{}, 3)
	mustBuild(t, dir, p, numbers(0, 1000))
	left, err := Superseded(dir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("%v of a set that is in use", left)
	}
	before := contents(t, dir)
	must(t, os.Link(filepath.Join(dir, "keys.set"), filepath.Join(dir, "kept.set")))
	mustBuild(t, dir, p, numbers(0, 1001)) // one of three shards changes
	left, err = Superseded(dir)
	must(t, err)
	if len(left) != 0 {
		t.Errorf("%v of a manifest that was kept", left)
	}
	must(t, os.Remove(filepath.Join(dir, "kept.set")))
	left, err = Superseded(dir)
	must(t, err)
	if len(left) != 1 || before[filepath.Base(left[0])] == "" {
		t.Errorf("%v", left)
	}
	must(t, os.WriteFile(left[0]+".stash", nil, 0o666))
	must(t, os.WriteFile(filepath.Join(dir, "shard-00000-of-00003-00000000.built"), nil, 0o666))
	must(t, os.WriteFile(filepath.Join(dir, "shard-00000-of-00003-"+p.ID()[:8]+".built"), nil, 0o666))
	if left, err = Superseded(dir); err != nil || len(left) != 3 {
		t.Errorf("with what stands beside: %v, %v", left, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "bad.set"), []byte("{}"), 0o666))
	if _, err := Superseded(dir); err == nil {
		t.Error("a manifest that cannot be read is ignored")
	}
}

// TestSupersededThroughLink: a manifest that was written by way of another name of the directory keeps
// its shards.
func TestSupersededThroughLink(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{}, 2))
	link := filepath.Join(j.dir, "link")
	must(t, os.Symlink(j.out, link))
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	_, err := Assemble(background, j.plan, j.spool, j.out, filepath.Join(link, "keys.set"), true, nil)
	must(t, err)
	mustHave(t, mustOpen(t, filepath.Join(link, "keys.set"), nil), 0, 1000)
	t.Chdir(j.out)
	for _, dir := range []string{j.out, link, "."} {
		if left, err := Superseded(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
	}
}
