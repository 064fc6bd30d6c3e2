package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newWriter returns the command that measures how long a writer waits. Its filter is at its
// design load all the time: the oldest key is deleted for each that is inserted.
func newWriter() command {
	w := new(writerRun)
	return command{
		flags: func(s *session) {
			w.session = s
			s.flags.StringVar(&w.sizes, "sizes", "64MiB", "sizes of the lines of the filters, comma-separated; -size and -rounds do not count")
			s.flags.StringVar(&w.syncs, "syncs", "65536,1000,0", "operations between calls of Sync, comma-separated; 0 leaves the commits to the timer")
			s.flags.IntVar(&w.checkpoints, "checkpoints", 10, "how many checkpoints each measurement lasts, after the log has got its size")
			s.flags.DurationVar(&w.most, "most", 2*time.Minute, "the longest that a measurement lasts")
			s.flags.StringVar(&w.out, "out", "", "write a picture of the first measurement to this file, NAME.svg, and what it shows to NAME.csv")
			s.flags.BoolVar(&w.draw, "draw", false, "draw the picture -out of the .csv file that is there, and measure nothing")
		},
		short: map[string]string{"sizes": "1MiB", "syncs": "1000", "checkpoints": "1", "most": "2s"},
		run:   func(*session) error { return w.run() },
	}
}

type writerRun struct {
	*session
	sizes, syncs string
	checkpoints  int
	most         time.Duration
	out          string
	draw         bool
}

// batchEvery is how many inserts there are to a batch, and batchKeys the number of its keys.
const (
	batchEvery = 1000
	batchKeys  = 64
)

func (w *writerRun) run() error {
	if (w.out != "" || w.draw) && !strings.HasSuffix(w.out, ".svg") {
		return errors.New("-out is no NAME.svg")
	}
	if w.draw {
		return w.drawn()
	}
	rates := figures.NewTable("lines", "Sync every", "ns an operation", "bytes to the disk an operation", "faults an operation", "syncs, checkpoints", "log", "LongestStall", "checkpoint, median", "recovery of a full log")
	waits := figures.NewTable("lines", "Sync every", "call", "50 %", "99 %", "99.9 %", "99.99 %", "longest")
	first := true
	for word := range strings.SplitSeq(w.sizes, ",") {
		var size figures.Size
		if err := size.Set(word); err != nil {
			return err
		}
		built, err := w.build(int64(size))
		if err != nil {
			return err
		}
		for every := range strings.SplitSeq(w.syncs, ",") {
			n, err := strconv.Atoi(every)
			if err != nil {
				return err
			}
			m, err := w.measure(built, int64(size), n)
			if err != nil {
				return err
			}
			m.report(rates, waits, word, n)
			if first && w.out != "" {
				if err := m.save(writerData(w.out), int64(size), n); err != nil {
					return err
				}
			}
			first = false
		}
		if err := os.Remove(built); err != nil {
			return err
		}
	}
	w.printf("\nA filter with the default options, at its design load: the oldest key is deleted for each that is inserted. The timer commits every %v too. The disk is the whole device's.\n", mmapfilter.DefaultCommitInterval)
	w.print(rates)
	w.print(waits)
	if w.out == "" {
		return nil
	}
	return w.drawn()
}

// drawn draws the picture, and prints its name.
func (w *writerRun) drawn() error {
	err := drawWriter(w.out)
	if err == nil {
		w.printf("Drawn in %s, from %s.\n", w.out, writerData(w.out))
	}
	return err
}

