package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"golang.org/x/sync/errgroup"
)

// setTasks is how many tasks the keys of a set are divided into.
const setTasks = 8

// A setBuild builds a set in tasks, each a process of its own.
type setBuild struct {
	*session
	shards                int
	dir, spool, out, plan string
	keys                  uint64
	table                 *Table
}

// sets builds a set of n keys in tasks, and one file of the same keys. Then it compares lookups in
// sets with lookups in one file.
func (b *buildRun) sets(n uint64) error {
	dir := b.path("sets")
	r := &setBuild{session: b.session, shards: b.shards, dir: dir, spool: filepath.Join(dir, "spool"), out: filepath.Join(dir, "out"), plan: filepath.Join(dir, "plan"), keys: n}
	if err := r.pipeline(); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return b.lookInSets(b.lookupKeys)
}

// pipeline builds a set in tasks, two processes at a time, and one file of the same keys.
func (r *setBuild) pipeline() error {
	p, err := sets.NewPlan(&mmapfilter.Options{Capacity: r.keys, Distinct: true}, r.shards)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(r.dir, 0o777), os.Mkdir(r.spool, 0o777), os.Mkdir(r.out, 0o777), p.Write(r.plan)); err != nil {
		return err
	}
	r.table = NewTable(fmt.Sprintf("%s keys of 16 bytes, %d shards", Grouped(int64(r.keys)), r.shards), "time", "keys a second", "peak memory of a process")
	begun, spilled := time.Now(), int64(0)
	for _, stage := range []struct {
		name, kind string
		tasks      int
	}{{"partition", "partition", setTasks}, {"build", "build", r.shards}, {"assemble, with every checksum", "assemble", 1}} {
		if err := r.stage(fmt.Sprintf("%s: %d tasks, two at a time", stage.name, stage.tasks), stage.kind, stage.tasks); err != nil {
			return err
		}
		if stage.kind == "partition" {
			spilled = bytesOf(filepath.Join(r.spool, "*"))
		}
	}
	r.row("all", time.Since(begun), "")
	said, err := r.askSet()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.spool); err != nil {
		return err
	}
	if err := r.stage("one Build of the same keys", "one", 1); err != nil {
		return err
	}
	r.print(r.table)
	r.printf("The spools had %s, %s\n", Mebibytes(spilled), said)
	return nil
}

func (r *setBuild) row(name string, took time.Duration, peak string) {
	r.table.Row(name, Digits(took.Seconds())+" s", Grouped(int64(float64(r.keys)/took.Seconds())), peak)
}

// stage runs tasks of a kind.
func (r *setBuild) stage(name, kind string, tasks int) error {
	r.note("%s", name)
	begun := time.Now()
	peak, err := r.processes(kind, tasks)
	if err == nil {
		r.row(name, time.Since(begun), Mebibytes(peak))
	}
	return err
}

// askSet looks up all keys of the set and absent ones. It returns a sentence about sizes and rates.
func (r *setBuild) askSet() (string, error) {
	s, err := sets.Open(filepath.Join(r.out, "x.set"), nil)
	if err != nil {
		return "", err
	}
	defer s.Close()
	r.note("looking for every key")
	found, took, err := r.count(s, 0, r.keys)
	if err != nil {
		return "", err
	}
	if found != r.keys {
		return "", fmt.Errorf("%d of %d keys are missing: %v", r.keys-found, r.keys, s.Err())
	}
	r.row("ContainsBatch of every key, two goroutines: 0 missing", took, "")
	asks := min(r.keys, 100_000_000)
	wrong, _, err := r.count(s, Absent, asks)
	st := s.Stats()
	return fmt.Sprintf("the shards have %s, %.2f bits a key. Of %s absent keys, %s were found; 1 %% was asked for, and the shard with the highest estimated rate has %s.",
		Mebibytes(st.FileBytes), st.BitsPerKey, Grouped(int64(asks)), percent(float64(wrong)/float64(asks)), percent(st.HighestRate)), err
}

// count looks up n keys, numbered from first on, on all processors.
func (b *session) count(f contents, first, n uint64) (found uint64, took time.Duration, err error) {
	workers := uint64(runtime.GOMAXPROCS(0))
	counts := make([]uint64, workers)
	var group errgroup.Group
	begun := time.Now()
	for w := range workers {
		group.Go(func() (err error) {
			from, to := first+n*w/workers, first+n*(w+1)/workers
			counts[w], err = b.ask(&Filter{Seed: b.seed, Contains: inBatches(f, 1024)}, from, to-from)
			return err
		})
	}
	err = group.Wait()
	took = time.Since(begun)
	for _, c := range counts {
		found += c
	}
	return found, took, err
}

// contents is a filter or a set.
type contents interface {
	Contains(key []byte) bool
	ContainsBatch(keys [][]byte, found []bool)
}

// inBatches looks keys up in batches, or one by one.
func inBatches(f contents, batch int) Op {
	keys, found := make([][]byte, batch), make([]bool, batch)
	return func(all []Key) (n int) {
		for len(all) > 0 {
			some := all[:min(batch, len(all))]
			all = all[len(some):]
			for i := range some {
				keys[i] = some[i][:]
			}
			if batch == 1 {
				found[0] = f.Contains(keys[0])
			} else {
				f.ContainsBatch(keys[:len(some)], found)
			}
			for _, yes := range found[:len(some)] {
				if yes {
					n++
				}
			}
		}
		return n
	}
}

// setCounts are the numbers of shards of the sets in which keys are looked up.
var setCounts = []int{1, 4, 16, 64}

