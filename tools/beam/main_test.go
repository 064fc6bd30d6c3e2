package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

var (
	keysFlag = flag.Int("keys", 200_000, "number of keys of TestPrism")
	seedFlag = flag.Uint64("seed", 0, "chooses what fails in TestRetries and TestFailures; 0 means a random seed")
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	beam.Init()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler)) // Prism logs the failures that the tests cause
	}
	os.Exit(m.Run())
}

// testKeys yields n keys. Most have 16 bytes; others are repeated, empty or long, or have bytes such as
// 0 and 0xff, but no line feed.
func testKeys(n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		key := make([]byte, 0, 16)
		for i := range n {
			x := (uint64(i) + 1) * 0x9e3779b97f4a7c15
			key = key[:0]
			switch {
			case i == 7:
				key = append(key, bytes.Repeat([]byte("long"), 100_000)...)
			case i == 8:
			case i%1000 == 10:
				key = append(key, "repeated"...)
			case i%1000 == 11:
				key = append(key, 0, '\r', byte(i), 0xff, '\r')
				key = bytes.ReplaceAll(key, []byte{'\n'}, []byte{'n'})
			default:
				for range 16 {
					key = append(key, "0123456789abcdef"[x>>60])
					x <<= 4
				}
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}

// writeKeys writes n keys to files of different sizes in a directory. One file is empty, and one ends
// without a line feed.
func writeKeys(t testing.TB, dir string, n int) {
	t.Helper()
	ends := []int{n / 2, n / 2, n * 3 / 4, n - n/1000, n}
	next, stop := iter.Pull2(testKeys(n))
	defer stop()
	i := 0
	for number, end := range ends {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("keys-%d.txt", number)))
		must(t, err)
		w := bufio.NewWriterSize(f, 1<<20)
		for ; i < end; i++ {
			key, _, _ := next()
			w.Write(key)
			if number != 2 || i < end-1 {
				w.WriteByte('\n')
			}
		}
		must(t, errors.Join(w.Flush(), f.Close()))
	}
}

// newPlan returns a plan, and the bytes of its file.
func newPlan(t testing.TB, o *mmapfilter.Options, shards int) (*sets.Plan, []byte) {
	t.Helper()
	p, err := sets.NewPlan(o, shards)
	must(t, err)
	path := filepath.Join(t.TempDir(), "plan")
	must(t, p.Write(path))
	data, err := os.ReadFile(path)
	must(t, err)
	return p, data
}

// onPrism runs a job on Prism, and returns the job's counters.
func onPrism(j *job) (map[string]int64, error) {
	p, s := beam.NewPipelineWithRoot()
	j.add(s)
	result, err := prism.Execute(context.Background(), p)
	if err != nil {
		return nil, err
	}
	return counts(result), nil
}

// onOneMachine builds the same set without Beam, in a directory of its own.
func onOneMachine(t testing.TB, p *sets.Plan, n int) (string, *sets.Summary) {
	t.Helper()
	dir := t.TempDir()
	s, err := sets.Build(context.Background(), filepath.Join(dir, "x.set"), p, sets.Work{}, testKeys(n))
	must(t, err)
	return dir, s
}

// same checks that two directories have files with the same names and the same bytes.
func same(t testing.TB, got, want fs.FS) {
	t.Helper()
	names := func(f fs.FS) (list []string) {
		entries, err := fs.ReadDir(f, ".")
		must(t, err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	if a, b := names(got), names(want); !slices.Equal(a, b) {
		t.Fatalf("the files are\n%s\nwant\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for _, name := range names(want) {
		a, err := fs.ReadFile(got, name)
		must(t, err)
		b, err := fs.ReadFile(want, name)
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Errorf("the bytes of %s differ from those built on one machine", name)
		}
	}
}

// TestPrism checks that sets built on Prism have the same bytes as sets built on one machine.
func TestPrism(t *testing.T) {
	const few = 50_000
	for _, c := range []struct {
		name   string
		keys   int
		shards int
		opts   mmapfilter.Options
	}{
		{"flag", *keysFlag, 8, mmapfilter.Options{Capacity: uint64(*keysFlag)}},
		{"distinct", few, 5, mmapfilter.Options{Capacity: few, Distinct: true, FalsePositiveRate: 1e-5}},
		{"no capacity", few, 3, mmapfilter.Options{}},
		{"more shards than keys", 10, 16, mmapfilter.Options{Capacity: 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, out := t.TempDir(), filepath.Join(t.TempDir(), "made", "by", "the", "workers")
			writeKeys(t, in, c.keys)
			p, data := newPlan(t, &c.opts, c.shards)
			want, summary := onOneMachine(t, p, c.keys)
			j, err := newJob("plan", data, []string{filepath.Join(in, "*.txt")}, filepath.Join(out, "x.set"))
			must(t, err)
			j.partBytes = min(j.partBytes, 5000+int64(c.keys)) // many parts of a small set, too
			n, err := onPrism(j)
			must(t, err)
			if n["read"] != int64(c.keys) || n["items"] != int64(summary.Keys) || n["built"] != int64(c.shards) || n["bytes"] != summary.Bytes {
				t.Errorf("the job counted %v; want %+v", n, summary)
			}
			same(t, os.DirFS(out), os.DirFS(want))
		})
	}
}