// build builds the file that each measurement of a size begins with a copy of.
func (w *writerRun) build(size int64) (path string, err error) {
	path = w.path("built.mmf")
	n := byDefault.keys(size)
	w.note("%s: building from %s keys", figures.ExactSize(size), figures.Grouped(int64(n)))
	opts := byDefault.options(n)
	opts.Seed = w.seed
	f, err := mmapfilter.Build(w.ctx, path, &opts, numbers(n))
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
	reader, err := w.startReader(path, n)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w.note("%s, Sync every %d: writing", figures.ExactSize(size), every)
	m = new(writerMeasure)
	c := &churner{filter: f, high: n, every: every}
	watch := watchGenerations(path)
	for size := int64(0); ; { // until the log has its size
		if err = c.work(50_000, nil, time.Time{}); err != nil || w.ctx.Err() != nil {
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
	watch.reset()
	device, faults, begun := deviceWritten(path), faultsSoFar(), time.Now()
	c.operations = 0
	for err == nil && w.ctx.Err() == nil && watch.count() < w.checkpoints && time.Since(begun) < w.most {
		err = c.work(10_000, m, begun)
	}
	m.took, m.operations = time.Since(begun), c.operations
	m.device, m.faults = deviceWritten(path)-device, faultsSoFar()-faults
	m.marks = watch.stop(begun)
	m.stats = f.Stats()
	err = errors.Join(err, reader.end(&m.waits[callLookup]), f.Close(), w.ctx.Err())
	if err != nil {
		return nil, err
	}
	w.note("%s, Sync every %d: killing", figures.ExactSize(size), every)
	return m, w.kill(path, c, m)
}

// A churner deletes the oldest key for each that it inserts.
type churner struct {
	filter     *mmapfilter.Filter
	low, high  uint64
	every      int // operations between calls of Sync
	operations int
	unsynced   int
}

// work inserts and deletes n keys each, and times each call if m is not nil.
func (c *churner) work(n int, m *writerMeasure, begun time.Time) error {
	var key [8]byte
	batch := make([][]byte, batchKeys)
	timed := func(call int, operations int, f func() error) error {
		c.operations += operations
		c.unsynced += operations
		if m == nil {
			return f()
		}
		t := time.Now()
		err := f()
		now := time.Now()
		m.waits[call].add(now.Sub(t))
		if call != callSync {
			m.peak(now.Sub(begun), now.Sub(t))
		}
		return err
	}
	remove := func() error {
		binary.LittleEndian.PutUint64(key[:], c.low)
		c.low++
		return timed(callDelete, 1, func() error {
			ok, err := c.filter.Delete(key[:])
			if err == nil && !ok {
				err = errors.New("a key that was inserted is not there")
			}
			return err
		})
	}
	for i := 0; i < n; i++ {
		if err := remove(); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(key[:], c.high)
		c.high++
		if err := timed(callInsert, 1, func() error { return c.filter.Insert(key[:]) }); err != nil {
			return err
		}
		if i%batchEvery == 0 {
			for j := range batch {
				if err := remove(); err != nil {
					return err
				}
				batch[j] = binary.LittleEndian.AppendUint64(nil, c.high)
				c.high++
			}
			if err := timed(callBatch, batchKeys, func() error { _, err := c.filter.InsertBatch(batch); return err }); err != nil {
				return err
			}
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

// A generationWatch notes when the superblock of a file changes: at the end of a checkpoint.
type generationWatch struct {
	ends    chan struct{}
	done    chan struct{}
	changes []time.Time
	n       atomic.Int64
}

func watchGenerations(path string) *generationWatch {
	g := &generationWatch{ends: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(g.done)
		last := uint64(0)
		for {
			select {
			case <-g.ends:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if now := generationOf(path); now != last {
				last = now
				g.changes = append(g.changes, time.Now())
				g.n.Add(1)
			}
		}
	}()
	return g
}

func generationOf(path string) uint64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	var head [layout.OffRuntime]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return 0
	}
	_, sb, _, err := layout.Newest(head[:])
	if err != nil {
		return 0
	}
	return sb.Generation()
}

func (g *generationWatch) count() int { return int(g.n.Load()) }
func (g *generationWatch) reset()     { g.n.Store(0) }

// stop returns when checkpoints ended.
func (g *generationWatch) stop(begun time.Time) (marks []time.Duration) {
	close(g.ends)
	<-g.done
	for _, t := range g.changes {
		if t.After(begun) {
			marks = append(marks, t.Sub(begun))
		}
	}
	return marks
}

// A process is one that this command starts, with its standard input and output.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (w *writerRun) start(role, path string, numbers ...uint64) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{role, path}
	for _, n := range numbers {
		args = append(args, strconv.FormatUint(n, 10))
	}
	p := &process{cmd: exec.CommandContext(w.ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// The roles of these processes.
const (
	readerRole = "writer-reader"
	victimRole = "writer-victim"
)

// runRole runs a role. It reports false if the arguments name none.
func runRole(args []string) (code int, ok bool) {
	if len(args) < 3 || args[0] != readerRole && args[0] != victimRole {
		return 0, false
	}
	var numbers [3]uint64
	for i, word := range args[2:] {
		numbers[i], _ = strconv.ParseUint(word, 10, 64)
	}
	act := runReader
	if args[0] == victimRole {
		act = runVictim
	}
	if err := act(args[1], numbers); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", args[0]+":", err)
		return 2, true
	}
	return 0, true
}

func (w *writerRun) startReader(path string, keys uint64) (*process, error) {
	return w.start(readerRole, path, keys)
}

// readerWarms is how many lookups a reader makes before those that count: they map the file.
const readerWarms = 100_000

// runReader looks a key up now and then, until its standard input ends, and prints how long
// each took, in nanoseconds.
func runReader(path string, numbers [3]uint64) error {
	f, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	var took []time.Duration
	for i := uint64(0); ; i++ {
		select {
		case <-ended:
			out := bufio.NewWriter(os.Stdout)
			for _, d := range took {
				fmt.Fprintln(out, int64(d))
			}
			return errors.Join(out.Flush(), f.Close())
		default:
		}
		if i >= readerWarms {
			time.Sleep(100 * time.Microsecond)
		}
		key := binary.LittleEndian.AppendUint64(nil, peer.Mix(i)%(2*numbers[0]))
		t := time.Now()
		f.Contains(key)
		if i >= readerWarms {
			took = append(took, time.Since(t))
		}
	}
}

// end ends a reader and adds what it has measured.
func (p *process) end(h *histogram) error {
	p.in.Close()
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			break
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64); err == nil {
			h.add(time.Duration(n))
		}
	}
	return p.cmd.Wait()
}

// runVictim writes until it is killed.
func runVictim(path string, numbers [3]uint64) error {
	f, err := mmapfilter.Open(path, nil)
	if err != nil {
		return err
	}
	c := &churner{filter: f, low: numbers[0], high: numbers[1], every: int(numbers[2])}
	for {
		if err := c.work(10_000, nil, time.Time{}); err != nil {
			return err
		}
	}
}

// kill kills a writer when its log is nearly full, and times the recovery.
func (w *writerRun) kill(path string, c *churner, m *writerMeasure) error {
	p, err := w.start(victimRole, path, c.low, c.high, uint64(c.every))
	if err != nil {
		return err
	}
	watch := watchGenerations(path)
	grown := -1 // checkpoints until the log had its size
	begun := time.Now()
	for ; time.Since(begun) < w.most && w.ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		info, err := os.Stat(path + ".stash")
		if grown < 0 && err == nil && info.Size() >= m.stats.LogBytes {
			grown = watch.count()
		}
		if grown >= 0 && watch.count() >= grown+4 {
			break
		}
	}
	marks := watch.stop(begun)
	if n := len(marks); n > 2 {
		time.Sleep((marks[n-1] - marks[n-2]) * 9 / 10)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	p.cmd.Wait()
	begun = time.Now()
	m.recovery, err = mmapfilter.Recover(path)
	m.recovered = time.Since(begun)
	return err
}
