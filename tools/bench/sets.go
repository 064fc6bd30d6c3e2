package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// newSets returns the command that builds a set in tasks, each a process of its own, beside one file of
// the same keys; and compares lookups and inserts in sets with those in one file.
func newSets() command {
	r := new(setsRun)
	return command{
		flags: func(s *session) {
			r.session = s
			s.rounds = 9
			s.flags.StringVar(&r.keys, "keys", "200M", "how many keys the set has that is built in tasks; -size does not count")
			s.flags.IntVar(&r.shards, "shards", 64, "how many shards it has")
			s.flags.IntVar(&r.tasks, "tasks", 8, "how many tasks its keys are divided into")
			s.flags.StringVar(&r.lookupKeys, "lookup-keys", "800M", "how many keys the files have in which keys are looked up")
			s.flags.IntVar(&r.asks, "asks", 1<<20, "how many keys are looked up in a round")
			s.flags.IntVar(&r.inserts, "inserts", 2_000_000, "how many keys each goroutine inserts in a round")
		},
		short: map[string]string{"keys": "100K", "shards": "5", "tasks": "3", "lookup-keys": "50K", "asks": "4096", "inserts": "5000", "rounds": "1"},
		run:   func(*session) error { return r.run() },
	}
}

type setsRun struct {
	*session
	keys, lookupKeys       string
	shards, tasks          int
	asks, inserts          int
	dir, spool, out, place string
}

