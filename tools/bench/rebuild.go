package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newRebuild returns the command that measures what kept hashes cost, and the rebuilds that need
// them. Its filters have the default options.
func newRebuild() command {
	r := new(rebuildRun)
	return command{
		flags: func(s *session) {
			r.session = s
			s.rounds = 5
			s.flags.StringVar(&r.keys, "keys", "20M", "how many keys, for all but the largest file and the growth; -size does not count")
			s.flags.StringVar(&r.large, "large", "850M", "how many keys the file has that is rebuilt beside a writer at full speed; 0 leaves it out")
			s.flags.StringVar(&r.grown, "grown", "50M", "how many keys a filter for 1,000 grows to")
		},
		short: map[string]string{"keys": "20K", "large": "50K", "grown": "20K", "rounds": "1"},
		run:   func(*session) error { return r.run() },
	}
}

type rebuildRun struct {
	*session
	keys, large, grown string
}

func (r *rebuildRun) run() error {
	var n [3]uint64
	for i, text := range []string{r.keys, r.large, r.grown} {
		if text == "0" {
			continue
		}
		counts, err := parseCounts(text)
		if err != nil {
			return err
		}
		n[i] = counts[0]
	}
	for i, step := range []func(n uint64) error{r.inserts, r.builds, r.grows} {
		if err := step([]uint64{n[0], n[0], n[2]}[i]); err != nil {
			return err
		}
		forget()
	}
	if n[1] == 0 {
		return nil
	}
	return r.besideWriter(n[1])
}

// insert inserts keys and returns how long each took.
func (r *rebuildRun) insert(f *mmapfilter.Filter, first, n uint64) (time.Duration, error) {
	begun := time.Now()
	done := uint64(0)
	for key := range numbers(first, n) {
		if err := f.Insert(key); err != nil {
			return 0, err
		}
		if done++; done%65536 == 0 {
			if err := f.Sync(); err != nil {
				return 0, err
			}
			if r.ctx.Err() != nil {
				return 0, r.ctx.Err()
			}
		}
	}
	return time.Since(begun) / time.Duration(max(n, 1)), f.Sync()
}

// create makes a file anew.
func (r *rebuildRun) create(name string, opts *mmapfilter.Options) (*mmapfilter.Filter, error) {
	r.remove(name)
	return mmapfilter.Create(r.path(name), opts)
}

