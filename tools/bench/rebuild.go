package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// newRebuild returns the command that measures what kept hashes cost, and the rebuilds that need
// them. Its filters have the default options.
func newRebuild(s *session) command {
	r := &rebuildRun{session: s}
	s.rounds = 5
	s.countFlag(&r.keys, "keys", "20M", "how many keys, for all but the largest file and the growth; -size has no effect")
	r.large = 850_000_000
	s.flags.Func("large", "how many keys are in the file that is copied and rebuilt beside a writer; 0 leaves it out (default 850M)", func(text string) (err error) {
		if r.large = 0; text != "0" {
			r.large, err = parseCount(text)
		}
		return err
	})
	s.countFlag(&r.grown, "grown", "50M", "how many keys a filter for 1,000 grows to")
	s.flags.IntVar(&r.pace, "pace", 0, "how many operations a second the writer of the large file does; 0 is full speed")
	return command{map[string]string{"keys": "20K", "large": "50K", "grown": "20K", "rounds": "1"}, r.run}
}

type rebuildRun struct {
	*session
	keys, large, grown uint64
	pace               int
}

func (r *rebuildRun) run() error {
	if err := r.inserts(r.keys); err != nil {
		return err
	}
	forget()
	if err := r.builds(r.keys); err != nil {
		return err
	}
	if err := r.grows(r.grown); err != nil || r.large == 0 {
		return err
	}
	forget()
	return r.besideWriter(r.large)
}

// insert inserts keys and returns how long each took.
func (r *rebuildRun) insert(f *mmapfilter.Filter, n uint64) (time.Duration, error) {
	c, err := r.add(openLive(f, writing{syncEvery: 65_536}, r.seed), 0, n)
	if err == nil && c.Keys < n {
		err = mmapfilter.ErrFull
	}
	return c.Clock / time.Duration(n), errors.Join(err, f.Sync())
}

// create creates a file, in place of any earlier one.
func (r *rebuildRun) create(name string, opts *mmapfilter.Options) (*mmapfilter.Filter, error) {
	r.remove(name)
	return mmapfilter.Create(r.path(name), opts)
}

func (r *rebuildRun) remove(name string) {
	os.Remove(r.path(name))
	os.Remove(r.path(name) + ".hashes")
}

// inserts compares inserts with and without kept hashes.
func (r *rebuildRun) inserts(n uint64) error {
	bytes := 0.0
	all, err := r.takeTurns(2, func(i int) (float64, error) {
		f, err := r.create("inserts.mmf", &mmapfilter.Options{Capacity: n, KeepHashes: i == 1})
		if err != nil {
			return 0, err
		}
		d, err := r.insert(f, n)
		if err == nil {
			err = f.Close()
		}
		if i == 1 {
			bytes = float64(bytesOf(r.path("inserts.mmf")+".hashes")) / float64(n)
		}
		return float64(d.Nanoseconds()), err
	})
	if err != nil {
		return err
	}
	t := NewTable(fmt.Sprintf("%s inserts, Sync every 65,536", Grouped(int64(n))), "ns an insert", "rate over that without", "bytes of NAME.hashes an insert")
	t.Row("without", Digits(Median(all[0])), "1", "0")
	t.Row("KeepHashes", Digits(Median(all[1])), Digits(MedianRatio(all[0], all[1])), Digits(bytes))
	r.print(t)
	return nil
}

