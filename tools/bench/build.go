package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
	"github.com/zeebo/xxh3"
)

// newBuild returns the command that measures building files from 64-bit keys.
func newBuild() command {
	b := new(buildRun)
	return command{
		flags: func(s *session) {
			b.session = s
			s.rounds = 3
			b.choice.flags(s)
			s.flags.StringVar(&b.sizes, "keys", "10M,100M", "how many keys, comma-separated: 500000, 10M or 2B; -size does not count")
			s.flags.Uint64Var(&b.most, "most", 200_000_000, "beside other filters only up to so many keys, for their memory")
		},
		short: map[string]string{"keys": "50000", "rounds": "1"},
		run:   func(*session) error { return b.run() },
	}
}

type buildRun struct {
	*session
	choice choice
	sizes  string
	most   uint64
}

// parseCounts parses a list such as 500000,10M,2B.
func parseCounts(text string) (counts []uint64, err error) {
	for word := range strings.SplitSeq(text, ",") {
		factor := uint64(1)
		digits := word
		for suffix, f := range map[string]uint64{"K": 1e3, "M": 1e6, "B": 1e9} {
			if d, ok := strings.CutSuffix(word, suffix); ok {
				digits, factor = d, f
			}
		}
		n, err := strconv.ParseUint(digits, 10, 32)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q is no number of keys such as 500000, 10M or 2B", word)
		}
		counts = append(counts, n*factor)
	}
	return counts, nil
}

func (b *buildRun) run() error {
	counts, err := parseCounts(b.sizes)
	if err != nil {
		return err
	}
	peers, err := b.choice.chosen(goPeers(defaultRate))
	if err != nil {
		return err
	}
	b.printf("\nOn %d processors. Keys of 8 bytes; others take keys of %d bytes, each processor in a filter of its own, or one in one, without the time for making the keys.\n", runtime.GOMAXPROCS(0), peer.KeyBytes)
	for _, n := range counts {
		if err := b.measure(n, peers); err != nil {
			return err
		}
	}
	return nil
}

// A step is timed for n keys. It returns the time and a note.
type step struct {
	name string
	run  func() (time.Duration, string, error)
}

func (b *buildRun) measure(n uint64, peers []spec) error {
	var steps []step
	for _, v := range variants() {
		steps = append(steps, step{"Build, " + v.name(), func() (time.Duration, string, error) { return b.build(v, n) }})
	}
	steps = append(steps,
		step{"to hash the keys, one processor", func() (time.Duration, string, error) { return hashKeys(n), "", nil }},
		step{"to write a file of the first size and sync it", func() (time.Duration, string, error) { return b.write(n) }})
	if n <= b.most {
		for _, spec := range peers {
			steps = append(steps,
				step{spec.name, func() (time.Duration, string, error) { return b.parallel(spec, n, uint64(runtime.GOMAXPROCS(0))) }},
				step{spec.name + ", one processor", func() (time.Duration, string, error) { return b.parallel(spec, n, 1) }})
		}
	}
	notes := make([]string, len(steps))
	times, err := b.takeTurns(len(steps), func(i int) (float64, error) {
		b.note("%s keys: %s", figures.Grouped(int64(n)), steps[i].name)
		took, note, err := steps[i].run()
		notes[i] = note
		forget()
		return took.Seconds(), err
	})
	if err != nil {
		return err
	}
	t := figures.NewTable(figures.Grouped(int64(n))+" keys", "seconds", "ns a key", "keys a second", "keys a second over the first", "peak memory")
	for i, st := range steps {
		m := figures.Median(times[i])
		t.Row(st.name, figures.Digits(m), figures.Digits(1e9*m/float64(n)), figures.Grouped(int64(float64(n)/m)), "**"+figures.Digits(figures.MedianRatio(times[0], times[i]))+"**", notes[i])
	}
	b.print(t)
	return nil
}

// builderCommand makes this program build one file. Each build has its own process, since peak
// memory is measured per process.
const builderCommand = "builder"

func (b *buildRun) build(v variant, n uint64) (time.Duration, string, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, "", err
	}
	path := b.path("build.mmf")
	defer os.Remove(path)
	command := exec.CommandContext(b.ctx, self, builderCommand, path, v.String(), fmt.Sprint(n))
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return 0, "", fmt.Errorf("build in a process of its own: %w", err)
	}
	took, peak, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	nanoseconds, err := strconv.ParseInt(took, 10, 64)
	return time.Duration(nanoseconds), peak, err
}

// runBuilder builds a file, and prints the nanoseconds it took and the peak memory of the
// process. Its arguments are PATH LAYOUT KEYS.
func runBuilder(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	took, err := buildFile(ctx, args)
	if err != nil {
		fmt.Fprintln(stderr, "bench builder:", err)
		return 2
	}
	fmt.Fprintln(stdout, took.Nanoseconds(), machine.PeakMemory())
	return 0
}

func buildFile(ctx context.Context, args []string) (time.Duration, error) {
	if len(args) != 3 {
		return 0, errors.New("it takes PATH LAYOUT KEYS")
	}
	n, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return 0, err
	}
	var one variantList
	if err := one.Set(args[1]); err != nil {
		return 0, err
	}
	opts := one[0].options(n)
	opts.MemoryBudget = 0
	begun := time.Now()
	f, err := mmapfilter.Build(ctx, args[0], &opts, numbers(n))
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	return took, f.Close()
}

// numbers yields n keys of 8 bytes.
func numbers(n uint64) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := range n {
			binary.LittleEndian.PutUint64(key[:], i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

func hashKeys(n uint64) time.Duration {
	begun, sum := time.Now(), uint64(0)
	for key := range numbers(n) {
		sum += xxh3.Hash(key)
	}
	runtime.KeepAlive(sum) // keeps the compiler from dropping the loop
	return time.Since(begun)
}

// write writes as many bytes as the file has, and syncs them to disk.
func (b *buildRun) write(n uint64) (took time.Duration, note string, err error) {
	opts := byDefault.options(n)
	plan, err := opts.Plan()
	if err != nil {
		return 0, "", err
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(peer.Mix(uint64(i)))
	}
	path := b.path("write")
	defer os.Remove(path)
	begun := time.Now()
	f, err := os.Create(path)
	if err != nil {
		return 0, "", err
	}
	for left := plan.FileBytes; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	err = errors.Join(err, f.Sync())
	took = time.Since(begun)
	return took, "", errors.Join(err, f.Close())
}

// parallel runs goroutines that each fill a filter with their share of the keys. It returns the
// time of the slowest.
func (b *buildRun) parallel(spec spec, n, workers uint64) (longest time.Duration, note string, err error) {
	took, errs := make([]time.Duration, workers), make([]error, workers)
	accepted := make([]uint64, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			took[w], accepted[w], errs[w] = b.fill(spec, w*(n/workers), n/workers)
		}()
	}
	group.Wait()
	sum := uint64(0)
	for w := range workers {
		longest = max(longest, took[w])
		sum += accepted[w]
	}
	if all := n / workers * workers; sum < all {
		note = fmt.Sprintf("refused a key after %s", figures.Grouped(int64(sum)))
	}
	return longest, note, errors.Join(errs...)
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