// lookInSets compares lookups in sets with lookups in one file of the same keys, by one key and by
// batches. Half of the keys that it looks up are absent.
func (b *session) lookInSets(n uint64) error {
	names, paths := []string{"one file"}, []string{b.path("one.mmf")}
	one, err := mmapfilter.Build(b.ctx, paths[0], &mmapfilter.Options{Capacity: n}, keySequence(b.ctx, b.seed, 0, n))
	if err != nil {
		return err
	}
	size := one.Stats().FileBytes
	if err := one.Close(); err != nil {
		return err
	}
	for _, shards := range setCounts {
		b.note("a set of %d shards", shards)
		p, err := sets.NewPlan(&mmapfilter.Options{Capacity: n}, shards)
		if err != nil {
			return err
		}
		names, paths = append(names, fmt.Sprintf("set of %d", shards)), append(paths, b.path(fmt.Sprintf("%d.set", shards)))
		if _, err := sets.Build(b.ctx, paths[len(paths)-1], p, sets.Work{}, keySequence(b.ctx, b.seed, 0, n)); err != nil {
			return err
		}
	}
	// The page cache has a file in small pages after it was written through its mapping. So drop the
	// files: reading a file again brings it into pages of the size that the system chooses for it.
	if err := dropDir(b.temp); err != nil {
		return err
	}
	populate := &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate}
	if one, err = mmapfilter.OpenReadOnly(paths[0], populate); err != nil {
		return err
	}
	defer one.Close()
	files := []contents{one}
	for _, path := range paths[1:] {
		s, err := sets.Open(path, populate)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.OpenAll(); err != nil {
			return err
		}
		files = append(files, s)
	}
	t := NewTable(append([]string{fmt.Sprintf("lookups in %s, ns a key (times that of one file)", Mebibytes(size))}, names...)...)
	if err := b.compareSets(t, files, n); err != nil {
		return err
	}
	b.print(t)
	return nil
}

// compareSets adds a row for each size of batches.
func (b *session) compareSets(t *Table, files []contents, n uint64) error {
	for _, batch := range []int{1, 1024} {
		asked := 0
		times, err := b.takeTurns(len(files), func(i int) (float64, error) {
			keys := b.someKeys(n, asked)
			asked++
			op := inBatches(files[i], batch)
			return float64(Timed(func() { op(keys) }).Processor) / float64(len(keys)), nil
		})
		if err != nil {
			return err
		}
		row := []string{fmt.Sprintf("batches of %d", batch)}
		if batch == 1 {
			row[0] = "one key"
		}
		for i := range files {
			cell := Digits(Median(times[i]))
			if i > 0 {
				cell += fmt.Sprintf(" (%.2f)", MedianRatio(times[i], times[0]))
			}
			row = append(row, cell)
		}
		t.Row(row...)
	}
	return nil
}

// setAsks is how many keys a turn looks up.
const setAsks = 1 << 20

// someKeys returns keys to look up, half of them absent.
func (b *session) someKeys(n uint64, round int) []Key {
	keys := make([]Key, min(setAsks, int(n)))
	for i := range keys {
		x := Mix(b.seed + uint64(round*len(keys)+i))
		if number := x >> 1 % n; x&1 == 0 {
			keys[i].Set(b.seed, number)
		} else {
			keys[i].Set(b.seed, Absent+number)
		}
	}
	return keys
}

type ShardArgs struct {
	Kind, Dir     string
	Number, Tasks uint64
	Keys, Seed    uint64
}

// processes runs tasks, two at a time, each in its own process with one processor. (A single
// task gets all processors.) It returns the highest peak memory of a process.
func (r *setBuild) processes(kind string, n int) (peak int64, err error) {
	const atOnce = 2
	env := []string{"GOMAXPROCS=1"}
	if n == 1 {
		env = nil
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	peaks := make([]int64, n)
	for i := range n {
		group.Go(func() error {
			return r.once("Shard", ShardArgs{kind, r.dir, uint64(i), uint64(n), r.keys, r.seed}, &peaks[i], env...)
		})
	}
	err = group.Wait()
	return slices.Max(peaks), err
}

// Shard does a task of a set: "partition", "build", "assemble" or "one". It returns the peak
// memory.
func (w *worker) Shard(a ShardArgs, peak *int64) error {
	ctx := context.Background()
	spool, out := filepath.Join(a.Dir, "spool"), filepath.Join(a.Dir, "out")
	keys := keySequence(ctx, a.Seed, a.Keys*a.Number/a.Tasks, a.Keys*(a.Number+1)/a.Tasks)
	p, err := sets.ReadPlan(filepath.Join(a.Dir, "plan"))
	if err != nil {
		return err
	}
	switch a.Kind {
	case "partition":
		_, err = sets.Partition(ctx, p, spool, fmt.Sprint("task", a.Number), keys, nil)
	case "build":
		_, err = sets.BuildShard(ctx, p, int(a.Number), spool, out, sets.Work{Workers: 1})
	case "assemble":
		_, err = sets.Assemble(ctx, p, spool, out, filepath.Join(out, "x.set"), true, sets.Work{})
	case "one":
		var f *mmapfilter.Filter
		if f, err = mmapfilter.Build(ctx, filepath.Join(out, "one.mmf"), &mmapfilter.Options{Capacity: a.Keys, Distinct: true}, keys); err == nil {
			err = f.Close()
		}
	default:
		err = fmt.Errorf("there is no task %q", a.Kind)
	}
	most, err2 := peakMemory()
	*peak = most
	return errors.Join(err, err2)
}
