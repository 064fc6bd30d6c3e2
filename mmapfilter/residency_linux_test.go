package mmapfilter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// vmFlags returns the kernel's flags for the mapping of a file.
func vmFlags(t *testing.T, path string) string { return inSmaps(t, path, "VmFlags:") }

// inSmaps returns a field of the first mapping in /proc/self/smaps whose first line contains text.
func inSmaps(t *testing.T, text, field string) string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip("NOT TESTED: the kernel has no list of mappings: ", err)
	}
	defer f.Close()
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			found = true
		}
		if is, ok := strings.CutPrefix(lines.Text(), field); ok && found {
			return " " + is + " "
		}
	}
	return ""
}

// beginOf returns the beginning of the first line about the mapping of a filter in smaps.
func beginOf(f *Filter) string {
	return strings.TrimPrefix(fmt.Sprintf("%p-", f.open.Load().mapping.Data), "0x")
}

// TestResidencyReachesTheKernel covers R4 and R5: it checks the flags of the mapping for each residency.
// rr means random access, hg large pages, and lo locked. A file that is not sealed, or does not fit in
// memory, is mapped for random access.
func TestResidencyReachesTheKernel(t *testing.T) {
	defer func(before func() int64) { memoryLimit = before }(memoryLimit)
	unlimited := memoryLimit
	const sealed, clean = "../testdata/compact-seed.mmf", "../testdata/compact-clean.mmf"
	large := emptyFile(t, 64<<20)
	for _, c := range []struct {
		path      string
		residency Residency
		share     float64 // size of the file divided by the memory; 0 means the real memory
		flags     string  // of rr, hg, lo
	}{
		{sealed, ResidencyDefault, 0, "hg"},
		{sealed, ResidencyRandom, 0, "rr"},
		{sealed, ResidencyPopulate, 0, "hg"},
		{sealed, ResidencyLock, 0, "hg lo"},
		{sealed, ResidencyHeap, 0, "none"},
		{clean, ResidencyDefault, 0, "rr"},
		{clean, ResidencyPopulate, 0, "rr"},
		{clean, ResidencyLock, 0, "rr lo"},
		{large, ResidencyDefault, 0.001, "hg"},
		{large, ResidencyDefault, 0.8, "hg"},
		{large, ResidencyDefault, 0.95, "rr"},
		{large, ResidencyDefault, 10, "rr"},
	} {
		if memoryLimit = unlimited; c.share != 0 {
			memoryLimit = func() int64 { return int64(float64(sizeOf(t, c.path)) / c.share) }
		}
		f := mustOpenReadOnly(t, c.path, &OpenOptions{Residency: c.residency})
		all := vmFlags(t, strings.TrimPrefix(c.path, ".."))
		var flags []string
		for _, flag := range []string{"rr", "hg", "lo"} {
			if strings.Contains(all, " "+flag+" ") {
				flags = append(flags, flag)
			}
		}
		if all == "" {
			flags = []string{"none"}
		}
		if got := strings.Join(flags, " "); got != c.flags {
			t.Errorf("%s, %s, of %g times the memory: %q, not %q", c.path, c.residency, c.share, got, c.flags)
		}
		f.Close()
		waitUnmapped(t, strings.TrimPrefix(c.path, ".."))
	}
}

// waitUnmapped waits until garbage collection has removed the mappings of closed filters.
func waitUnmapped(t *testing.T, path string) {
	t.Helper()
	for range 1000 {
		if vmFlags(t, path) == "" {
			return
		}
		runtime.GC()
	}
	t.Error("a closed filter stays mapped")
}

// TestUnsealedFileIsInSmallPages: on some systems, Build leaves a file in large pages in the page cache.
// Once a writer has begun, an insert must cause only a small page to be written back, also if the first
// writer changed nothing, or died before its first commit.
func TestUnsealedFileIsInSmallPages(t *testing.T) {
	const inserts = 500
	insert := func(f *Filter) error {
		for key := range numbers(3_000_000, 3_000_000+inserts) {
			if err := f.Insert(key); err != nil {
				return err
			}
		}
		return nil
	}
	for name, before := range map[string]func(f *Filter) error{
		"first": nil,
		"after nothing": func(f *Filter) (err error) {
			for key := range numbers(0, 1) {
				_, err = f.InsertUnique(key) // the filter has this key
			}
			return errors.Join(err, f.Close())
		},
		"after a death": func(f *Filter) error {
			o := f.open.Load()
			defer o.release()
			return errors.Join(insert(f), o.work.Retire())
		},
	} {
		built, path := mustBuild(t, &Options{Capacity: 40_000_000}, numbers(0, 2_000_000))
		built.Close()
		waitUnmapped(t, path)
		if kind := fileSystem(path); kind == "tmpfs" || dirtiedBytes() == 0 {
			t.Skipf("NOT TESTED: bytes written back: the file system is %q", kind)
		}
		open := func() *Filter {
			f, err := Open(path, &OpenOptions{CommitInterval: -1})
			must(t, err)
			return f
		}
		if before != nil {
			must(t, before(open()))
		}
		began := dirtiedBytes()
		f := open()
		defer f.Close()
		must(t, errors.Join(insert(f), f.Checkpoint(context.Background())))
		if n, most := dirtiedBytes()-began, int64(6*inserts*4096); n > most {
			t.Errorf("%s: %d inserts caused %d bytes to be written back, more than %d", name, inserts, n, most)
		}
	}
}