func (r *rebuildRun) remove(name string) {
	os.Remove(r.path(name))
	os.Remove(r.path(name) + ".hashes")
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// inserts compares inserts with and without kept hashes.
func (r *rebuildRun) inserts(n uint64) error {
	bytes := 0.0
	all, err := r.takeTurns(2, func(i int) (float64, error) {
		f, err := r.create("inserts.mmf", &mmapfilter.Options{Capacity: n, KeepHashes: i == 1})
		if err != nil {
			return 0, err
		}
		d, err := r.insert(f, 0, n)
		if err == nil {
			err = f.Close()
		}
		if i == 1 {
			bytes = float64(sizeOf(r.path("inserts.mmf")+".hashes")) / float64(n)
		}
		return float64(d.Nanoseconds()), err
	})
	if err != nil {
		return err
	}
	t := figures.NewTable(fmt.Sprintf("%s inserts, Sync every 65,536", figures.Grouped(int64(n))), "ns an insert", "rate over that without", "bytes of NAME.hashes an insert")
	t.Row("without", figures.Digits(figures.Median(all[0])), "1", "0")
	t.Row("KeepHashes", figures.Digits(figures.Median(all[1])), figures.Digits(figures.MedianRatio(all[0], all[1])), figures.Digits(bytes))
	r.print(t)
	return nil
}

// builds compares a rebuild with a build of as many keys: from a base, and from a tail, for which each
// rebuild gets a copy of a filter without a base.
func (r *rebuildRun) builds(n uint64) error {
	opts := &mmapfilter.Options{Capacity: n, KeepHashes: true}
	inserted, err := r.create("inserted.mmf", opts)
	if err != nil {
		return err
	}
	_, err = r.insert(inserted, 0, n)
	if err = errors.Join(err, inserted.Close()); err != nil {
		return err
	}
	build := func(name string, opts *mmapfilter.Options) (float64, error) {
		r.remove(name)
		begun := time.Now()
		f, err := mmapfilter.Build(r.ctx, r.path(name), opts, numbers(0, n))
		if err != nil {
			return 0, err
		}
		return float64(n) / time.Since(begun).Seconds() / 1e6, f.Close()
	}
	if _, err := build("kept.mmf", opts); err != nil {
		return err
	}
	rebuild := func(name string) (float64, error) {
		f, err := mmapfilter.Open(r.path(name), nil)
		if err != nil {
			return 0, err
		}
		begun := time.Now()
		err = f.Rebuild(r.ctx, &mmapfilter.RebuildOptions{Capacity: n})
		took := time.Since(begun)
		return float64(n) / took.Seconds() / 1e6, errors.Join(err, f.Close())
	}
	names := []string{"Build", "Build with KeepHashes", "Rebuild from a base", "Rebuild from a tail"}
	all, err := r.takeTurns(len(names), func(i int) (float64, error) {
		switch i {
		case 0, 1:
			return build("built.mmf", &mmapfilter.Options{Capacity: n, KeepHashes: i == 1})
		case 2:
			return rebuild("kept.mmf")
		}
		for _, suffix := range []string{"", ".hashes"} {
			if err := copyFile(r.path("tail.mmf"+suffix), r.path("inserted.mmf"+suffix)); err != nil {
				return 0, err
			}
		}
		return rebuild("tail.mmf")
	})
	if err != nil {
		return err
	}
	t := figures.NewTable(fmt.Sprintf("%s keys", figures.Grouped(int64(n))), "million a second", "over Build")
	for i, name := range names {
		t.Row(name, figures.Digits(figures.Median(all[i])), figures.Digits(figures.MedianRatio(all[i], all[0])))
	}
	r.print(t)
	return nil
}

// copyFile copies a file and syncs it, so that no write to the disk disturbs later
// measurements.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// grows compares a filter that grows from 1,000 keys with a filter that has the right size at
// once.
func (r *rebuildRun) grows(n uint64) error {
	t := figures.NewTable(fmt.Sprintf("%s inserts, Sync every 65,536", figures.Grouped(int64(n))), "ns an insert", "over the right size", "rebuilds", "most on disk", "at the end", "most memory besides the mapped file", "longest stall", "rate that was measured")
	var times [2]float64
	for i, opts := range []*mmapfilter.Options{{Capacity: n}, {Capacity: 1000, AutoGrow: true}} {
		f, err := r.create("grown.mmf", opts)
		if err != nil {
			return err
		}
		debug.FreeOSMemory()
		disk, memory := watch(r.diskUse), watch(goMemory)
		d, err := r.insert(f, 0, n)
		most, mostMemory := disk(), memory()
		if err != nil {
			return err
		}
		wrong := 0
		const asked = 1_000_000
		for key := range numbers(1<<40, asked) {
			if f.Contains(key) {
				wrong++
			}
		}
		s := f.Stats()
		times[i] = float64(d.Nanoseconds())
		name := "of the right size at once, without hashes"
		if i == 1 {
			name = "for 1,000 keys, AutoGrow"
		}
		t.Row(name, figures.Digits(times[i]), figures.Digits(times[i]/times[0]), fmt.Sprint(s.Rebuilds), figures.Mebibytes(most), figures.Mebibytes(r.diskUse()), figures.Mebibytes(mostMemory), figures.Brief(s.LongestStall), fmt.Sprintf("%.3f %%", 100*float64(wrong)/asked))
		if err := f.Close(); err != nil {
			return err
		}
		r.remove("grown.mmf")
	}
	r.print(t)
	return nil
}

// diskUse returns the size of the files of the filter that grows, and of its rebuild.
func (r *rebuildRun) diskUse() (bytes int64) {
	entries, _ := os.ReadDir(r.temp)
	for _, e := range entries {
		if len(e.Name()) >= 5 && e.Name()[:5] == "grown" {
			bytes += sizeOf(r.path(e.Name()))
		}
	}
	return bytes
}

// besideWriter rebuilds a large file while a writer inserts and deletes at full speed.
func (r *rebuildRun) besideWriter(n uint64) error {
	f, err := mmapfilter.Build(r.ctx, r.path("large.mmf"), &mmapfilter.Options{Capacity: n + n/50, KeepHashes: true}, numbers(0, n))
	if err != nil {
		return err
	}
	size := f.Stats().FileBytes
	if err := f.Close(); err != nil {
		return err
	}
	if f, err = mmapfilter.Open(r.path("large.mmf"), nil); err != nil {
		return err
	}
	defer f.Close()
	var ended atomic.Bool
	var longest, longestSync time.Duration
	var operations uint64
	written := make(chan error)
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	go func() {
		key := make([]byte, 8)
		var err error
		for ; !ended.Load() && err == nil && ctx.Err() == nil; operations += 2 {
			begun := time.Now()
			binary.LittleEndian.PutUint64(key, n+operations)
			if err = f.Insert(key); err == nil {
				binary.LittleEndian.PutUint64(key, operations)
				_, err = f.Delete(key)
			}
			longest = max(longest, time.Since(begun))
			if operations%65536 == 0 && err == nil {
				begun = time.Now()
				err = f.Sync()
				longestSync = max(longestSync, time.Since(begun))
			}
		}
		written <- err
	}()
	begun := time.Now()
	err = f.Rebuild(ctx, nil)
	took := time.Since(begun)
	ended.Store(true)
	if e := <-written; err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	t := figures.NewTable("a file of", "keys", "rebuilt in", "million keys a second", "operations meanwhile", "operations wait at the end", "longest insert and delete", "longest sync")
	t.Row(figures.Mebibytes(size), figures.Grouped(int64(n)), figures.Brief(took), figures.Digits(float64(n)/took.Seconds()/1e6), figures.Grouped(int64(operations)), figures.Brief(f.Stats().RebuildStall), figures.Brief(longest), figures.Brief(longestSync))
	r.print(t)
	return nil
}
