package mmapfilter

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// The things compared here take turns in rounds, and the median of the rounds is reported, since
// the machine may have other work. Each benchmark has its own rounds, whatever -benchtime says.

// A series is the durations of the rounds of one thing.
type series []time.Duration

func (s series) median() float64 {
	d := slices.Clone(s)
	slices.Sort(d)
	return float64(d[len(d)/2])
}

// timed adds the duration of f to the series.
func (s *series) timed(b *testing.B, f func() error) {
	b.Helper()
	begun := time.Now()
	err := f()
	*s = append(*s, time.Since(begun))
	if err != nil {
		b.Fatal(err)
	}
}

// once runs a benchmark that counts its own rounds.
func once(b *testing.B, name string, f func(b *testing.B)) {
	b.Run(name, func(b *testing.B) {
		for first := true; b.Loop(); first = false {
			if first {
				f(b)
			}
		}
		b.ReportMetric(0, "ns/op")
	})
}

// directories returns a directory in memory and one on a disk; the former is "" if the system
// has none.
func directories(b *testing.B) map[string]string {
	dirs := map[string]string{"disk": b.TempDir(), "tmpfs": memoryDir(b)}
	for kind, dir := range dirs {
		if is := fileSystem(dir).kind; (kind == "tmpfs") != (is == "tmpfs") {
			b.Logf("NOT MEASURED: %s: %s is a file system of type %q", kind, dir, is)
			dirs[kind] = ""
		}
	}
	return dirs
}

// A mount is the file system of a path.
type mount struct{ kind, device string }

// fileSystem finds the file system in the kernel's list: the one whose mount point is the
// longest prefix. It returns a zero mount if the system has no such list.
func fileSystem(path string) (m mount) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return m
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
			kind, _, _ := strings.Cut(source, " ")
			m = mount{kind, fields[2]}
		}
	}
	return m
}

// sectorBytes returns how much the kernel has written to the device of a file system, for all
// processes; 0 if the kernel does not say.
func (m mount) sectorBytes() int64 {
	data, err := os.ReadFile("/sys/dev/block/" + m.device + "/stat")
	if fields := strings.Fields(string(data)); err == nil && len(fields) > 6 {
		n, _ := strconv.ParseInt(fields[6], 10, 64)
		return 512 * n
	}
	return 0
}

// dirtiedBytes returns how much this process has made the kernel write, sooner or later: a page,
// or the whole of a larger folio, counts when it becomes dirty. It returns 0 if the kernel does
// not say.
func dirtiedBytes() (n int64) {
	data, _ := os.ReadFile("/proc/self/io")
	if _, after, ok := strings.Cut(string(data), "\nwrite_bytes: "); ok {
		line, _, _ := strings.Cut(after, "\n")
		n, _ = strconv.ParseInt(line, 10, 64)
	}
	return n
}

// A loadedTable is a table in the heap, from which files are made.
type loadedTable struct {
	*memoryPlacer
	items uint64
	rng   *rand.Rand
}

func newLoadedTable(b *testing.B, p shape, lines uint64) *loadedTable {
	return &loadedTable{testPlacer(b, p.kind, p.Params, lines), 0, rand.New(rand.NewPCG(lines, 1))}
}

// load inserts until the given share of the slots is in use.
func (t *loadedTable) load(b *testing.B, share float64) {
	for slots := t.table.Lines() * uint64(layout.SlotsPerLine(t.table.Kind(), t.table.Params())); float64(t.items) < share*float64(slots); t.items++ {
		if !t.Insert(t.table.Split(t.rng.Uint64())) {
			b.Fatal("full")
		}
	}
}

