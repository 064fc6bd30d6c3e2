package main

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// newWriter returns the command that measures how long a writer waits. Its filter is at its design
// load all the time, because for each insert the oldest key is deleted.
func newWriter(s *session) command {
	w := &writerRun{session: s}
	listFlag(s, &w.sizes, "sizes", "64MiB", "sizes of the lines of the filters, instead of -size; -rounds has no effect", parseSize)
	listFlag(s, &w.syncs, "syncs", "65536,1000,0", "operations between calls of Sync, or 0, which leaves the commits to the timer", strconv.Atoi)
	s.flags.IntVar(&w.checkpoints, "checkpoints", 10, "how many checkpoints each measurement lasts, after the log has reached its full size")
	s.flags.DurationVar(&w.most, "most", 2*time.Minute, "the longest that a measurement lasts")
	return command{map[string]string{"sizes": "1MiB", "syncs": "1000", "checkpoints": "1", "most": "2s"}, w.run}
}

type writerRun struct {
	*session
	sizes       []Size
	syncs       []int
	checkpoints int
	most        time.Duration
}

func (w *writerRun) run() error {
	rates := NewTable("lines", "Sync every", "ns an operation", "bytes to the disk an operation", "faults an operation", "syncs, checkpoints", "log", "LongestStall", "checkpoint, on average", "recovery of a full log")
	waits := NewTable("lines", "Sync every", "call", "50 %", "99 %", "99.9 %", "99.99 %", "longest")
	for _, size := range w.sizes {
		built, err := w.build(int64(size))
		if err != nil {
			return err
		}
		for _, every := range w.syncs {
			m, err := w.measure(built, int64(size), every)
			if err != nil {
				return err
			}
			m.report(rates, waits, size.String(), every)
		}
		if err := os.Remove(built); err != nil {
			return err
		}
	}
	w.printf("\nA filter with the default options, at its design load: the oldest key is deleted for each that is inserted. The timer commits every %v too. The disk is the whole device's.\n", time.Second)
	w.print(rates)
	w.print(waits)
	return nil
}

// build builds the file of a size. Each measurement begins with a copy of this file.
func (w *writerRun) build(size int64) (path string, err error) {
	path = w.path("built.mmf")
	n := byDefault.keys(size)
	w.note("%s: building from %s keys", ExactSize(size), Grouped(int64(n)))
	opts := byDefault.options(n)
	opts.Seed = w.seed
	f, err := mmapfilter.Build(w.ctx, path, &opts, numbers(0, n))
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

func (w *writerRun) measure(built string, size int64, every int) (m *writerMeasure, err error) {
	path := w.path("writer.mmf")
	n := byDefault.keys(size)
	if err := copyFile(path, built); err != nil {
		return nil, err
	}
	f, err := mmapfilter.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(path)) }()
	reader, err := w.start()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := reader.ask("Open", OpenArgs{path, mmapfilter.ResidencyDefault}, nil); err != nil {
		return nil, errors.Join(err, reader.end(), f.Close())
	}
	w.note("%s, Sync every %d: writing", ExactSize(size), every)
	m = newWriterMeasure()
	c := &churner{filter: f, high: n, every: every}
	for size := int64(0); ; { // until the log has its full size
		if err = c.work(50_000, nil); err != nil || w.ctx.Err() != nil {
			break
		}
		now := f.Stats()
		if grown := now.LogBytes > size; !grown && now.Checkpoints >= 8 || w.short {
			break
		}
		if size = max(size, now.LogBytes); now.Checkpoints == 0 && c.operations > 1<<26 {
			break
		}
	}
	m.before = f.Stats()
	device := deviceWrites(path)
	read, _ := readsSoFar()
	c.operations = 0
	stop, looked := make(chan struct{}), make(chan error, 1)
	go func() { looked <- m.lookBeside(reader, stop) }()
	for err == nil && w.ctx.Err() == nil && f.Stats().Checkpoints < m.before.Checkpoints+uint64(w.checkpoints) && m.took < w.most {
		begun := time.Now()
		err = c.work(10_000, m)
		m.took += time.Since(begun)
	}
	m.operations = c.operations
	close(stop)
	now, _ := readsSoFar()
	m.faults = now.since(read).minor + now.since(read).major
	m.device = deviceWrites(path) - device
	if device < 0 {
		m.device = -1
	}
	m.stats = f.Stats()
	err = errors.Join(err, <-looked, reader.end(), f.Close(), w.ctx.Err())
	if err != nil {
		return nil, err
	}
	w.note("%s, Sync every %d: killing", ExactSize(size), every)
	return m, w.kill(WriteArgs{path, c.low, c.high, c.every, m.stats.LogBytes, w.most}, m)
}

