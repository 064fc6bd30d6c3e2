package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"
)

// newBuild returns the command that measures building files and sets.
func newBuild(s *session) command {
	b := &buildRun{session: s}
	s.rounds = 3
	b.choice.flags(s)
	listFlag(s, &b.counts, "keys", "10M,100M", "how many keys, such as 500000, 10M or 2B, instead of -size", parseCount)
	s.flags.IntVar(&b.shards, "shards", 0, "how many shards are in a set that is built in tasks, beside one file; also compares lookups in sets")
	s.countFlag(&b.lookupKeys, "lookup-keys", "800M", "with -shards: how many keys are in the sets that lookups are compared in")
	return command{map[string]string{"keys": "50K", "lookup-keys": "20K", "rounds": "1"}, b.run}
}

type buildRun struct {
	*session
	choice     choice
	counts     []uint64
	shards     int
	lookupKeys uint64
}

func (b *buildRun) run() error {
	for _, n := range b.counts {
		measure := b.beside
		if b.shards > 0 {
			measure = b.sets
		}
		if err := measure(n); err != nil {
			return err
		}
	}
	return nil
}

// A step is something that is timed for n keys. It returns the time and a note.
type step struct {
	name string
	run  func() (time.Duration, string, error)
}

// beside compares builds of our filters with builds of other filters.
func (b *buildRun) beside(n uint64) error {
	peers, err := b.choice.chosen(goPeers(defaultRate))
	if err != nil {
		return err
	}
	b.printf("\nOn %d processors. Keys of 8 bytes; others take keys of %d bytes, each processor in a filter of its own, without the time for making the keys.\n", runtime.GOMAXPROCS(0), KeyBytes)
	steps := []step{
		{"Build, " + byDefault.name(), func() (time.Duration, string, error) { return b.build(n) }},
		{"to hash the keys, one processor", func() (time.Duration, string, error) { return hashKeys(n), "", nil }},
	}
	for _, spec := range peers {
		steps = append(steps, step{spec.name, func() (time.Duration, string, error) { return b.parallel(spec, n, uint64(runtime.GOMAXPROCS(0))) }})
	}
	notes := make([]string, len(steps))
	times, err := b.takeTurns(len(steps), func(i int) (float64, error) {
		b.note("%s keys: %s", Grouped(int64(n)), steps[i].name)
		took, note, err := steps[i].run()
		notes[i] = note
		forget()
		return took.Seconds(), err
	})
	if err != nil {
		return err
	}
	t := NewTable(Grouped(int64(n))+" keys", "seconds", "ns a key", "keys a second", "keys a second over the first", "peak memory")
	for i, st := range steps {
		m := Median(times[i])
		t.Row(st.name, Digits(m), Digits(1e9*m/float64(n)), Grouped(int64(float64(n)/m)), "**"+Digits(MedianRatio(times[0], times[i]))+"**", notes[i])
	}
	b.print(t)
	return nil
}

type (
	BuildArgs struct {
		Path string
		Keys uint64
	}
	Built struct {
		Took time.Duration
		Peak int64 // memory of the process
	}
)

// build builds a file in a process of its own, since peak memory is measured by process.
func (b *buildRun) build(n uint64) (time.Duration, string, error) {
	var r Built
	path := b.path("build.mmf")
	defer os.Remove(path)
	err := b.once("Build", BuildArgs{path, n}, &r)
	return r.Took, Mebibytes(r.Peak), err
}

// Build builds a file.
func (w *worker) Build(a BuildArgs, r *Built) error {
	opts := byDefault.options(a.Keys)
	opts.MemoryBudget = 0
	begun := time.Now()
	f, err := mmapfilter.Build(context.Background(), a.Path, &opts, numbers(0, a.Keys))
	if err != nil {
		return err
	}
	r.Took = time.Since(begun)
	r.Peak, err = peakMemory()
	return errors.Join(err, f.Close())
}

func hashKeys(n uint64) time.Duration {
	begun, sum := time.Now(), uint64(0)
	for key := range numbers(0, n) {
		sum += xxh3.Hash(key)
	}
	runtime.KeepAlive(sum) // keeps the compiler from dropping the loop
	return time.Since(begun)
}

// parallel runs goroutines that each fill a filter with their share of the keys. It returns the
// time of the slowest.
func (b *buildRun) parallel(spec spec, n, workers uint64) (longest time.Duration, note string, err error) {
	took, accepted := make([]time.Duration, workers), make([]uint64, workers)
	var group errgroup.Group
	for w := range workers {
		group.Go(func() (err error) {
			took[w], accepted[w], err = b.fill(spec, w*(n/workers), n/workers)
			return err
		})
	}
	err = group.Wait()
	sum := uint64(0)
	for w := range workers {
		longest = max(longest, took[w])
		sum += accepted[w]
	}
	if all := n / workers * workers; sum < all {
		note = fmt.Sprintf("refused a key after %s", Grouped(int64(sum)))
	}
	return longest, note, err
}

// fill times the filling of one filter. If the filter is created with its keys, the time
// includes making the keys.
func (b *buildRun) fill(spec spec, first, n uint64) (time.Duration, uint64, error) {
	begun := time.Now()
	f, err := spec.create(b.session, n)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if spec.filled {
		return time.Since(begun), n, nil
	}
	c, err := b.add(f, first, n)
	return c.Clock, c.Keys, err
}