// file makes a closed file with the same contents. It stores them through a mapping, a page at a
// time, so that the page cache has small pages, as for a file that inserts have filled.
func (t *loadedTable) file(b *testing.B, dir string) (path string) {
	path = filepath.Join(dir, fmt.Sprintf("filter.%d", time.Now().UnixNano()))
	createLines(b, path, shape{t.table.Kind(), t.table.Params()}, t.table.Lines(), Options{}).Close()
	files, err := osfile.OpenFiles(path)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	filter := files.Filter()
	for i, w := range t.view.Stash {
		filter.Store(layout.WordStash+uint64(i), w)
	}
	for i, w := range t.view.Region {
		filter.Store(layout.WordRegion+uint64(i), w)
	}
	head := slices.Clone(filter.Words()[:layout.OffRuntime/8])
	_, sb, _, err := layout.Newest(recovery.Bytes(slices.Clone(head)))
	if err != nil {
		b.Fatal(err)
	}
	sb.SetLength(t.items)
	sb.Sign()
	build.PutCopies(recovery.Bytes(head), sb)
	for i, w := range head {
		filter.Store(uint64(i), w)
	}
	if err := filter.Sync(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.Remove(path) })
	return path
}

// A timedVolume measures the syncs of its logs.
type timedVolume struct {
	*osfile.Files
	filter recovery.File // replaces the file, if not nil
	syncs  int
	spent  time.Duration
}

type timedFile struct {
	recovery.File
	recovery.RunStorer
	volume *timedVolume
}

func (f timedFile) Sync() error {
	begun := time.Now()
	err := f.File.Sync()
	f.volume.spent += time.Since(begun)
	f.volume.syncs++
	return err
}

func (v *timedVolume) CreateLog(bytes int64) (recovery.File, error) {
	log, err := v.Files.CreateLog(bytes)
	if err != nil {
		return nil, err
	}
	return timedFile{log, log.(recovery.RunStorer), v}, nil
}

func (v *timedVolume) Filter() recovery.File {
	if v.filter != nil {
		return v.filter
	}
	return v.Files.Filter()
}

// openTimed is openLive with a timedVolume, and commits only on request. It stores to every page
// of the file before it returns: BenchmarkCheckpoint measures the cost of a first store after a
// checkpoint.
func openTimed(b *testing.B, path string, logBytes int64) (*Filter, *timedVolume) {
	files, err := osfile.OpenFiles(path)
	if err != nil {
		b.Fatal(err)
	}
	v := &timedVolume{Files: files}
	w := mustWriter(b, v, logBytes)
	sb := *w.Protocol().Superblock()
	opts := new(OpenOptions)
	o := newOpenFile("", &osfile.Head{Superblock: &sb, Geometry: w.Protocol().Geometry(), Size: w.Protocol().Geometry().SealedBytes}, opts)
	o.work = writer.NewWork(files, w, -1)
	if err := o.adopt(files.Mapping(), nil, opts); err != nil {
		b.Fatal(err)
	}
	o.work.KeepMapping()
	w.Behind = o.work.Behind
	filter := files.Filter()
	for i := uint64(layout.WordRegion); i < uint64(len(filter.Words())); i += wal.PageWords {
		filter.Store(i, filter.Words()[i])
	}
	f := newFilter(o)
	b.Cleanup(func() { f.Close() })
	return f, v
}

// A round is shorter than a scheduler's time slice, so that most rounds have the processor to
// themselves.
const roundInserts = 1024

// With -short these are small: that shows only that a benchmark still runs.
var (
	commitEvery = 65_536
	manyLines   = uint64(2 << 20) // 128 MiB, beyond every cache
)

// small returns its second argument in a short run, and otherwise its first.
func small[T any](usual, short T) T {
	if testing.Short() {
		return short
	}
	return usual
}

func shrink() { commitEvery, manyLines = small(commitEvery, 1024), small(manyLines, 1<<14) }

