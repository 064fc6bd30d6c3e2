package sets

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestSuperseded lists the files that no manifest names.
func TestSuperseded(t *testing.T) {
	dir := t.TempDir()
	left := func(n int, what string) []string {
		t.Helper()
		left, err := Superseded(dir)
		if err != nil || len(left) != n {
			t.Fatalf("%s: %v, %v", what, left, err)
		}
		return left
	}
	put := func(name string, data []byte) { must(t, os.WriteFile(filepath.Join(dir, name), data, 0o666)) }
	p := mustPlan(t, mmapfilter.Options{}, 3)
	mustBuild(t, dir, p, numbers(0, 1000))
	left(0, "a set that is in use")
	before := contents(t, dir)
	mustBuild(t, dir, p, numbers(0, 1001)) // one of three shards changes
	put("kept.set", []byte(before["keys.set"]))
	left(0, "a manifest that was kept")
	must(t, os.Remove(filepath.Join(dir, "kept.set")))
	old := filepath.Base(left(1, "a set that was replaced")[0])
	if before[old] == "" {
		t.Errorf("%s belongs to the new set", old)
	}
	put(old+".stash", nil)
	put("shard-00000-of-00003-00000000.built", nil)
	put("shard-00000-of-00003-"+p.ID()[:8]+".built", nil)
	left(3, "with what stands beside")
	put("bad.set", []byte("{}"))
	if _, err := Superseded(dir); err == nil {
		t.Error("a manifest that cannot be read is ignored")
	}
}

// TestSharedShards covers S3: no two sets share a file. A second set of the same plan in the same
// directory is refused, before anything is built and when it is assembled. If it would replace a set,
// that set stays.
func TestSharedShards(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{Capacity: 2000}, 4))
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	a, b := filepath.Join(j.out, "a.set"), filepath.Join(j.out, "b.set")
	assemble := func(path string) error {
		_, err := Assemble(background, j.plan, j.spool, j.out, path, true, Work{})
		return err
	}
	build := func(path string) error {
		_, err := Build(background, path, j.plan, Work{}, numbers(0, 1000))
		return err
	}
	shared := func(err error) {
		t.Helper()
		var e *FileError
		if !errors.As(err, &e) || e.Path != a {
			t.Error(err)
		}
	}
	must(t, assemble(a))
	must(t, assemble(a))
	must(t, build(a))
	before := contents(t, j.out)
	shared(build(b))
	shared(assemble(b))
	mustEqual(t, contents(t, j.out), before)

	// A set of another plan, a set through another name of the directory, and a set elsewhere.
	mustBuildAs := func(path string, shards int) {
		t.Helper()
		_, err := Build(background, path, mustPlan(t, mmapfilter.Options{}, shards), Work{}, numbers(0, 10))
		must(t, err)
	}
	mustBuildAs(b, 3)
	link := filepath.Join(j.dir, "link")
	must(t, os.Symlink(j.out, link))
	old := contents(t, j.out)["b.set"]
	shared(assemble(filepath.Join(link, "b.set")))
	if contents(t, j.out)["b.set"] != old {
		t.Error("the set that would have been replaced has changed")
	}
	must(t, os.Symlink(a, filepath.Join(j.dir, "linked.set")))
	shared(assemble(filepath.Join(j.dir, "linked.set")))
	must(t, build(filepath.Join(t.TempDir(), "b.set")))

	// A filter whose name ends with ".set" names no shards, and neither does a directory. A file that
	// cannot be read might name some.
	f, err := mmapfilter.Create(filepath.Join(j.out, "filter.set"), &mmapfilter.Options{Capacity: 10})
	must(t, err)
	must(t, f.Close())
	must(t, os.Mkdir(filepath.Join(j.out, "directory.set"), 0o777))
	must(t, build(a))
	nothing := filepath.Join(j.out, "nothing.set")
	must(t, os.Symlink("nowhere", nothing))
	if _, err := Superseded(j.out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("beside a link to nothing: %v", err)
	}
	must(t, os.Remove(nothing))
	must(t, os.WriteFile(filepath.Join(j.out, "bad.set"), []byte("{}"), 0o666))
	if err := build(a); !errors.As(err, new(*FileError)) {
		t.Errorf("beside a manifest that cannot be read: %v", err)
	}
}

