package mmapfilter

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
	"pgregory.net/rapid"
)

// numbers yields the 8-byte keys of the numbers [from, to).
func numbers(from, to uint64) iter.Seq2[[]byte, error] { return tabletest.Numbers(from, to) }

// hashes returns n hashes. The same seed gives the same hashes.
func hashes(seed uint64, n int) []uint64 {
	rng := rand.New(rand.NewPCG(seed, seed))
	h := make([]uint64, n)
	for i := range h {
		h[i] = rng.Uint64()
	}
	return h
}

// image returns the bytes of a built file.
func image(tb testing.TB, opts *Options, keys iter.Seq2[[]byte, error]) []byte {
	tb.Helper()
	_, path := mustBuild(tb, opts, keys)
	return readFile(tb, path)
}

// spread returns a hash for a number.
func spread(i int) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 }

// spreads returns the hashes for a range of numbers.
func spreads(from, to int) (hashes []uint64) {
	for i := from; i < to; i++ {
		hashes = append(hashes, spread(i))
	}
	return hashes
}

// seeded returns a generator of random numbers, and logs its seed.
func seeded(tb testing.TB, seed uint64) *rand.Rand {
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// must ends the test if err is not nil.
func must(tb rapid.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// needsWriters skips a test where no file can be opened for writing.
func needsWriters(tb testing.TB) {
	tb.Helper()
	if err := osfile.CanWrite(); err != nil {
		tb.Skip("NOT TESTED: ", err)
	}
}

// needsReplacing skips a test where a file that is mapped cannot be replaced, cut short or removed.
func needsReplacing(tb testing.TB) {
	tb.Helper()
	if !osfile.Replaces {
		tb.Skip("NOT TESTED: a mapped file cannot be replaced here")
	}
}

// symlink makes a symbolic link, or skips the test if there is none: Wine reports success, but makes
// none.
func symlink(tb testing.TB, to, link string) {
	tb.Helper()
	err := os.Symlink(to, link)
	if err == nil {
		_, err = os.Readlink(link)
	}
	if err != nil {
		tb.Skip("NOT TESTED: ", err)
	}
}

// mustRename renames a file. Where a mapped file cannot be replaced, it waits until the mappings of
// closed filters are collected.
func mustRename(tb testing.TB, from, to string) {
	tb.Helper()
	err := os.Rename(from, to)
	for tries := 0; err != nil && !osfile.Replaces && tries < 20; tries++ {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		err = os.Rename(from, to)
	}
	must(tb, err)
}

// mustOpen opens a filter, and closes it when the test ends.
func mustOpen(tb testing.TB, path string, opts *OpenOptions) *Filter {
	tb.Helper()
	needsWriters(tb)
	f, err := Open(path, opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f
}

// replaceable returns options with which a file can be replaced while it is open.
func replaceable() *OpenOptions {
	o := new(OpenOptions)
	if !osfile.Replaces {
		o.Residency = ResidencyHeap
	}
	return o
}

// mustOpenReadOnly opens a filter for lookups, and closes it when the test ends.
func mustOpenReadOnly(tb testing.TB, path string, opts *OpenOptions) *Filter {
	tb.Helper()
	f, err := OpenReadOnly(path, opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f
}

// mustBuild builds a filter in its own directory. The filter has the file mapped, unless that would keep
// a test from replacing it.
func mustBuild(tb testing.TB, opts *Options, keys iter.Seq2[[]byte, error]) (f *Filter, path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "filter.mmf")
	f, err := Build(context.Background(), path, opts, keys)
	must(tb, err)
	if !osfile.Replaces {
		must(tb, f.Close())
		path = copyFilter(tb, path) // the copy is not mapped
		return mustOpenReadOnly(tb, path, replaceable()), path
	}
	tb.Cleanup(func() { f.Close() })
	return f, path
}

// mustCreate makes an empty filter that commits only when told to. Unless opts names a seed, the seed is
// the same in each run, so that no test fails in a few runs because a key is taken for another one.
func mustCreate(tb testing.TB, opts *Options) (*Filter, string) {
	tb.Helper()
	needsWriters(tb)
	path := filepath.Join(tb.TempDir(), "filter.mmf")
	if opts.CommitInterval == 0 {
		opts.CommitInterval = -1
	}
	opts.Seed = cmp.Or(opts.Seed, DefaultSeed)
	f, err := Create(path, opts)
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f, path
}

// createLines makes an empty filter with so many lines, which does no work in the background: it commits
// and makes checkpoints only in calls.
func createLines(tb testing.TB, path string, p shape, lines uint64, opts Options) *Filter {
	tb.Helper()
	needsWriters(tb)
	plan, o := p.planned(tb, lines, opts)
	must(tb, createPlanned(path, plan, o))
	f, err := Open(path, &OpenOptions{CommitInterval: -1, LogBytes: o.LogBytes})
	must(tb, err)
	writerOf(f).Work = nil
	return f
}

// memoryDir returns a directory in memory if the system has one, for tests and measurements that are not
// about the disk.
func memoryDir(tb testing.TB) string {
	if runtime.GOOS == "windows" {
		return tb.TempDir() // Wine has a /dev/shm
	}
	dir, err := os.MkdirTemp("/dev/shm", "mmapfilter")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// small returns its second argument in a short run, and otherwise its first.
func small[T any](usual, short T) T {
	if testing.Short() {
		return short
	}
	return usual
}

func mustInsert(tb testing.TB, f *Filter, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		must(tb, f.Insert(key))
	}
}

func insertAll(tb testing.TB, f *Filter, hashes []uint64) {
	tb.Helper()
	for i, h := range hashes {
		if err := f.InsertHash(h); err != nil {
			tb.Fatalf("insert %d: %v", i, err)
		}
	}
}

func mustContain(tb testing.TB, f *Filter, hashes []uint64) {
	tb.Helper()
	for i, h := range hashes {
		if !f.ContainsHash(h) {
			tb.Fatalf("key %d is lost", i)
		}
	}
}

// mustHave checks that the filter has all keys of numbers(from, to).
func mustHave(tb testing.TB, f interface{ Contains([]byte) bool }, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if !f.Contains(key) {
			tb.Fatalf("key %x is lost", key)
		}
	}
}

// countFound looks keys up in batches, and counts the answers "maybe".
func countFound(f *Filter, keys iter.Seq2[[]byte, error]) (found, asked int) {
	var hashes [4096]uint64
	var answers [4096]bool
	n := 0
	ask := func() {
		f.ContainsHashes(hashes[:n], answers[:n])
		for _, a := range answers[:n] {
			if a {
				found++
			}
		}
		asked += n
		n = 0
	}
	for key := range keys {
		hashes[n] = f.Hash(key)
		if n++; n == len(hashes) {
			ask()
		}
	}
	ask()
	return found, asked
}

// mustSayMaybe checks that every answer is "maybe", even for keys that are in no filter of the
// tests.
func mustSayMaybe(t *testing.T, f asker) {
	t.Helper()
	keys := [][]byte{nil, []byte("absent"), []byte("a longer key that is absent as well, of more than 64 bytes, so that it is hashed in Go")}
	found := make([]bool, 1000)
	f.ContainsBatch(make([][]byte, 1000), found)
	for _, key := range keys {
		if !f.Contains(key) || !f.ContainsString(string(key)) {
			t.Fatalf("the answer for %q is certainly not", key)
		}
	}
	for i := range found {
		if !found[i] {
			t.Fatalf("the answer for key %d of a batch is certainly not", i)
		}
	}
	filter, ok := f.(*Filter)
	if !ok {
		return
	}
	clear(found)
	filter.ContainsHashes(make([]uint64, 1000), found)
	for i := range found {
		if !found[i] || !filter.ContainsHash(uint64(i)) {
			t.Fatalf("the answer for hash %d is certainly not", i)
		}
	}
	if n := filter.Count(keys[1]); n != math.MaxUint64 {
		t.Fatalf("the count of %q is at most %d", keys[1], n)
	}
}

func writerOf(f *Filter) *writer.Writer { return f.open.Load().work.Writer }

// newestState copies the lines and the stash of a writer, with pending operations applied.
func newestState(w *writer.Writer) layout.View { return w.Newest() }

// abandon copies the files of a writer as the death of its process would leave them.
func abandon(tb testing.TB, f *Filter, path string) (copied string) {
	tb.Helper()
	if o, err := f.writable(); err == nil {
		defer o.work.Writer.LockAll()() // a checkpoint in the background changes both files
	}
	return copyFilter(tb, path)
}

// copyFilter copies a filter file and the files beside it.
func copyFilter(tb testing.TB, path string) (copied string) {
	tb.Helper()
	copied = filepath.Join(tb.TempDir(), "filter.mmf")
	suffixes := []string{"", ".stash", ".stash.new", ".hashes", ".hashes.new", ".apply"}
	past, _ := filepath.Glob(path + ".past*")
	for _, name := range past {
		suffixes = append(suffixes, strings.TrimPrefix(name, path))
	}
	for _, suffix := range suffixes {
		if err := copyOver(copied+suffix, path+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			tb.Fatal(err)
		}
	}
	return copied
}

// deadWriter makes a file with n keys, and its log, as a killed writer would leave them. The first
// synced keys are committed.
func deadWriter(t *testing.T, n, synced int) (path string) {
	t.Helper()
	return deadWriterOf(t, &Options{Capacity: 10_000}, n, synced)
}

// A crew is a group of goroutines. (sync.WaitGroup has the method Go since Go 1.25.)
type crew struct{ sync.WaitGroup }

// Go runs f in a goroutine.
func (c *crew) Go(f func()) {
	c.Add(1)
	go func() { defer c.Done(); f() }()
}

// leaks counts goroutines, and descriptors if the system lists them. It returns a function that checks
// that there are no more of them, or waits until there are not: goroutines of contexts may end a little
// later.
func leaks(t *testing.T) (mustBeNone func()) {
	t.Helper()
	count := func() (goroutines, descriptors int) {
		var entries []os.DirEntry
		if runtime.GOOS != "windows" { // Wine has a /proc
			entries, _ = os.ReadDir("/proc/self/fd")
		}
		return runtime.NumGoroutine(), len(entries)
	}
	goroutines, descriptors := count()
	for range 20 { // what earlier tests have left may end or be collected now
		runtime.GC()
		time.Sleep(500 * time.Microsecond)
		g, d := count()
		goroutines, descriptors = min(g, goroutines), min(d, descriptors)
	}
	return func() {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			g, d := count()
			if g <= goroutines && d <= descriptors {
				return
			}
			if time.Since(begun) > time.Minute {
				t.Errorf("%d goroutines and %d descriptors, but before %d and %d", g, d, goroutines, descriptors)
				return
			}
		}
	}
}

// mustVerify checks that a file is not damaged and has so many items.
func mustVerify(tb testing.TB, path string, items uint64) Report {
	tb.Helper()
	r, err := Verify(context.Background(), path)
	if err != nil || r.Items != items {
		tb.Errorf("%+v, %v", r, err)
	}
	return r
}

// mustLeave checks that n files have names that begin with path.
func mustLeave(tb testing.TB, path string, n int) {
	tb.Helper()
	if list, _ := filepath.Glob(path + "*"); len(list) != n {
		tb.Errorf("left %v", list)
	}
}

func readFile(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	must(tb, err)
	return data
}

func copyOver(to, from string) error {
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	return err
}

// flip changes one byte of a file.
func flip(t *testing.T, f *os.File, off int64, mask byte) {
	t.Helper()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= mask
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

// flipByte changes a byte of a file. A negative offset counts from the end.
func flipByte(path string, at int64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if at < 0 {
		at += int64(len(data))
	}
	data[at] ^= 1
	return os.WriteFile(path, data, 0o600)
}

func mustWriter(tb testing.TB, v recovery.Volume, logBytes int64) *writer.Writer {
	tb.Helper()
	w, _, err := writer.Open(v, writer.LogSize{First: logBytes, Most: logBytes})
	must(tb, err)
	return w
}

// viewOf returns what lookups of other processes read.
func viewOf(w *writer.Writer) *layout.View {
	v := layout.NewView(w.Protocol().Words()[layout.WordRuntime:], w.Protocol().Geometry())
	return &v
}