// BenchmarkInsertLogged inserts into a filter of 128 MiB, of the default layout for a rate of 1 %,
// with a Sync every 65,536, and for comparison into a table in the heap with the same placer,
// without log, commit or pending table. Both start with the same items; measured are the last
// percent before a load and the first one after it, up to the load that the filter is made for,
// 95 %. %direct is the rate of the filter as a share of that of the table.
//
// A loop over the table waits for the memory of several inserts at once. A loop in which every
// insert takes and releases a lock, as inserts from any goroutine must, does not. So there is a
// third kind, the table with a lock; %locked is the share relative to that.
//
// The log is so large that there is hardly a checkpoint. fdatasync is the part of the time of a
// Sync spent in that call, per insert.
//
//	go test ./mmapfilter -run '^$' -bench InsertLogged
func BenchmarkInsertLogged(b *testing.B) {
	shrink()
	dirs := directories(b)
	t := newLoadedTable(b, compact7, manyLines)
	slots := float64(manyLines) * float64(layout.SlotsPerLine(t.table.Kind(), t.table.Params()))
	for _, kind := range []string{"tmpfs", "disk"} {
		if dirs[kind] == "" {
			continue
		}
		t := t
		if kind == "disk" {
			t = newLoadedTable(b, compact7, manyLines)
		}
		for _, percent := range small([]float64{50, 80, 90, 94}, []float64{80}) {
			t.load(b, (percent-1)/100)
			path := t.file(b, dirs[kind])
			once(b, fmt.Sprintf("on=%s/load=%v", kind, percent), func(b *testing.B) {
				f, v := openTimed(b, path, 256<<20)
				defer f.Close()
				same := newLoadedTable(b, compact7, manyLines)
				copy(same.view.Region, t.view.Region)
				// The tables in the heap would keep the collector from running: pending words would
				// get fresh memory, with a page fault for every 4 KiB. A process that has only the
				// filter reuses its memory again and again.
				defer debug.SetGCPercent(debug.SetGCPercent(5))
				runtime.GC()
				var mu sync.Mutex
				hashes := make([]uint64, roundInserts)
				var direct, locked, logged, commit series
				spent, due := time.Duration(0), 0
				for float64(t.items) < (percent+1)/100*slots {
					for i := range hashes {
						hashes[i] = t.rng.Uint64()
					}
					t.items += roundInserts
					direct.timed(b, func() error {
						for _, h := range hashes {
							if !t.Insert(t.table.Split(h)) {
								return ErrFull
							}
						}
						return nil
					})
					locked.timed(b, func() error {
						for _, h := range hashes {
							mu.Lock()
							same.Insert(same.table.Split(h))
							mu.Unlock()
						}
						return nil
					})
					logged.timed(b, func() error {
						for _, h := range hashes {
							if err := f.InsertHash(h); err != nil {
								return err
							}
						}
						return nil
					})
					if due += roundInserts; due == commitEvery {
						due = 0
						before := v.spent
						commit.timed(b, f.Sync)
						spent += v.spent - before
					}
				}
				total := logged.median()/roundInserts + commit.median()/float64(commitEvery)
				_, checkpoints := writerOf(f).Protocol().Counts()
				b.ReportMetric(direct.median()/roundInserts, "ns/direct")
				b.ReportMetric(locked.median()/roundInserts, "ns/locked")
				b.ReportMetric(logged.median()/roundInserts, "ns/insert")
				b.ReportMetric(commit.median()/float64(commitEvery), "ns/sync")
				b.ReportMetric(float64(spent)/float64(len(commit)*commitEvery), "ns/fdatasync")
				b.ReportMetric(100*direct.median()/roundInserts/total, "%direct")
				b.ReportMetric(100*locked.median()/roundInserts/total, "%locked")
				b.ReportMetric(float64(checkpoints), "checkpoints")
			})
		}
	}
}

// BenchmarkInsertBatch inserts keys of 16 bytes into two filters of 128 MiB, one by one into one
// and 1,024 per call into the other, in turns. It reports the mean of their medians, as one file
// may lie in slower memory. x/insert says how much faster a batch is; x/sync includes the Sync
// every 65,536 keys in both.
//
//	go test ./mmapfilter -run '^$' -bench InsertBatch
func BenchmarkInsertBatch(b *testing.B) {
	shrink()
	dir := directories(b)["tmpfs"]
	if dir == "" {
		b.Skip("NOT MEASURED: no file system in memory")
	}
	t := newLoadedTable(b, compact7, manyLines)
	for _, percent := range []float64{40, 80, 95} {
		t.load(b, (percent-1)/100)
		once(b, fmt.Sprintf("load=%v", percent), func(b *testing.B) {
			var files [2]*Filter
			for i := range files {
				files[i], _ = openTimed(b, t.file(b, dir), 0)
				defer files[i].Close()
			}
			keys := slices.Collect(slices.Chunk(make([]byte, 16*roundInserts), 16))
			var one, many, syncs [2]series
			for round := range 15 * commitEvery / roundInserts {
				for _, key := range keys {
					binary.LittleEndian.PutUint64(key, t.rng.Uint64())
					binary.LittleEndian.PutUint64(key[8:], t.rng.Uint64())
				}
				i, j := round%2, 1-round%2
				one[i].timed(b, func() error {
					for _, key := range keys {
						if err := files[i].Insert(key); err != nil {
							return err
						}
					}
					return nil
				})
				many[j].timed(b, func() error {
					_, err := files[j].InsertBatch(keys)
					return err
				})
				if (round+1)*roundInserts%commitEvery == 0 {
					syncs[0].timed(b, files[0].Sync)
					syncs[1].timed(b, files[1].Sync)
				}
			}
			each := func(s [2]series, inserts int) float64 { return (s[0].median() + s[1].median()) / 2 / float64(inserts) }
			n, m, sync := each(one, roundInserts), each(many, roundInserts), each(syncs, commitEvery)
			b.ReportMetric(n, "ns/insert")
			b.ReportMetric(m, "ns/batched")
			b.ReportMetric(n/m, "x/insert")
			b.ReportMetric((n+sync)/(m+sync), "x/sync")
		})
	}
}

