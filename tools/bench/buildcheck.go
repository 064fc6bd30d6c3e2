package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// checkedBuild builds one file, verifies it, opens it, looks up every key, and then absent ones.
func (b *session) checkedBuild(n uint64) error {
	t := figures.NewTable(figures.Grouped(int64(n))+" keys of 16 bytes", "")
	second := func(d time.Duration) string { return figures.Digits(d.Seconds()) + " s" }
	b.note("building")
	path := b.path("checked.mmf")
	heap := watch(heapInUse)
	begun := time.Now()
	var stages stageTimes
	f, err := mmapfilter.Build(b.ctx, path, &mmapfilter.Options{Capacity: n, Distinct: true, Progress: stages.progress}, b.keySequence(n))
	took, most := time.Since(begun), heap()
	if err != nil {
		return err
	}
	if most > max(512<<20, 64<<20) {
		return fmt.Errorf("the heap had %s, more than twice the memory budget, which README says", figures.Mebibytes(most))
	}
	st, peak := f.Stats(), machine.PeakMemory()
	if err := f.Close(); err != nil {
		return err
	}
	t.Row("Build", fmt.Sprintf("%s, %s ns a key", second(took), figures.Digits(float64(took)/float64(n))))
	t.Row("its stages, in ns a key", stages.perKey(begun.Add(took), n))
	t.Row("heap in use, at most", figures.Mebibytes(most))
	t.Row("peak memory of the process, the mapped file in it", figures.Mebibytes(peak))
	t.Row("file", fmt.Sprintf("%s, %.2f bits a key, %.2f %% load", figures.Mebibytes(st.FileBytes), st.BitsPerKey, 100*float64(st.Len)/float64(st.Slots)))
	b.note("verifying")
	begun = time.Now()
	report, err := mmapfilter.Verify(b.ctx, path)
	if err != nil {
		return err
	}
	t.Row("Verify", fmt.Sprintf("%s: %s items", second(time.Since(begun)), figures.Grouped(int64(report.Items))))
	if err := b.askBuilt(t, path, n); err != nil {
		return err
	}
	b.print(t)
	return nil
}

// askBuilt opens a file, and looks up all its keys and absent ones.
func (b *session) askBuilt(t *figures.Table, path string, n uint64) error {
	begun := time.Now()
	f, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	opened := time.Since(begun)
	var key peer.Key
	key.Set(b.seed, n/2)
	found := f.Contains(key[:])
	t.Row("open; and the first answer", fmt.Sprintf("%s; %s", figures.Brief(opened), figures.Brief(time.Since(begun))))
	if !found {
		return fmt.Errorf("key %d is not found", n/2)
	}
	b.note("looking for every key, and for absent ones")
	present, took, err := b.count(f, 0, n)
	if err != nil {
		return err
	}
	if present != n {
		return fmt.Errorf("%d of %d keys are not found", n-present, n)
	}
	perSecond := func(n uint64, took time.Duration) string {
		return fmt.Sprintf("%s a second, making the keys is in it", figures.Grouped(int64(float64(n)/took.Seconds())))
	}
	t.Row("ContainsBatch of every key", fmt.Sprintf("0 missing, %s", perSecond(n, took)))
	asks := min(n, 100_000_000)
	absent, took, err := b.count(f, peer.Absent, asks)
	if err != nil {
		return err
	}
	t.Row("ContainsBatch of "+figures.Grouped(int64(asks))+" absent keys", perSecond(asks, took))
	t.Row("false positives", fmt.Sprintf("%s; %s was asked for, %s predicted", percent(float64(absent)/float64(asks)), percent(defaultRate), percent(f.Stats().EstimatedRate)))
	return nil
}

// stageTimes records when each stage of a Build began.
type stageTimes struct {
	names []string
	begun []time.Time
}

// progress is the Progress function of Options.
func (s *stageTimes) progress(stage string, _, _ uint64) {
	if n := len(s.names); n == 0 || s.names[n-1] != stage {
		s.names, s.begun = append(s.names, stage), append(s.begun, time.Now())
	}
}

func (s *stageTimes) perKey(end time.Time, n uint64) string {
	var all []string
	for i, name := range s.names {
		next := end
		if i+1 < len(s.begun) {
			next = s.begun[i+1]
		}
		all = append(all, fmt.Sprintf("%s %.1f", name, float64(next.Sub(s.begun[i]))/float64(n)))
	}
	return strings.Join(all, ", ")
}

// count looks up n keys, numbered from first on, on all processors.
func (b *session) count(f batches, first, n uint64) (found uint64, took time.Duration, err error) {
	workers := uint64(runtime.GOMAXPROCS(0))
	counts := make([]uint64, workers)
	var group sync.WaitGroup
	begun := time.Now()
	for w := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			counts[w] = countKeys(b.ctx, f, b.seed, first+n*w/workers, first+n*(w+1)/workers)
		}()
	}
	group.Wait()
	took = time.Since(begun)
	for _, c := range counts {
		found += c
	}
	return found, took, b.ctx.Err()
}

// batches is a filter or a set.
type batches interface {
	ContainsBatch(keys [][]byte, found []bool)
}

func countKeys(ctx context.Context, f batches, seed, from, to uint64) (found uint64) {
	const batch = 1024
	keys, answers := make([]peer.Key, batch), make([]bool, batch)
	slices := make([][]byte, batch)
	for i := range keys {
		slices[i] = keys[i][:]
	}
	for ; from < to && ctx.Err() == nil; from += batch {
		n := min(to-from, batch)
		for i := range n {
			keys[i].Set(seed, from+i)
		}
		f.ContainsBatch(slices[:n], answers)
		for _, yes := range answers[:n] {
			if yes {
				found++
			}
		}
	}
	return found
}