// TestHeadIsInLargePages: after the superblocks are read, the beginning of the file, which may be half
// of a shard, can still be in a large page.
func TestHeadIsInLargePages(t *testing.T) {
	built, path := mustBuild(t, &Options{Capacity: 2_500_000}, numbers(0, 1000))
	size := built.Stats().FileBytes
	built.Close()
	waitUnmapped(t, path)
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	large := func(m *osfile.Mapping) string {
		return inSmaps(t, strings.TrimPrefix(fmt.Sprintf("%p-", m.Data), "0x"), "FilePmdMapped:")
	}
	drop := func() { unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) }
	possible := func() string { // without any read before
		drop()
		m, err := osfile.Map(file, size, false)
		must(t, err)
		m.AdviseLarge()
		must(t, m.Populate(false, nil))
		defer m.Unmap()
		return large(m)
	}
	want, got := possible(), ""
	if !strings.Contains(want, " 2048 kB") {
		t.Skip("NOT TESTED: large pages: this file system has none")
	}
	for range 20 { // the system may have no large page free, or still be reading
		drop()
		f := mustOpenReadOnly(t, path, &OpenOptions{Residency: ResidencyPopulate})
		got = large(f.open.Load().mapping)
		f.Close()
		if waitUnmapped(t, path); got == want {
			return
		}
	}
	if now := possible(); now != want {
		t.Skipf("NOT TESTED: large pages: the system has none left: %s", now)
	}
	t.Errorf("%s are in large pages, not %s", got, want)
}

