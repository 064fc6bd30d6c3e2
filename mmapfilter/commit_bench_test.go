package mmapfilter

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// BenchmarkCommitBytes reports, for commits of several sizes on a disk, the log bytes and
// fdatasyncs per insert, and the bytes written per commit. For a process the kernel counts the
// pages that become dirty (dirtied), which is what it will write of the log. For a device it
// counts sectors (device), including the file system's journal and what other processes write at
// the same time.
//
//	go test ./mmapfilter -run '^$' -bench CommitBytes
func BenchmarkCommitBytes(b *testing.B) {
	dir := directories(b)["disk"]
	if dir == "" {
		b.Skip("NOT MEASURED: no disk")
	}
	for _, n := range small([]int{1, 100, 10_000, 65_536}, []int{1, 100}) {
		once(b, fmt.Sprintf("inserts=%d", n), func(b *testing.B) {
			commits := small(min(500, 1_000_000/n), 10)
			c := measureCommits(b, dir, n, commits)
			per := func(bytes int64, of int) float64 { return float64(bytes) / float64(of) }
			b.ReportMetric(per(c.appended, n*commits), "log-B/insert")
			b.ReportMetric(per(int64(c.syncs), n*commits), "fdatasyncs/insert")
			b.ReportMetric(per(c.appended, commits), "log-B/commit")
			b.ReportMetric(per(c.rounded, commits), "pages-B/commit")
			b.ReportMetric(per(c.dirtied, commits), "dirtied-B/commit")
			b.ReportMetric(per(c.device, commits), "device-B/commit")
		})
	}
}