// A commitCost is the cost of commits.
type commitCost struct {
	appended int64 // bytes of log
	rounded  int64 // the same, with each commit rounded up to pages of 4 KiB
	dirtied  int64 // bytes that the process has made the kernel write
	device   int64 // bytes that reached the disk, including those of others
	syncs    int
}

// measureCommits makes commits of n inserts each. The lines are in the heap, so that only the
// log is written.
func measureCommits(tb testing.TB, dir string, n, commits int) (c commitCost) {
	path := filepath.Join(dir, fmt.Sprintf("filter.%d.%d", n, commits))
	createLines(tb, path, compact7, 100<<10, Options{}).Close()
	files, err := osfile.OpenFiles(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer files.Close()
	v := &timedVolume{Files: files, filter: &tabletest.File{Mem: slices.Clone(files.Filter().Words())}}
	const insertBytes = 128 // more than one appends
	w := mustWriter(tb, v, max(64<<20, int64(n)*int64(commits)*insertBytes/wal.PageBytes*wal.PageBytes))
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	insert := func() {
		if err := w.Insert(rng.Uint64()); err != nil {
			tb.Fatal(err)
		}
	}
	insert() // creates the log
	if err := w.Sync(); err != nil {
		tb.Fatal(err)
	}
	on := fileSystem(dir)
	dirtied, device, syncs := dirtiedBytes(), on.sectorBytes(), v.syncs
	for range commits {
		for range n {
			insert()
		}
		const batchHead = 128
		bytes := batchHead + w.Protocol().SegmentBytes()
		c.appended += bytes
		c.rounded += (bytes + wal.PageBytes - 1) / wal.PageBytes * wal.PageBytes
		if err := w.Sync(); err != nil {
			tb.Fatal(err)
		}
	}
	c.dirtied, c.device, c.syncs = dirtiedBytes()-dirtied, on.sectorBytes()-device, v.syncs-syncs
	if _, checkpoints := w.Protocol().Counts(); checkpoints != 0 {
		tb.Fatal("the log is too small")
	}
	if err := w.Clean(); err != nil {
		tb.Fatal(err)
	}
	os.Remove(path)
	return c
}

// TestCommitWritesLittle covers W2: a commit writes only the pages that it appended to. If a
// long write leaves the log in large folios in the page cache, every commit would write 1 MiB.
func TestCommitWritesLittle(t *testing.T) {
	dir := t.TempDir()
	if on := fileSystem(dir); runtime.GOOS != "linux" || on.kind == "tmpfs" || on.kind == "" {
		t.Skipf("NOT TESTED: bytes written by a commit: the file system is %q", on.kind)
	}
	for n, commits := range map[int]int{1: 200, 100: 100, 10_000: 10} {
		c := measureCommits(t, dir, n, commits)
		if c.dirtied == 0 {
			t.Skip("NOT TESTED: the kernel does not say what a process writes")
		}
		if c.dirtied > 2*c.rounded || c.syncs != commits {
			t.Errorf("%d commits of %d inserts appended %d bytes, %d in pages, and wrote %d with %d syncs", commits, n, c.appended, c.rounded, c.dirtied, c.syncs)
		}
	}
}