// TestSharedAtOnce covers S3: if two sets are assembled from the same shards at the same time, at most
// one succeeds.
func TestSharedAtOnce(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{}, 2))
	must(t, j.partition("a", numbers(0, 100)))
	must(t, j.buildAll())
	for range 20 {
		errs := make(chan error)
		for _, name := range []string{"a.set", "b.set"} {
			go func() {
				_, err := Assemble(background, j.plan, j.spool, j.out, filepath.Join(j.out, name), false, Work{})
				errs <- err
			}()
		}
		failed := 0
		for range 2 {
			if err := <-errs; err != nil {
				failed++
			}
		}
		left, err := filepath.Glob(filepath.Join(j.out, "*.set"))
		if must(t, err); failed == 0 || len(left) != 2-failed {
			t.Fatalf("%d fail, and these files are left: %v", failed, left)
		}
		for _, path := range left {
			must(t, os.Remove(path))
		}
	}
}

// TestSupersededThroughLink: the shards of a manifest that was written through another name of the
// directory are not superseded.
func TestSupersededThroughLink(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{}, 2))
	link := filepath.Join(j.dir, "link")
	must(t, os.Symlink(j.out, link))
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	_, err := Assemble(background, j.plan, j.spool, j.out, filepath.Join(link, "keys.set"), true, Work{})
	must(t, err)
	mustHave(t, mustOpen(t, filepath.Join(link, "keys.set"), nil), 0, 1000)
	t.Chdir(j.out)
	for _, dir := range []string{j.out, link, "."} {
		if left, err := Superseded(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
	}
}

// TestSetDestroysNothing: a manifest, a plan and a spool replace only empty files and files of their
// own kind, and a set with too few keys replaces nothing.
func TestSetDestroysNothing(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{}, 2)
	text := []byte("{\"keys\": \"of mine\"}\n")
	for _, c := range []struct {
		name string
		make func(dir string) error
	}{
		{"x.set", func(dir string) error {
			_, err := Build(background, filepath.Join(dir, "x.set"), p, Work{}, numbers(0, 10))
			return err
		}},
		{"x.plan", func(dir string) error { return p.Write(filepath.Join(dir, "x.plan")) }},
		{"x.spool", func(dir string) error {
			_, err := Partition(background, p, dir, "x", numbers(0, 10), nil)
			return err
		}},
		{filepath.Base(p.builtPath("", 1)), func(dir string) error {
			j := newJob(t, p)
			must(t, j.partition("a", numbers(0, 10)))
			_, err := BuildShard(background, p, 1, j.spool, dir, Work{})
			return err
		}},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.name)
		must(t, os.WriteFile(path, text, 0o666))
		foreign := new(mmapfilter.ForeignError)
		if err := c.make(dir); !errors.As(err, &foreign) || foreign.Path != path {
			t.Errorf("%s: %v", c.name, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s has changed: %v", c.name, err)
		}
		must(t, os.WriteFile(path, nil, 0o666))
		must(t, c.make(dir)) // in place of an empty file
		must(t, c.make(dir)) // in place of a file of its own kind
	}
	dir := t.TempDir()
	path := mustBuild(t, dir, p, numbers(0, 10))
	before := contents(t, dir)
	if _, err := Build(background, path, p, Work{MinKeys: 1}, numbers(0, 0)); !errors.Is(err, mmapfilter.ErrFewKeys) {
		t.Error(err)
	}
	if !maps.Equal(contents(t, dir), before) {
		t.Error("the set has changed")
	}
}

// TestShardOfAnotherBuild covers S2: a shard of the same plan and size with other keys is refused.
func TestShardOfAnotherBuild(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 1000}, 1)
	var files []string
	var last *job
	for from := range 2 {
		last = newJob(t, p)
		must(t, last.partition("a", numbers(1000*from, 1000*from+1000)))
		must(t, last.buildAll())
		file, err := filepath.Glob(filepath.Join(last.out, "*.mmf"))
		must(t, err)
		files = append(files, file...)
	}
	other, err := os.ReadFile(files[0])
	must(t, err)
	must(t, os.WriteFile(files[1], other, 0o666))
	if err := last.assemble(); err == nil || !strings.Contains(err.Error(), files[1]) {
		t.Error(err)
	}
	if _, err := os.Stat(last.path()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a manifest has been written")
	}
}