// BenchmarkCheckpoint checkpoints a filter of 1 GiB on a disk some inserts after the last
// checkpoint. A page is written if any insert touched it: with P pages and N inserts, P(1 -
// e^(-N/P)) pages are expected. dirtied is what this process made the kernel write, without the
// log; device is everything written to the disk during the checkpoint, including by others.
//
// stall is the longest time that a checkpoint kept operations waiting while one goroutine
// inserts without a pause, and longest-insert is the longest that this goroutine waited for one
// insert; stall-idle is stall without that goroutine.
//
//	go test ./mmapfilter -run '^$' -bench Checkpoint
func BenchmarkCheckpoint(b *testing.B) {
	dir := directories(b)["disk"]
	if dir == "" {
		b.Skip("NOT MEASURED: no disk")
	}
	lines := small(uint64(16<<20), 1<<14)
	t := newLoadedTable(b, compact7, lines)
	path := t.file(b, dir)
	t.memoryPlacer = nil // frees its memory
	for _, n := range small([]int{100_000, 1_000_000}, []int{1000}) {
		once(b, fmt.Sprintf("inserts=%d", n), func(b *testing.B) {
			f, _ := openTimed(b, path, 512<<20)
			defer f.Close()
			w, ctx, on := writerOf(f), context.Background(), fileSystem(dir)
			insert := func(n int) {
				for i := range n {
					if err := f.InsertHash(t.rng.Uint64()); err != nil {
						b.Fatal(err)
					}
					if i%commitEvery == commitEvery-1 {
						if err := f.Sync(); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			insert(1)
			if err := f.Checkpoint(ctx); err != nil {
				b.Fatal(err)
			}
			var took series
			var dirtied, written int64
			const rounds = 3
			for range rounds {
				dirtied -= dirtiedBytes()
				insert(n)
				_, used := w.Protocol().LogBytes()
				before := on.sectorBytes()
				took.timed(b, func() error { return f.Checkpoint(ctx) })
				written += on.sectorBytes() - before
				dirtied += dirtiedBytes() - used
			}
			idle := w.State().LongestStall
			w.ForgetStalls()

			insert(n)
			var over atomic.Bool
			var longest time.Duration
			meanwhile := 0
			done := make(chan error)
			go func() {
				for ; !over.Load(); meanwhile++ {
					begun := time.Now()
					if err := f.InsertHash(t.rng.Uint64()); err != nil {
						done <- err
						return
					}
					longest = max(longest, time.Since(begun))
				}
				done <- nil
			}()
			err := f.Checkpoint(ctx)
			over.Store(true)
			if other := <-done; err != nil || other != nil {
				b.Fatal(err, other)
			}
			pages := float64(lines * layout.LineBytes / layout.PageBytes)
			expected := pages * -math.Expm1(-float64(n)/pages) * layout.PageBytes
			b.ReportMetric(float64(dirtied)/rounds/float64(n), "B/insert")
			b.ReportMetric(float64(dirtied)/rounds/expected, "dirtied/expected")
			b.ReportMetric(float64(written)/rounds/expected, "device/expected")
			b.ReportMetric(took.median()/1e6, "ms/checkpoint")
			b.ReportMetric(float64(idle)/1e6, "ms/stall-idle")
			b.ReportMetric(float64(w.State().LongestStall)/1e6, "ms/stall")
			b.ReportMetric(float64(longest)/1e6, "ms/longest-insert")
			b.ReportMetric(float64(meanwhile), "inserts-meanwhile")
		})
	}
}

// BenchmarkRecovery recovers copies of a filter of 128 MiB, made when its writer had a log of a
// given size, and reports the time per MiB of the log that counts.
//
//	go test ./mmapfilter -run '^$' -bench Recovery
func BenchmarkRecovery(b *testing.B) {
	shrink()
	dirs := directories(b)
	t := newLoadedTable(b, compact7, manyLines)
	t.load(b, 0.5)
	for _, kind := range []string{"tmpfs", "disk"} {
		for _, size := range small([]int64{1, 16, 64}, []int64{1}) {
			if dirs[kind] == "" {
				continue
			}
			once(b, fmt.Sprintf("on=%s/MiB=%d", kind, size), func(b *testing.B) {
				path := t.file(b, dirs[kind])
				f, _ := openTimed(b, path, size<<20*3+16<<20) // a half has room for what is recovered, and no checkpoint is due
				defer f.Close()
				for used, synced := int64(0), int64(0); used < size<<20; _, used = writerOf(f).Protocol().LogUse() {
					for range 4096 {
						if err := f.InsertHash(t.rng.Uint64()); err != nil {
							b.Fatal(err)
						}
					}
					if used-synced >= 2<<20 {
						synced = used
						if err := f.Sync(); err != nil {
							b.Fatal(err)
						}
					}
				}
				_, used := writerOf(f).Protocol().LogUse()
				var took series
				var r Recovery
				for i := range 3 {
					copied := fmt.Sprintf("%s.%d", path, i)
					crashCopy(b, f, path, copied, nil, nil)
					took.timed(b, func() (err error) {
						r, err = Recover(copied)
						return err
					})
					if !r.Recovered || r.Records == 0 || r.Length != f.Len() {
						b.Fatalf("%+v", r)
					}
					os.Remove(copied)
				}
				mib := float64(used) / (1 << 20)
				b.ReportMetric(took.median()/1e6, "ms")
				b.ReportMetric(took.median()/1e6/mib, "ms/MiB")
				b.ReportMetric(took.median()/float64(r.Records), "ns/record")
			})
		}
	}
}

// BenchmarkOpenLive opens for writing, and closes, closed files of two sizes in turn. It creates
// nothing.
//
//	go test ./mmapfilter -run '^$' -bench OpenLive
func BenchmarkOpenLive(b *testing.B) {
	sizes := []uint64{4 << 20, small(uint64(4<<30), 8<<20)}
	dir := b.TempDir()
	var paths []string
	for _, size := range sizes {
		path := filepath.Join(dir, fmt.Sprint(size))
		createLines(b, path, compact7, size/layout.LineBytes, Options{}).Close()
		paths = append(paths, path)
	}
	took := make([]series, len(sizes))
	for range small(2000, 10) {
		for i, path := range paths {
			took[i].timed(b, func() error {
				f, err := Open(path, nil)
				if err != nil {
					return err
				}
				return f.Close()
			})
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != len(sizes) {
		b.Errorf("there are %d files, %v", len(files), err)
	}
	for i, size := range sizes {
		once(b, fmt.Sprintf("MiB=%d", size>>20), func(b *testing.B) { b.ReportMetric(took[i].median()/1e3, "µs/open") })
	}
}
