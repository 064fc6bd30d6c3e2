package sets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// onlyReads is a file system whose files have no ReadAt.
type onlyReads struct{ fs.FS }

func (s onlyReads) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	return struct{ fs.File }{f}, err
}

// TestOpenFS covers S4: a set in a file system answers as it does from its path, whatever its files
// can do.
func TestOpenFS(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 30_000, FalsePositiveRate: 0.01}, 5)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	path := mustBuild(t, filepath.Join(dir, "sub"), p, numbers(0, 30_000))
	want := mustOpen(t, path, nil)
	absent := count(t, want, 30_000, 60_000)
	name, err := filepath.Rel(dir, path)
	must(t, err)
	name = filepath.ToSlash(name)
	inMemory := fstest.MapFS{}
	must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, err := fs.ReadFile(os.DirFS(dir), name)
			inMemory[name] = &fstest.MapFile{Data: data}
			return err
		}
		return err
	}))
	for kind, fsys := range map[string]fs.FS{"directory": os.DirFS(dir), "memory": inMemory, "no ReadAt": onlyReads{os.DirFS(dir)}} {
		s, err := OpenFS(fsys, name)
		must(t, err)
		mustHave(t, s, 0, 30_000)
		if n := count(t, s, 30_000, 60_000); n != absent || s.Len() != 30_000 || s.Cap() != want.Cap() || s.Err() != nil {
			t.Errorf("%s: %d found, not %d; %d keys, %v", kind, n, absent, s.Len(), s.Err())
		}
		if stats := s.Stats(); stats.Opened != 5 || stats.Failed != 0 {
			t.Errorf("%s: %+v", kind, stats)
		}
		for _, err := range []error{s.OpenShards(), s.Insert([]byte("k"))} {
			if !errors.Is(err, mmapfilter.ErrReadOnly) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		must(t, s.Close())
		if !s.ContainsString("absent") {
			t.Errorf("%s: a closed set says \"certainly not\"", kind)
		}
	}
	var e *mmapfilter.OptionError
	if _, err := OpenFS(inMemory, name, &mmapfilter.OpenOptions{ReadSize: -1}); !errors.As(err, &e) {
		t.Error(err)
	}
	if _, err := OpenFS(inMemory, "none.set", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestOpenFSReplaced covers S4 and R7: a batch checks the file of each shard that it reads, however few
// of its keys belong to the shard.
func TestOpenFSReplaced(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 3000}, 2)
	path := mustBuild(t, t.TempDir(), p, numbers(0, 3000))
	other := shards(t, mustBuild(t, t.TempDir(), p, numbers(3000, 6000)))
	inMemory := fstest.MapFS{}
	for _, file := range append(shards(t, path), path) {
		data, err := os.ReadFile(file)
		must(t, err)
		inMemory[filepath.Base(file)] = &fstest.MapFile{Data: data}
	}
	s, err := OpenFS(inMemory, filepath.Base(path), nil)
	must(t, err)
	defer s.Close()
	must(t, s.OpenAll())
	for i, file := range shards(t, path) {
		data, err := os.ReadFile(other[i])
		must(t, err)
		inMemory[filepath.Base(file)].Data = data
	}
	for _, key := range batch(0, 3000) {
		found := make([]bool, 1)
		if s.ContainsBatch([][]byte{key}, found); !found[0] {
			t.Fatalf("the answer for key %q is \"certainly not\"", key)
		}
	}
}

// TestGoldenFS: the set in testdata also answers from a file system, on machines that cannot build it.
func TestGoldenFS(t *testing.T) {
	fromPath := mustOpen(t, filepath.Join(goldenDir, "keys.set"), nil)
	fromFS, err := OpenFS(os.DirFS(goldenDir), "keys.set")
	must(t, err)
	for _, s := range []*Set{fromPath, fromFS} {
		mustHave(t, s, 0, 3000)
		if n := count(t, s, 3000, 13_000); n > 40 || s.Err() != nil {
			t.Errorf("%d of 10,000 absent keys found; %v", n, s.Err())
		}
	}
	must(t, fromFS.Close())
}