// A churner deletes the oldest key for each key that it inserts.
type churner struct {
	filter     *mmapfilter.Filter
	low, high  uint64
	every      int // operations between calls of Sync
	operations int
	unsynced   int
}

// work deletes n keys and inserts n keys, and times each call if m is not nil.
func (c *churner) work(n int, m *writerMeasure) error {
	var key [8]byte
	timed := func(call, operations int, f func() error) error {
		c.operations += operations
		c.unsynced += operations
		if m == nil {
			return f()
		}
		t := time.Now()
		err := f()
		m.waits[call].RecordValue(int64(time.Since(t)))
		return err
	}
	for range n {
		binary.LittleEndian.PutUint64(key[:], c.low)
		c.low++
		err := timed(callDelete, 1, func() error {
			ok, err := c.filter.Delete(key[:])
			if err == nil && !ok {
				err = errors.New("a key that was inserted is not there")
			}
			return err
		})
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(key[:], c.high)
		c.high++
		if err := timed(callInsert, 1, func() error { return c.filter.Insert(key[:]) }); err != nil {
			return err
		}
		if c.every > 0 && c.unsynced >= c.every {
			c.unsynced = 0
			if err := timed(callSync, 0, c.filter.Sync); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookBeside makes a child look a key up now and then until stop is closed, and notes how long each
// lookup took.
func (m *writerMeasure) lookBeside(reader *child, stop chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		var took []time.Duration
		if err := reader.ask("Wait", 100*time.Millisecond, &took); err != nil {
			return err
		}
		for _, d := range took {
			m.waits[callLookup].RecordValue(int64(d))
		}
	}
}

// Wait looks keys up with pauses for a time, and says how long each lookup took.
func (w *worker) Wait(d time.Duration, took *[]time.Duration) error {
	if w.asked == 0 { // the first lookups map the file
		for range 100_000 {
			w.lookUp()
		}
	}
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(100 * time.Microsecond) {
		t := time.Now()
		w.lookUp()
		*took = append(*took, time.Since(t))
	}
	return nil
}

type WriteArgs struct {
	Path      string
	Low, High uint64
	Every     int
	LogBytes  int64
	Most      time.Duration
}

// FillLog writes until the log has its full size and is nearly full, or until a time is over. The
// filter stays open.
func (w *worker) FillLog(a WriteArgs, _ *struct{}) error {
	f, err := mmapfilter.Open(a.Path, nil)
	if err != nil {
		return err
	}
	c := &churner{filter: f, low: a.Low, high: a.High, every: a.Every}
	last, grown := uint64(0), uint64(0) // checkpoints so far, and when the log reached its full size; grown is 0 before that
	since, interval := 0, 0             // operations up to the end of the last checkpoint, and between the ends of the last two
	for begun := time.Now(); time.Since(begun) < a.Most; {
		if err := c.work(1000, nil); err != nil {
			return err
		}
		now := f.Stats()
		if now.Checkpoints > last {
			last, interval, since = now.Checkpoints, c.operations-since, c.operations
		}
		if grown == 0 && now.LogBytes >= a.LogBytes {
			grown = max(last, 1)
		}
		if grown > 0 && last >= grown+4 && c.operations-since >= interval*9/10 {
			break
		}
	}
	return nil
}

// kill kills a writer when its log is nearly full, and times the recovery.
func (w *writerRun) kill(args WriteArgs, m *writerMeasure) error {
	victim, err := w.start()
	if err != nil {
		return err
	}
	if err := victim.ask("FillLog", args, nil); err != nil {
		return errors.Join(err, victim.end())
	}
	if err := victim.cmd.Process.Kill(); err != nil {
		return err
	}
	victim.end()
	begun := time.Now()
	m.recovery, err = mmapfilter.Recover(args.Path)
	m.recovered = time.Since(begun)
	return err
}
