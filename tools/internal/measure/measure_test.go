package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary run as a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		os.Exit(runChild(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// TestHistogramSteps checks that the steps are contiguous, and that none is longer than 1/64 of
// its durations.
func TestHistogramSteps(t *testing.T) {
	for i := range histogramSteps - 1 {
		end := stepEnd(i)
		if step(end) != i || step(end+1) != i+1 {
			t.Fatalf("step %d ends at %d: that is in step %d, and what follows in %d", i, end, step(end), step(end+1))
		}
		if i > 0 && float64(end-stepEnd(i-1)) > math.Max(1, float64(end)/64) {
			t.Fatalf("step %d, from %d to %d, is too long", i, stepEnd(i-1)+1, end)
		}
	}
	if last := step(math.MaxInt64); last >= histogramSteps {
		t.Errorf("the longest duration is in step %d", last)
	}
}

func TestPercentiles(t *testing.T) {
	var low, high histogram
	for i := range 10_000 {
		h := &low
		if i%2 == 1 {
			h = &high
		}
		h.add(time.Duration(i + 1))
	}
	data, err := json.Marshal(&high)
	if err != nil {
		t.Fatal(err)
	}
	var sum, copied histogram
	if err := json.Unmarshal(data, &copied); err != nil {
		t.Fatal(err)
	}
	if copied != high {
		t.Error("a histogram changes on its way between processes")
	}
	sum.merge(&low)
	sum.merge(&copied)
	for p, want := range map[float64]float64{0: 1, 0.5: 5000, 0.99: 9900, 0.999: 9990, 0.9999: 9999, 1: 10_000} {
		if got := float64(sum.percentile(p)); got < want || got > want+1+want/64 {
			t.Errorf("%v: %v, want %v", p, got, want)
		}
	}
	if sum.n != 10_000 || sum.largest != 10_000 || new(histogram).percentile(0.5) != 0 {
		t.Errorf("%d durations up to %d", sum.n, sum.largest)
	}
}

func TestDistinct(t *testing.T) {
	for _, c := range []struct{ pages, touches, want float64 }{{100, 1, 1}, {100, 2, 1.99}, {100, 1e6, 100}, {1e6, 1000, 999.5}} {
		if got := distinct(c.pages, c.touches); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%v touches of %v pages: %v, want %v", c.touches, c.pages, got, c.want)
		}
	}
}

// TestErrors runs commands that must fail. The exit status says so, and the directory stays
// empty.
func TestErrors(t *testing.T) {
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{context.Background(), nil, "share, residency, cold or beside"},
		{context.Background(), []string{"everything"}, "no command"},
		{context.Background(), []string{"beside", "-bytes", "1GB"}, "no size"},
		{context.Background(), []string{"beside", "-rounds", "0"}, "no rounds"},
		{context.Background(), []string{"beside", "more"}, "no argument"},
		{stopped, []string{"beside", "-short"}, "interrupted"},
	} {
		dir := t.TempDir()
		args := c.args
		if len(args) > 1 {
			args = slices.Insert(slices.Clone(args), 1, "-dir", dir)
		}
		var out, notes bytes.Buffer
		if exit := Run(c.ctx, args, &out, &notes); exit != exitError || !strings.Contains(notes.String(), c.want) {
			t.Errorf("%v: exit status %d, %s", c.args, exit, notes.String())
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("%v left %v, %v", c.args, left, err)
		}
	}
}

// TestChild makes another process look up keys, and report a task that fails.
func TestChild(t *testing.T) {
	s := &session{ctx: context.Background()}
	c, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	var v speed
	if err := c.ask("rate", loopArgs{Loop: loopCompute, For: time.Millisecond}, &v); err != nil || v.Clock <= 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := c.ask("open", openArgs{File: filepath.Join(t.TempDir(), "nothing")}, nil); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a file that is not there: %v", err)
	}
	var h histogram
	if err := c.ask("latency", loopArgs{Loop: loopClock, For: time.Millisecond}, &h); err != nil || h.n == 0 {
		t.Errorf("%d looks at the clock, %v", h.n, err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if err := c.ask("nothing", nil, nil); err == nil {
		t.Error("a child that has ended answers")
	}
}
