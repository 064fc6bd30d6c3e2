package readers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

const (
	speedBytes  = 200 << 20 // of a filter
	speedRounds = 15
	speedBlock  = 1 << 14 // as in probe.c
	speedBlocks = 16
)

// speedKey is the key that the command "bench" of the probe makes.
func speedKey(key []byte, i uint64) {
	z := i + 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	binary.LittleEndian.PutUint64(key, z^z>>31)
	binary.LittleEndian.PutUint64(key[8:], i)
}

// TestSpeed measures lookups in C and in Go, without its kernels, in turns, in a filter of 200 MiB
// of each layout: single ones and batches, of absent keys and of present ones. C may take 1.1 times
// as long.
//
//	go test ./tools/readers -run TestSpeed -speed -v -timeout 30m
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("no -speed")
	}
	fastest := kernel.InUse().String()
	must(t, kernel.Use(kernel.Go.String()))
	defer kernel.Use(fastest)
	v := variant{compiler(t), plain}
	table := figures.NewTable("layout", "batch", "keys", "C, ns a key", "Go, ns a key", "C / Go")
	for _, opts := range []mmapfilter.Options{
		{},
		{FalsePositiveRate: 1e-6},
		{FalsePositiveRate: 1e-4},
		{Layout: layout.Packed, FingerprintBits: 12},
		{Layout: layout.SemiSorted, FingerprintBits: 13},
	} {
		f, path, n := speedFilter(t, opts)
		ask := speedProbe(t, v, path)
		rng := rand.New(rand.NewPCG(1, 2))
		absent := uint64(1) << 40
		for _, batch := range []int{1, 1024} {
			for _, present := range []bool{false, true} {
				var c, inGo []float64
				for round := range speedRounds + 1 {
					from := func() uint64 {
						if present {
							return rng.Uint64N(n - speedBlock*speedBlocks)
						}
						absent += speedBlock * speedBlocks
						return absent
					}
					// In turns, and one or the other first.
					times := [2]float64{}
					for i := range 2 {
						if which := (i + round) % 2; which == 0 {
							times[0] = ask(batch, from(), present)
						} else {
							times[1] = speedOfGo(t, f, batch, from(), present)
						}
					}
					if round > 0 { // the first is to warm up
						c, inGo = append(c, times[0]), append(inGo, times[1])
					}
				}
				ratio := figures.MedianRatio(c, inGo)
				name := map[bool]string{false: "absent", true: "present"}[present]
				table.Row(fmt.Sprintf("%v, %v", f.Stats().Layout, f.Stats().TargetRate), fmt.Sprint(batch), name,
					figures.Digits(figures.Median(c)), figures.Digits(figures.Median(inGo)), fmt.Sprintf("%.2f", ratio))
				if ratio > 1.1 {
					t.Errorf("%v, batch %d, %s: C takes %.2f times as long as Go", f.Stats().Layout, batch, name, ratio)
				}
			}
		}
		f.Close()
	}
	t.Logf("\n%s", table)
}

// speedFilter builds a filter of about speedBytes.
func speedFilter(t *testing.T, opts mmapfilter.Options) (f *mmapfilter.Filter, path string, n uint64) {
	t.Helper()
	opts.Capacity = 1_000_000
	plan, err := opts.Plan()
	must(t, err)
	n = uint64(float64(speedBytes) / float64(plan.FileBytes) * float64(opts.Capacity))
	opts.Capacity = n
	path = filepath.Join(t.TempDir(), "speed.mmf")
	f, err = mmapfilter.Build(context.Background(), path, &opts, func(yield func([]byte, error) bool) {
		key := make([]byte, 16)
		for i := range n {
			if speedKey(key, i); !yield(key, nil) {
				return
			}
		}
	})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, path, n
}

func speedProbe(t *testing.T, v variant, path string) func(batch int, from uint64, present bool) float64 {
	t.Helper()
	cmd := exec.Command(probe(t, v), "bench", path)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(io.Reader(out))
	return func(batch int, from uint64, present bool) (ns float64) {
		t.Helper()
		found := 0
		fmt.Fprintln(in, batch, from)
		if _, err := fmt.Fscan(lines, &ns, &found); err != nil {
			t.Fatal(err)
		}
		checkFound(t, found, present)
		return ns
	}
}

func checkFound(t *testing.T, found int, present bool) {
	t.Helper()
	if all := speedBlock * speedBlocks; present && found != all || !present && found > all/50 {
		t.Fatalf("%d of %d keys found", found, all)
	}
}

// speedOfGo is what bench in probe.c does.
func speedOfGo(t *testing.T, f *mmapfilter.Filter, batch int, from uint64, present bool) float64 {
	t.Helper()
	keys, found := make([][]byte, speedBlock), make([]bool, speedBlock)
	all := make([]byte, 16*speedBlock)
	for i := range keys {
		keys[i] = all[16*i : 16*i+16]
	}
	var took time.Duration
	sum := 0
	for range speedBlocks {
		for i := range keys {
			speedKey(keys[i], from)
			from++
		}
		begun := time.Now()
		if batch == 1 {
			for i, key := range keys {
				found[i] = f.Contains(key)
			}
		} else {
			for i := 0; i < speedBlock; i += batch {
				f.ContainsBatch(keys[i:i+batch], found[i:i+batch])
			}
		}
		took += time.Since(begun)
		for _, in := range found {
			if in {
				sum++
			}
		}
	}
	checkFound(t, sum, present)
	return float64(took.Nanoseconds()) / (speedBlock * speedBlocks)
}