// builds compares rebuilds with a build of the same number of keys: a rebuild from a base, and a
// rebuild from a tail, which gets a copy of a filter without a base.
func (r *rebuildRun) builds(n uint64) error {
	opts := &mmapfilter.Options{Capacity: n, KeepHashes: true}
	inserted, err := r.create("inserted.mmf", opts)
	if err != nil {
		return err
	}
	_, err = r.insert(inserted, n)
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
	names := []string{"Build", "Rebuild from a base", "Rebuild from a tail"}
	all, err := r.takeTurns(len(names), func(i int) (float64, error) {
		switch i {
		case 0:
			return build("built.mmf", &mmapfilter.Options{Capacity: n})
		case 1:
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
	t := NewTable(fmt.Sprintf("%s keys", Grouped(int64(n))), "million a second", "over Build")
	for i, name := range names {
		t.Row(name, Digits(Median(all[i])), Digits(MedianRatio(all[i], all[0])))
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
	t := NewTable(fmt.Sprintf("%s inserts, Sync every 65,536", Grouped(int64(n))), "ns an insert", "over the right size", "rebuilds", "most on disk", "at the end", "most memory besides the mapped file", "longest stall", "rate that was measured")
	var times [2]float64
	for i, opts := range []*mmapfilter.Options{{Capacity: n}, {Capacity: 1000, AutoGrow: true}} {
		f, err := r.create("grown.mmf", opts)
		if err != nil {
			return err
		}
		forget()
		disk, memory := watch(r.diskUse), watch(goMemory)
		d, err := r.insert(f, n)
		most, mostMemory := disk(), memory()
		if err != nil {
			return err
		}
		const asked = 1_000_000
		wrong, err := r.ask(openLive(f, writing{}, r.seed), Absent, asked)
		if err != nil {
			return err
		}
		s := f.Stats()
		times[i] = float64(d.Nanoseconds())
		name := "of the right size at once, without hashes"
		if i == 1 {
			name = "for 1,000 keys, AutoGrow"
		}
		t.Row(name, Digits(times[i]), Digits(times[i]/times[0]), fmt.Sprint(s.Rebuilds), Mebibytes(most), Mebibytes(r.diskUse()), Mebibytes(mostMemory), Brief(s.LongestStall), fmt.Sprintf("%.3f %%", 100*float64(wrong)/asked))
		if err := f.Close(); err != nil {
			return err
		}
		r.remove("grown.mmf")
	}
	r.print(t)
	return nil
}

// diskUse returns the size of the files of the filter that grows, and of its rebuild.
func (r *rebuildRun) diskUse() int64 { return bytesOf(r.path("grown*")) }

// besideWriter rebuilds a large file and copies it while a writer inserts and deletes.
func (r *rebuildRun) besideWriter(n uint64) error {
	t := NewTable("meanwhile", "took", "million keys a second", "operations a second", "longest operation", "of 100,000 all but one within", "longest sync", "operations wait at the end of a rebuild")
	size := int64(0)
	for _, kept := range []bool{true, false} {
		name := r.path("large.mmf")
		f, err := mmapfilter.Build(r.ctx, name, &mmapfilter.Options{Capacity: n + n/50, KeepHashes: kept}, numbers(0, n))
		if err != nil {
			return err
		}
		size = max(size, f.Stats().FileBytes)
		if err := f.Close(); err != nil {
			return err
		}
		if f, err = mmapfilter.Open(name, nil); err != nil {
			return err
		}
		beside := []func() error{
			func() error { time.Sleep(time.Duration(r.rounds) * time.Second); return nil },
			func() error { _, err := f.Snapshot(r.ctx, r.path("copy.mmf")); return err },
			func() error { return f.Rebuild(r.ctx, nil) },
		}
		names := []string{"nothing", "Snapshot", "Rebuild"}
		if !kept {
			beside, names = beside[:2], []string{"nothing, without hashes", "Snapshot of lines"}
		}
		w := &churner{filter: f, high: n, every: 65_536}
		for i, do := range beside {
			took, m, err := w.during(r.pace, do)
			if err != nil {
				return errors.Join(err, f.Close())
			}
			rate, stall := "", ""
			if i > 0 {
				rate = Digits(float64(n) / took.Seconds() / 1e6)
			}
			if i == 2 {
				stall = Brief(f.Stats().RebuildStall)
			}
			calls := m.waits[callInsert]
			calls.Merge(m.waits[callDelete])
			t.Row(names[i], Brief(took), rate, Grouped(int64(float64(calls.TotalCount())/took.Seconds())), Brief(time.Duration(calls.Max())),
				Brief(time.Duration(calls.ValueAtPercentile(99.999))), Brief(time.Duration(m.waits[callSync].Max())), stall)
		}
		if err := f.Close(); err != nil {
			return err
		}
		r.remove("large.mmf")
		r.remove("copy.mmf")
	}
	speed := "at full speed"
	if r.pace > 0 {
		speed = fmt.Sprintf("of %s operations a second", Grouped(int64(r.pace)))
	}
	r.printf("%s keys in a file of %s, a writer %s, Sync every 65,536:\n", Grouped(int64(n)), Mebibytes(size), speed)
	r.print(t)
	return nil
}

// during writes while do runs: at most pace operations a second, unless pace is 0.
func (c *churner) during(pace int, do func() error) (took time.Duration, m *writerMeasure, err error) {
	var ended atomic.Bool
	m, c.operations = newWriterMeasure(), 0
	written, begun := make(chan error), time.Now()
	go func() {
		var err error
		for err == nil && !ended.Load() {
			for pace > 0 && float64(c.operations) > time.Since(begun).Seconds()*float64(pace) {
				time.Sleep(time.Millisecond)
			}
			err = c.work(1, m)
		}
		written <- err
	}()
	err = do()
	took = time.Since(begun)
	ended.Store(true)
	return took, m, errors.Join(err, <-written)
}
