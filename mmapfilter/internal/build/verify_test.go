package build_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A file is the words of a file in memory.
type file struct {
	words []uint64
	g     layout.Geometry
}

// newFile returns a sealed file with some items.
func newFile(t *testing.T) *file {
	t.Helper()
	const items = 100
	f := &file{words: tabletest.OneEach()[0].Volume(t, 300).File.Mem}
	sb := f.head(t).Superblock
	f.g = f.head(t).Geometry
	table := layout.NewTable(f.g)
	p := place.New(table, place.NewUnlogged(table, layout.NewView(f.words[layout.WordRuntime:], f.g)))
	rng := rand.New(rand.NewPCG(1, 2))
	for range items {
		if !p.Insert(table.Split(rng.Uint64())) {
			t.Fatal("no room")
		}
	}
	sb.SetLength(items)
	sb.SetState(layout.Sealed)
	sb.Sign()
	build.PutCopies(recovery.Bytes(f.words), sb)
	tail, err := build.Tail(context.Background(), table, f.g, recovery.Bytes(f.words), sb)
	if err != nil {
		t.Fatal(err)
	}
	copy(recovery.Bytes(f.words)[f.g.OffTable:], tail)
	return f
}

func (f *file) head(t *testing.T) *osfile.Head {
	t.Helper()
	data := recovery.Bytes(f.words)
	_, sb, g, err := layout.Newest(data[:layout.OffRuntime])
	if err != nil {
		t.Fatal(err)
	}
	head := &osfile.Head{Superblock: sb, Geometry: g, Size: int64(len(data))}
	copy(head.Raw[:], data)
	return head
}

// keeping creates a file that keeps its hashes, inserts items, calls do, and closes the file.
func keeping(t *testing.T, s tabletest.Shape, items []uint64, do func(w *writer.Writer)) (path string, f *file) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "f")
	s.CreateKeeping(t, path, 300)
	files, err := osfile.OpenFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := writer.Open(files, writer.LogSize{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range items {
		if err := w.Insert(h); err != nil {
			t.Fatal(err)
		}
	}
	do(w)
	if err := errors.Join(w.Clean(), w.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f = &file{words: make([]uint64, len(data)/8)}
	copy(recovery.Bytes(f.words), data)
	f.g = f.head(t).Geometry
	return path, f
}

// change replaces an item in a line by another one.
func (f *file) change(t *testing.T) {
	t.Helper()
	table, view := layout.NewTable(f.g), layout.NewView(f.words[layout.WordRuntime:], f.g)
	for line := range table.Lines() {
		var l layout.Line
		layout.Load(table, view.Region, line, &l)
		for _, it := range table.Items(nil, &l, line) {
			changed, other := l, it
			other.Fp ^= 1
			if table.Remove(&changed, it, nil) && table.Place(&changed, other, nil) {
				layout.Store(table, view.Region, line, &changed)
				return
			}
		}
	}
	t.Fatal("no item can be changed")
}

// TestHistory covers K7: a stray delete is not damage. Verify counts it, and the key whose item it
// removed. Even with a stray delete, Verify must find damage: another item, or a hash that lookups do
// not find. The report must have the numbers of left-out keys and waiting deletes from the superblock.
func TestHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([]uint64, 11_000)
	for i := range all {
		all[i] = rng.Uint64()
	}
	must := func(done bool, err error) {
		t.Helper()
		if !done || err != nil {
			t.Fatal(done, err)
		}
	}
	const absent = 1 << 50
	stray := func(w *writer.Writer) { must(w.Delete(all[0] ^ 1)) }
	nothing := func(*writer.Writer) {}
	for _, s := range tabletest.OneEach() {
		items := all[:min(len(all), int(300*s.Slots())*9/10)]
		n := uint64(len(items))
		for _, c := range []struct {
			name   string
			do     func(w *writer.Writer)
			change func(f *file)
			want   build.Report // only the fields that depend on the history
			damage string
		}{
			{"nothing", nothing, nil, build.Report{Items: n, Hashes: n}, ""},
			{"a stray delete", stray, nil, build.Report{Items: n - 1, Hashes: n, NotFound: 1, Strays: 1}, ""},
			{"a key that leans", func(w *writer.Writer) {
				added, err := w.InsertUnique(all[0] ^ 1)
				must(!added, err)
				must(w.Delete(all[1]))
				must(w.Delete(all[2]))
			}, nil, build.Report{Items: n, Hashes: n + 1 - 2, LeftOut: 1, Waiting: 2}, ""},
			{"a key that leans on nothing", func(w *writer.Writer) {
				w.Protocol().Append(nil, 0, layout.AtLeastOne, absent)
			}, nil, build.Report{}, "lookups do not find 1 of the kept hashes"},
			{"another item", nothing, func(f *file) { f.change(t) }, build.Report{}, "the lines from here on"},
			{"another item and a stray delete", stray, func(f *file) { f.change(t) }, build.Report{}, "the lines from here on"},
		} {
			path, f := keeping(t, s, items, c.do)
			if c.change != nil {
				c.change(f)
			}
			r, err := build.Verify(context.Background(), path, f.head(t), recovery.Bytes(f.words), func(_, _ int64) {})
			if err != nil || r.HashesErr != nil {
				t.Fatal(err, r.HashesErr)
			}
			if c.damage != "" {
				if len(r.Damage) != 1 || !strings.Contains(r.Damage[0].Error(), c.damage) {
					t.Errorf("%s, %s: %v", s, c.name, r.Damage)
				}
				continue
			}
			got := build.Report{Items: r.Items, Hashes: r.Hashes, NotFound: r.NotFound, Strays: r.Strays, LeftOut: r.LeftOut, Waiting: r.Waiting}
			if !reflect.DeepEqual(got, c.want) || len(r.Damage) > 0 {
				t.Errorf("%s, %s: %+v, not %+v; %v", s, c.name, got, c.want, r.Damage)
			}
		}
	}
}

// TestProgress checks that the progress rises with each report, up to all bytes that Verify reads.
func TestProgress(t *testing.T) {
	f := newFile(t)
	var last int64
	_, err := build.Verify(context.Background(), "", f.head(t), recovery.Bytes(f.words), func(done, total int64) {
		if done <= last || done > total || total != f.g.OffTable-layout.OffRuntime {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil || last != f.g.OffTable-layout.OffRuntime {
		t.Errorf("%d, %v", last, err)
	}
}

// TestCancelled checks that Verify returns the cause of a cancelled context.
func TestCancelled(t *testing.T) {
	f := newFile(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := build.Verify(ctx, "", f.head(t), recovery.Bytes(f.words), func(_, _ int64) {}); err != enough {
		t.Error(err)
	}
}