// TestWarm: Warm reads the whole file and reports its progress. It ends if its context is cancelled or
// the filter is closed.
func TestWarm(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		path := coldFile(t, 150_000_000, sealed)
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("cancelled by the test")
		var steps, last int64
		stop := true
		f, err := OpenReadOnly(path, &OpenOptions{Progress: func(done, total int64) {
			if steps++; done <= last || done > total {
				t.Errorf("%d of %d bytes after %d", done, total, last)
			}
			if last = done; stop {
				cancel(why)
			}
		}})
		must(t, err)
		if err := f.Warm(ctx); err != why || steps != 1 {
			t.Errorf("cancelled after %d steps: %v", steps, err)
		}
		mapping := f.open.Load().mapping
		if n, err := mapping.Resident(); err != nil || n > last+8<<20 {
			t.Errorf("%d bytes are in memory after %d: %v", n, last, err)
		}
		stop = false
		mustBeWhole(t, func() *osfile.Mapping {
			last = 0
			if err := f.Warm(context.Background()); err != nil || last != int64(len(mapping.Data)) {
				t.Errorf("%d bytes of %d: %v", last, len(mapping.Data), err)
			}
			return mapping
		})
		f.Close()
		if err := f.Warm(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// mustBeWhole checks that a whole file is in memory after read. The system may drop a page at any time,
// so mustBeWhole tries several times, and fails only if some page is missing each time.
func mustBeWhole(t *testing.T, read func() *osfile.Mapping) {
	t.Helper()
	var n, all int64
	for range 10 {
		mapping := read()
		resident, err := mapping.Resident()
		must(t, err)
		if n, all = resident, int64(len(mapping.Data)); n == all {
			return
		}
	}
	t.Errorf("%d of %d bytes are in memory", n, all)
}

// TestWarmBeforeACommit covers R4: the first commit to a sealed file drops no page that Warm has read.
func TestWarmBeforeACommit(t *testing.T) {
	mustBeWhole(t, func() *osfile.Mapping {
		built, path := mustBuild(t, &Options{Capacity: 10_000_000}, numbers(0, 1000))
		built.Close()
		if fileSystem(path) == "tmpfs" {
			t.Skip("NOT TESTED: the size of pages: on tmpfs, they stay large")
		}
		f := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
		must(t, errors.Join(f.Insert([]byte("a")), f.Warm(t.Context()), f.Sync()))
		return f.open.Load().mapping
	})
}

// TestWarmGoesOn: if another file replaces the file that Warm is reading, Warm goes on with the new
// file.
func TestWarmGoesOn(t *testing.T) {
	keys := func() (iter.Seq2[[]byte, error], error) { return numbers(0, 1000), nil }
	for _, how := range []string{"follow", "rebuild"} {
		built, path := mustBuild(t, &Options{Capacity: 1000}, numbers(0, 1000))
		built.Close()
		var replace func() error
		var totals []int64
		opts := &OpenOptions{FollowInterval: -1, Progress: func(_, total int64) {
			if totals = append(totals, total); len(totals) == 1 {
				must(t, replace())
			}
		}}
		var f interface {
			Warm(context.Context) error
			Close() error
		}
		if how == "follow" {
			follower := mustFollow(t, path, opts)
			old := follower.Filter()
			replace = func() error {
				next, err := Build(context.Background(), path, &Options{Capacity: 100_000}, numbers(0, 1000))
				if err != nil {
					return err
				}
				next.Close()
				_, err = follower.Refresh()
				return err
			}
			defer func() {
				steps := len(totals)
				if err := old.Warm(context.Background()); !errors.Is(err, ErrClosed) || len(totals) != steps {
					t.Errorf("the old filter, %d steps: %v", len(totals)-steps, err)
				}
			}()
			f = follower
		} else {
			live := mustOpen(t, path, opts)
			replace = func() error {
				return live.Rebuild(context.Background(), &RebuildOptions{Capacity: 100_000, Keys: keys})
			}
			f = live
		}
		defer f.Close()
		if err := f.Warm(context.Background()); err != nil || len(totals) != 2 || totals[1] < 2*totals[0] {
			t.Errorf("%s: files of %d bytes: %v", how, totals, err)
		}
		cancelled, cancel := context.WithCancelCause(context.Background())
		why := errors.New("cancelled by the test")
		cancel(why)
		if err := f.Warm(cancelled); err != why || len(totals) != 2 {
			t.Errorf("%s: cancelled before the call, %d steps: %v", how, len(totals)-2, err)
		}
	}
}

// TestWarmGivesBack: if the filter is closed while Warm reads, no page stays in the page table.
func TestWarmGivesBack(t *testing.T) {
	built, path := mustBuild(t, &Options{Capacity: 100_000}, numbers(0, 1000))
	built.Close()
	var f *Filter
	f, err := OpenReadOnly(path, &OpenOptions{Progress: func(_, _ int64) {
		f.open.Load().released.Store(true) // Close does this first
	}})
	must(t, err)
	defer f.Close()
	mapping := beginOf(f)
	f.Contains([]byte("a"))
	if rss := inSmaps(t, mapping, "Rss:"); rss == "" || strings.Contains(rss, " 0 kB") {
		t.Fatalf("Rss%q before Warm", rss)
	}
	if err := f.Warm(context.Background()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if rss := inSmaps(t, mapping, "Rss:"); !strings.Contains(rss, " 0 kB") {
		t.Errorf("Rss%q after Warm", rss)
	}
}

// TestReaderHeedsWriter covers R4: a reader that opened a sealed file no longer reads large pages once
// it finds that the file is not sealed any more.
func TestReaderHeedsWriter(t *testing.T) {
	for _, how := range []string{"warm", "follow"} {
		built, path := mustBuild(t, &Options{Capacity: 100_000}, numbers(0, 1000))
		built.Close()
		if fileSystem(path) == "tmpfs" {
			t.Skip("NOT TESTED: the size of pages: on tmpfs, they stay large")
		}
		follower := mustFollow(t, path, &OpenOptions{FollowInterval: -1})
		heed := func() error { return follower.Warm(context.Background()) }
		if how == "follow" {
			heed = func() error { _, err := follower.Refresh(); return err }
		}
		mapping := beginOf(follower.Filter())
		for _, small := range []bool{false, true} {
			must(t, heed())
			flags := vmFlags(t, mapping)
			if strings.Contains(flags, " rr ") != small || strings.Contains(flags, " hg ") == small {
				t.Errorf("%s: in small pages: %t; flags %q", how, small, flags)
			}
			f := mustOpen(t, path, nil)
			f.Insert([]byte("a"))
			f.Close()
		}
	}
}

// TestWillNeedReadsAll: with ResidencyWillNeed, the whole file comes into memory in the background.
func TestWillNeedReadsAll(t *testing.T) {
	mustBeWhole(t, func() *osfile.Mapping {
		f := mustOpenReadOnly(t, coldFile(t, 90_000_000, true), &OpenOptions{Residency: ResidencyWillNeed})
		mapping, most := f.open.Load().mapping, int64(0)
		eventually(t, "the whole file is in memory", func() bool {
			n, err := mapping.Resident()
			must(t, err)
			dropped := n < most
			most = max(n, most)
			return dropped || n == int64(len(mapping.Data))
		})
		return mapping
	})
}

// coldFile makes a file, and drops it from the page cache, which is not possible on tmpfs.
func coldFile(t *testing.T, capacity uint64, sealed bool) (path string) {
	t.Helper()
	f, path := mustBuild(t, &Options{Capacity: capacity}, numbers(0, 1000))
	f.Close() // mapped pages stay in memory
	if !sealed {
		f = mustOpen(t, path, nil)
		must(t, errors.Join(f.Insert([]byte("a")), f.Close()))
	}
	waitUnmapped(t, path)
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	info, err := file.Stat()
	must(t, errors.Join(err, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)))
	m, err := osfile.Map(file, info.Size(), false)
	must(t, err)
	defer m.Unmap()
	n, err := m.Resident()
	if must(t, err); n == info.Size() {
		t.Skip("NOT TESTED: reading a cold file: this file system keeps files in memory")
	}
	return path
}
