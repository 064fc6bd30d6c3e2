package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

// TestTooManyRecords checks that a run takes no more records than the number in a marker can be.
func TestTooManyRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	input := []string{"a", "b", "c", "d", "e"}
	m := prepare(t, addRun, input)
	m.passed.records = maxRecords - 3
	err := m.run(context.Background())
	if want := "standard input: record 4: a run takes at most 68,719,476,735 records; give the rest to another run"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if got, want := contentsHere(t, input), (contents{}).with(addRun, input[:3]); !maps.Equal(got, want) {
		t.Errorf("holds %v, want %v", got, want)
	}
	if exit, stdout, stderr := runHere(nil, "info", "f.mmf"); !strings.Contains(stdout, "\ninput           add, 68,719,476,735 records, not ended\n") {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
}

// TestDiskFull checks that the error about a full disk says how much of the input is durable, and that
// the run can be resumed once there is room.
func TestDiskFull(t *testing.T) {
	input := []string{"a", "b", "c", "d", "e"}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		for syncs, want := range []string{"nothing was changed", "nothing was changed", "2 keys are durable; --resume continues", "4 keys are durable; --resume continues"} {
			t.Chdir(t.TempDir())
			createHere(t, "1k")
			m := prepare(t, addRun, input, "--sync-every", "2")
			m.to = &fullLog{m.to, syncs, full}
			err := m.run(context.Background())
			if want := "f.mmf: disk full while writing f.mmf.stash; " + want; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			if !m.lost {
				t.Error("the run claims that all keys are kept")
			}
			if exit, _, stderr := runHere(strings.NewReader(lines(input)), "add", "--resume", "f.mmf"); exit != 0 {
				t.Error(stderr)
			}
			if got, want := contentsHere(t, input), (contents{}).with(addRun, input); !maps.Equal(got, want) {
				t.Errorf("holds %v, want %v", got, want)
			}
		}
	}
}

// A fullLog is a filter whose log cannot grow after some syncs.
type fullLog struct {
	writable
	syncs int
	full  error
}

func (l *fullLog) SyncAt(seq uint64) error {
	if l.syncs--; l.syncs < 0 {
		return fmt.Errorf("%w: grow the log: %w", mmapfilter.ErrFailed, l.full)
	}
	return l.writable.SyncAt(seq)
}

// TestPastCapacity checks that a run reports once that the capacity is exceeded, and with the rate at
// that time. Keys that are not durable yet are included.
func TestPastCapacity(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "20k", "--seed", "1", "f.mmf")
	keys := numbered(21_050)
	for _, c := range []struct {
		from, to int
		said     bool
	}{{0, 20_000, false}, {20_000, 20_001, true}, {20_001, 21_050, true}} {
		exit, _, stderr := runHere(strings.NewReader(lines(keys[c.from:c.to])), "add", "--log-bytes", "16MiB", "f.mmf")
		said := regexp.MustCompile(`^mmapfilter: f\.mmf: over capacity: it holds 2\d,\d{3} keys and was sized for 20,000; its rate is now about (0\.\d+) \(0\.01 was asked for\) and rises with each key\n$`).FindStringSubmatch(stderr)
		if exit != 0 || (said != nil) != c.said || !c.said && stderr != "" {
			t.Fatalf("up to %d: exit %d, %s", c.to, exit, stderr)
		}
		if !c.said {
			continue
		}
		filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
		noError(t, err)
		rate := filter.Stats().EstimatedRate
		filter.Close()
		if r, err := strconv.ParseFloat(said[1], 64); err != nil || r < rate*0.85 || r > rate*1.1 { // the rate rises until the run ends
			t.Errorf("the message says a rate of %s, but it is %g", said[1], rate)
		}
	}
	if exit, _, stderr := runHere(strings.NewReader("key 1\n"), "del", "f.mmf"); exit != 0 || stderr != "" {
		t.Error(exit, stderr)
	}
}

// TestProgressOfPipe checks that a run shows how many records it has read from a pipe, but shows no bar
// if keys may be typed.
func TestProgressOfPipe(t *testing.T) {
	terminal := aTerminal(t)
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	for _, c := range []struct {
		stdin io.Reader
		want  bool
	}{{strings.NewReader("a\n"), true}, {terminal, false}} {
		cmd := &cobra.Command{Use: "add"}
		cmd.SetIn(c.stdin)
		cmd.SetErr(terminal)
		a := new(addCommand)
		a.addTo(cmd.Flags())
		run, err := newMutation(cmd, &a.mutationFlags, addRun, []string{"f.mmf"})
		noError(t, err)
		if (run.bar.terminal != nil) != c.want {
			t.Errorf("want a bar: %v", c.want)
		}
		if c.want {
			run.bar.start = run.bar.start.Add(-progressDelay)
			if err := run.run(context.Background()); err != nil || run.bar.stage != "adding" || run.bar.total != 0 {
				t.Errorf("%v, stage %q of %d", err, run.bar.stage, run.bar.total)
			}
		} else if err := run.filter.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		n    int64
		took time.Duration
		want string
	}{{0, 0, "0 records, 0 a second"}, {1, time.Second, "1 record, 1 a second"}, {12_345, 10 * time.Second, "12,345 records, 1,234 a second"}} {
		if got := formatSpeed(c.n, c.took); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// numbered returns n keys.
func numbered(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("key %d", i))
	}
	return keys
}
