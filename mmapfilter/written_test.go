package mmapfilter

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// fileSystem returns the kind of the file system of a path: of the mount point in the kernel's list that
// is the longest prefix of the path. It returns "" if the system has no such list.
func fileSystem(path string) (kind string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	longest := -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mounted, source, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mounted)
		if !ok || len(fields) < 5 {
			continue
		}
		point := strings.TrimSuffix(fields[4], "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= longest {
			longest = len(point)
			kind, _, _ = strings.Cut(source, " ")
		}
	}
	return kind
}

// dirtiedBytes returns how many bytes the kernel has written, or will write, for this process. A page,
// or the whole of a larger folio, counts when it becomes dirty. It returns 0 if the kernel does not
// tell.
func dirtiedBytes() (n int64) {
	data, _ := os.ReadFile("/proc/self/io")
	if _, after, ok := strings.Cut(string(data), "\nwrite_bytes: "); ok {
		line, _, _ := strings.Cut(after, "\n")
		n, _ = strconv.ParseInt(line, 10, 64)
	}
	return n
}

// linesInHeap is a volume with the log of a filter on the disk, and its lines in the heap.
type linesInHeap struct {
	*osfile.Files
	filter tabletest.File
}

func (v *linesInHeap) Filter() recovery.File { return &v.filter }

// TestCommitWritesLittle covers W2: a commit writes only the pages that it appended to. If a long write
// left the log in large folios in the page cache, every commit would write 1 MiB.
func TestCommitWritesLittle(t *testing.T) {
	dir := t.TempDir()
	if kind := fileSystem(dir); runtime.GOOS != "linux" || kind == "tmpfs" || kind == "" {
		t.Skipf("NOT TESTED: bytes written by a commit: the file system is %q", kind)
	}
	for n, commits := range map[int]int{1: 200, 100: 100, 10_000: 10} {
		path := filepath.Join(dir, strconv.Itoa(n))
		createLines(t, path, compact7, 100<<10, Options{}).Close()
		files, err := osfile.OpenFiles(path)
		must(t, err)
		defer files.Close()
		w := mustWriter(t, &linesInHeap{files, tabletest.File{Mem: slices.Clone(files.Filter().Words())}}, 64<<20)
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		commit := func(n int) (pages int64) {
			for range n {
				must(t, w.Insert(rng.Uint64()))
			}
			const batchHead = 128
			pages = (batchHead + w.Protocol().SegmentBytes() + wal.PageBytes - 1) / wal.PageBytes
			must(t, w.Sync())
			return pages
		}
		commit(1) // creates the log
		dirtied, pages := dirtiedBytes(), int64(0)
		for range commits {
			pages += commit(n)
		}
		if dirtied = dirtiedBytes() - dirtied; dirtied == 0 {
			t.Skip("NOT TESTED: the kernel does not say what a process writes")
		}
		if dirtied > 2*pages*wal.PageBytes {
			t.Errorf("%d commits of %d inserts filled %d pages, and wrote %d bytes", commits, n, pages, dirtied)
		}
		if _, checkpoints := w.Protocol().Counts(); checkpoints != 0 {
			t.Error("the log is too small")
		}
		must(t, w.Clean())
	}
}