func (r *setsRun) run() error {
	r.dir = r.path("sets")
	r.spool, r.out, r.place = filepath.Join(r.dir, "spool"), filepath.Join(r.dir, "out"), filepath.Join(r.dir, "plan")
	counts, err := parseCounts(r.keys)
	if err != nil {
		return err
	}
	if err := r.pipeline(counts[0]); err != nil {
		return err
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if counts, err = parseCounts(r.lookupKeys); err != nil {
		return err
	}
	if err := r.lookups(counts[0]); err != nil {
		return err
	}
	return r.writes()
}

// pipeline builds a set in tasks, two processes at a time, and one file of the same keys.
func (r *setsRun) pipeline(n uint64) error {
	p, err := sets.NewPlan(&mmapfilter.Options{Capacity: n, Distinct: true}, r.shards)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(r.dir, 0o777), os.Mkdir(r.spool, 0o777), os.Mkdir(r.out, 0o777), p.Write(r.place)); err != nil {
		return err
	}
	t := figures.NewTable(fmt.Sprintf("%s keys of 16 bytes, %d shards", figures.Grouped(int64(n)), r.shards), "time", "keys a second", "peak memory of a process")
	row := func(name string, took time.Duration, peak string) {
		t.Row(name, figures.Digits(took.Seconds())+" s", figures.Grouped(int64(float64(n)/took.Seconds())), peak)
	}
	total := time.Duration(0)
	stage := func(name, kind string, tasks int) error {
		r.note("%s", name)
		begun := time.Now()
		peak, err := r.processes(kind, tasks, n)
		if err != nil {
			return err
		}
		took := time.Since(begun)
		total += took
		row(fmt.Sprintf("%s: %d tasks, two at a time", name, tasks), took, peak)
		return nil
	}
	if err := stage("partition", "partition", r.tasks); err != nil {
		return err
	}
	spilled, err := bytesIn(r.spool)
	if err != nil {
		return err
	}
	if err := stage("build", "build", r.shards); err != nil {
		return err
	}
	if err := stage("assemble, with every checksum", "assemble", 1); err != nil {
		return err
	}
	row("all", total, "")
	s, err := mmapfilter.OpenSet(filepath.Join(r.out, "x.set"), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	r.note("looking for every key")
	b := &billions{session: r.session}
	found, took, err := b.count(s, 0, n)
	if err != nil {
		return err
	}
	if found != n {
		return fmt.Errorf("%d of %d keys are missing: %v", n-found, n, s.Err())
	}
	row("ContainsBatch of every key, two goroutines: 0 missing", took, "")
	asks := min(n, 100_000_000)
	wrong, _, err := b.count(s, peer.Absent, asks)
	if err != nil {
		return err
	}
	st := s.Stats()
	s.Close()
	if err := os.RemoveAll(r.spool); err != nil {
		return err
	}
	r.note("one file of the same keys")
	begun := time.Now()
	peak, err := r.processes("one", 1, n)
	if err != nil {
		return err
	}
	row("one Build of the same keys", time.Since(begun), peak)
	r.print(t)
	r.printf("The spools had %s, the shards have %s, %.2f bits a key. Of %s absent keys, %s were found; 1 %% was asked for, and the shard with the highest estimated rate has %s.\n",
		figures.Mebibytes(spilled), figures.Mebibytes(st.FileBytes), st.BitsPerKey, figures.Grouped(int64(asks)), percent(float64(wrong)/float64(asks)), percent(st.HighestRate))
	return nil
}

func bytesIn(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// lookups compares lookups of one key and of batches in sets with those in one file of the same keys,
// half of them absent.
func (r *setsRun) lookups(n uint64) error {
	type contents interface {
		Contains(key []byte) bool
		ContainsBatch(keys [][]byte, found []bool)
	}
	populate := &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate}
	one, err := mmapfilter.Build(r.ctx, r.path("one.mmf"), &mmapfilter.Options{Capacity: n}, r.keySequence(n))
	if err != nil {
		return err
	}
	one.Close()
	names, files := []string{"one file"}, []contents{nil}
	counts := []int{1, 4, 16, 64}
	for _, shards := range counts {
		r.note("a set of %d shards", shards)
		p, err := sets.NewPlan(&mmapfilter.Options{Capacity: n}, shards)
		if err != nil {
			return err
		}
		path := r.path(fmt.Sprintf("%d.set", shards))
		if _, err := sets.Build(r.ctx, path, p, sets.Work{}, r.keySequence(n)); err != nil {
			return err
		}
	}
	// A file that was written by way of its mapping is in small pages. Read again, each is in the pages
	// that it gets on its own.
	paths, err := filepath.Glob(r.path("*.mmf"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := machine.DropCache(path); err != nil {
			return err
		}
	}
	if one, err = mmapfilter.OpenReadOnly(r.path("one.mmf"), populate); err != nil {
		return err
	}
	defer one.Close()
	files[0] = one
	size := one.Stats().FileBytes
	for _, shards := range counts {
		s, err := mmapfilter.OpenSet(r.path(fmt.Sprintf("%d.set", shards)), populate)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.OpenAll(); err != nil {
			return err
		}
		names, files = append(names, fmt.Sprintf("set of %d", shards)), append(files, s)
	}
	t := figures.NewTable(append([]string{fmt.Sprintf("lookups in %s, ns a key (times that of one file)", figures.Mebibytes(size))}, names...)...)
	found := make([]bool, 1024)
	for _, batch := range []int{1, 64, 1024} {
		asked := 0
		times, err := r.takeTurns(len(files), func(i int) (float64, error) {
			keys := r.someKeys(n, asked)
			asked++
			begun := time.Now()
			for from := 0; from+batch <= len(keys); from += batch {
				if batch == 1 {
					found[0] = files[i].Contains(keys[from])
				} else {
					files[i].ContainsBatch(keys[from:from+batch], found)
				}
			}
			return float64(time.Since(begun)) / float64(len(keys)/batch*batch), nil
		})
		if err != nil {
			return err
		}
		var cells []string
		for i := range files {
			cell := figures.Digits(figures.Median(times[i]))
			if i > 0 {
				cell += fmt.Sprintf(" (%.2f)", figures.MedianRatio(times[i], times[0]))
			}
			cells = append(cells, cell)
		}
		name := fmt.Sprintf("batches of %d", batch)
		if batch == 1 {
			name = "one key"
		}
		t.Row(append([]string{name}, cells...)...)
	}
	r.print(t)
	for _, path := range paths {
		os.Remove(path)
	}
	return nil
}

// someKeys returns keys to look up, half of them absent.
func (r *setsRun) someKeys(n uint64, round int) [][]byte {
	all, keys := make([]peer.Key, r.asks), make([][]byte, r.asks)
	for i := range all {
		x := peer.Mix(r.seed + uint64(round*r.asks+i))
		if number := x >> 1 % n; x&1 == 0 {
			all[i].Set(r.seed, number)
		} else {
			all[i].Set(r.seed, peer.Absent+number)
		}
		keys[i] = all[i][:]
	}
	return keys
}

// writes compares inserts of one goroutine into one shard with those of two goroutines into two.
func (r *setsRun) writes() error {
	capacity := uint64(8 * r.rounds * r.inserts)
	p, err := sets.NewPlan(&mmapfilter.Options{Capacity: capacity}, 2)
	if err != nil {
		return err
	}
	path := r.path("written.set")
	if _, err := sets.Build(r.ctx, path, p, sets.Work{}, r.keySequence(0)); err != nil {
		return err
	}
	s, err := mmapfilter.OpenSet(path, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.OpenShards(); err != nil {
		return err
	}
	var next [2]uint64 // of the keys of each shard
	insert := func(shard, n int, batch bool) func() error {
		var keys [][]byte
		for ; len(keys) < n; next[shard]++ {
			key := new(peer.Key)
			key.Set(r.seed, next[shard])
			if mmapfilter.ShardOf(p.Hash(key[:]), 2) == shard {
				keys = append(keys, key[:])
			}
		}
		return func() error {
			if batch {
				_, err := s.InsertBatch(keys)
				return err
			}
			for _, key := range keys {
				if err := s.Insert(key); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, how := range []struct {
		name  string
		batch bool
	}{{"Insert", false}, {"InsertBatch", true}} {
		times, err := r.takeTurns(2, func(i int) (float64, error) {
			var group sync.WaitGroup
			errs := make([]error, i+1)
			var do []func() error
			for shard := range i + 1 {
				do = append(do, insert(shard, r.inserts, how.batch))
			}
			runtime.GC()
			begun := time.Now()
			for shard, f := range do {
				group.Add(1)
				go func() {
					defer group.Done()
					errs[shard] = f()
				}()
			}
			group.Wait()
			return float64(i+1) * float64(r.inserts) / time.Since(begun).Seconds(), errors.Join(errs...)
		})
		if err != nil {
			return err
		}
		r.printf("%s into one shard by one goroutine: %s a second; into two shards by two: %s, %.2f times as many.\n", how.name,
			figures.Grouped(int64(figures.Median(times[0]))), figures.Grouped(int64(figures.Median(times[1]))), figures.MedianRatio(times[1], times[0]))
	}
	return nil
}

// setTask makes this program do a task of a set.
const setTask = "settask"

// processes runs tasks, two at a time, each in a process of its own with one processor (one file
// gets all), and returns the highest peak memory of one.
func (r *setsRun) processes(kind string, tasks int, n uint64) (peak string, err error) {
	return runTasks(r.ctx, tasks, func(i int) []string {
		return []string{setTask, kind, r.dir, fmt.Sprint(i), fmt.Sprint(tasks), fmt.Sprint(n), fmt.Sprint(r.seed)}
	})
}

// runSetTask does a task: "partition", "build", "assemble" or "one".
func runSetTask(ctx context.Context, args []string) error {
	if len(args) != 6 {
		return errors.New("it takes KIND DIR NUMBER TASKS KEYS SEED")
	}
	var numbers [4]uint64
	for i, word := range args[2:] {
		if _, err := fmt.Sscan(word, &numbers[i]); err != nil {
			return err
		}
	}
	kind, dir, number, tasks, n, seed := args[0], args[1], numbers[0], numbers[1], numbers[2], numbers[3]
	spool, out := filepath.Join(dir, "spool"), filepath.Join(dir, "out")
	keys := func(yield func([]byte, error) bool) {
		var key peer.Key
		for i := n * number / tasks; i < n*(number+1)/tasks; i++ {
			key.Set(seed, i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
	p, err := sets.ReadPlan(filepath.Join(dir, "plan"))
	if err != nil {
		return err
	}
	switch kind {
	case "partition":
		_, err = sets.Partition(ctx, p, spool, fmt.Sprint("task", number), keys, nil)
	case "build":
		_, err = sets.BuildShard(ctx, p, int(number), spool, out, sets.Work{Workers: 1})
	case "assemble":
		_, err = sets.Assemble(ctx, p, spool, out, filepath.Join(out, "x.set"), true, sets.Work{})
	case "one":
		var f *mmapfilter.Filter
		if f, err = mmapfilter.Build(ctx, filepath.Join(out, "one.mmf"), &mmapfilter.Options{Capacity: n, Distinct: true}, keys); err == nil {
			err = f.Close()
		}
	default:
		err = fmt.Errorf("there is no task %q", kind)
	}
	if err == nil {
		fmt.Println(machine.PeakMemory())
	}
	return err
}
