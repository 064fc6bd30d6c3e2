package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func options(capacity uint64, note string) *mmapfilter.Options {
	return &mmapfilter.Options{Capacity: capacity, Normalisation: note}
}

// chance decides which operations fail. Several goroutines may use it.
type chance struct {
	mu   sync.Mutex
	rand *rand.Rand
	one  int    // one operation in this many fails; 0 means that none fails
	only string // the kind of operation that fails; empty means any
	n    int    // operations that have failed
}

func newChance(t *testing.T) *chance {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	return &chance{rand: rand.New(rand.NewPCG(seed, 0))}
}

func (c *chance) intn(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

var errChance = errors.New("failed by chance")

// fail makes an operation of this kind fail by chance: it returns an error, or panics. The first one
// always fails.
func (c *chance) fail(kind string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.one == 0 || c.only != "" && c.only != kind || c.n > 0 && c.rand.IntN(c.one) > 0 {
		return nil
	}
	c.n++
	if c.rand.IntN(2) == 0 {
		panic(errChance)
	}
	return errChance
}

// flaky is a Beam filesystem, flaky:///PATH, whose files are those of the machine. Its calls fail by
// chance.
type flaky struct{ *chance }

const flakyScheme = "flaky://"

var flakyChance = new(chance) // for all flaky filesystems, since Beam creates them from their scheme

func init() {
	filesystem.Register("flaky", func(context.Context) filesystem.Interface { return flaky{flakyChance} })
}

func (f flaky) Close() error { return nil }

func (f flaky) List(_ context.Context, glob string) ([]string, error) {
	if err := f.fail("list"); err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(strings.TrimPrefix(glob, flakyScheme))
	for i := range paths {
		paths[i] = flakyScheme + paths[i]
	}
	return paths, err
}

func (f flaky) Size(_ context.Context, name string) (int64, error) {
	info, err := os.Stat(strings.TrimPrefix(name, flakyScheme))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f flaky) OpenRead(_ context.Context, name string) (io.ReadCloser, error) {
	if err := f.fail("open"); err != nil {
		return nil, err
	}
	file, err := os.Open(strings.TrimPrefix(name, flakyScheme))
	return &flakyFile{file, f.chance}, err
}

// A flakyFile can seek.
type flakyFile struct {
	*os.File
	chance *chance
}

func (f *flakyFile) Read(p []byte) (int, error) {
	if err := f.chance.fail("read"); err != nil {
		return 0, err
	}
	return f.File.Read(p[:min(len(p), 10_000)])
}

// OpenWrite returns a writer whose file appears when the writer is closed, unless the context has ended.
func (f flaky) OpenWrite(ctx context.Context, name string) (io.WriteCloser, error) {
	if err := f.fail("create"); err != nil {
		return nil, err
	}
	return &flakyWriter{ctx: ctx, path: strings.TrimPrefix(name, flakyScheme), chance: f.chance}, nil
}

type flakyWriter struct {
	ctx    context.Context
	path   string
	data   []byte
	chance *chance
}

func (w *flakyWriter) Write(p []byte) (int, error) {
	w.data = append(w.data, p...)
	return len(p), w.chance.fail("write")
}

func (w *flakyWriter) Close() error {
	if err := errors.Join(w.ctx.Err(), w.chance.fail("close")); err != nil {
		return err
	}
	temporary := fmt.Sprintf("%s.%p", w.path, w)
	return errors.Join(os.WriteFile(temporary, w.data, 0o666), os.Rename(temporary, w.path))
}

// TestFailures lets calls of the store fail at random. Prism does not retry bundles, so the first
// failure ends the job. There must be no manifest then, and a later run that does not fail must write
// the same bytes as one machine.
func TestFailures(t *testing.T) {
	const n = 20_000
	in, out := t.TempDir(), t.TempDir()
	writeKeys(t, in, n)
	p, data := newPlan(t, options(n, ""), 5)
	want, _ := onOneMachine(t, p, n)
	j, err := newJob("plan", data, []string{flakyScheme + in + "/*.txt"}, flakyScheme+out+"/x.set")
	must(t, err)
	j.partBytes = 50_000
	flakyChance = newChance(t)
	defer func() { flakyChance = new(chance) }()
	try := func(kind string, one int) {
		t.Helper()
		before := flakyChance.n
		flakyChance.only, flakyChance.one = kind, one
		_, err := onPrism(j)
		failed := flakyChance.n > before
		t.Logf("1 %s in %d fails: %v", kind, one, failed)
		if failed != (err != nil) {
			t.Fatalf("an operation has failed: %v, but the error is %v", failed, err)
		}
		if err != nil && !strings.Contains(err.Error(), errChance.Error()) {
			t.Errorf("the error does not give the cause: %v", err)
		}
		manifest := filepath.Join(out, "x.set")
		if _, statErr := os.Stat(manifest); (statErr == nil) != (err == nil) {
			t.Fatalf("error %v, and the manifest: %v", err, statErr)
		}
		if err != nil {
			complete(t, out, want)
		} else {
			same(t, os.DirFS(out), os.DirFS(want))
			must(t, os.Remove(manifest))
		}
	}
	// A shard and the manifest each take one create, at least one write, and one close.
	for _, kind := range []string{"list", "open", "read", "create", "write", "close"} {
		try(kind, 1)
		try(kind, 3)
		try(kind, 8)
	}
	try("operation", 0)
}

// complete checks that every shard that is in a directory has all its bytes.
func complete(t *testing.T, got, want string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(got, "*.mmf"))
	must(t, err)
	for _, path := range paths {
		a, err := os.ReadFile(path)
		b, wantErr := os.ReadFile(filepath.Join(want, filepath.Base(path)))
		if err := errors.Join(err, wantErr); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s has %d bytes, which differ from those built on one machine: %v", path, len(a), err)
		}
	}
}

// TestStore builds a set in a store that is not a directory, from files in which readers cannot seek.
func TestStore(t *testing.T) {
	const n = 20_000
	ctx, in := context.Background(), t.TempDir()
	writeKeys(t, in, n)
	if err := fs.WalkDir(os.DirFS(in), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			data, err = os.ReadFile(filepath.Join(in, path))
			memfs.Write("memfs://in/"+path, data)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	p, data := newPlan(t, &mmapfilter.Options{Capacity: n, FalsePositiveRate: 1e-6}, 5)
	want, _ := onOneMachine(t, p, n)
	j, err := newJob("plan", data, []string{"memfs://in/keys-[0-2].txt", "memfs://in/keys-[3-9].txt"}, "memfs://out/x.set")
	must(t, err)
	j.partBytes = 1000 // has no effect here
	if _, err := onPrism(j); err != nil {
		t.Fatal(err)
	}
	got, store := t.TempDir(), memfs.New(ctx)
	urls, err := store.List(ctx, "memfs://out/*")
	must(t, err)
	for _, url := range urls {
		r, err := store.OpenRead(ctx, url)
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, errors.Join(err, os.WriteFile(filepath.Join(got, filepath.Base(url)), data, 0o666)))
	}
	same(t, os.DirFS(got), os.DirFS(want))
}
