//go:build unix

package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// killRoles are the roles of the child processes of a kill test.
var killRoles = map[string]func(k *killTest) error{
	"writer": (*killTest).write,
	"reader": (*killTest).read,
}

// TestKillHelper runs in the child processes.
func TestKillHelper(t *testing.T) {
	k, err := killRole()
	if k == nil {
		t.Skip("for the processes that the other tests start")
	}
	if err == nil {
		name, arg, _ := strings.Cut(k.role, ":")
		k.arg = arg
		err = killRoles[name](k)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", k.role, err)
		os.Exit(3)
	}
	os.Exit(0)
}

// A child is a child process.
type child struct {
	*exec.Cmd
	output bytes.Buffer
	ended  chan struct{}
	err    error
}

func (k *killTest) start(role string) (*child, error) {
	return startChild("TestKillHelper", k.environment(role))
}

// startChild runs a test of this program in a process of its own.
func startChild(test string, environment []string) (*child, error) {
	c := &child{Cmd: exec.Command(os.Args[0], "-test.run=^"+test+"$"), ended: make(chan struct{})}
	c.Env = environment
	c.Stdout, c.Stderr = &c.output, &c.output
	if err := c.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = c.Wait()
		close(c.ended)
	}()
	return c, nil
}

// kill kills the process and reports whether the kill ended it. The error is what the process
// found wrong, if anything.
func (c *child) kill() (killed bool, err error) {
	c.Process.Kill()
	return c.wait()
}

// wait waits for the process to end.
func (c *child) wait() (killed bool, err error) {
	<-c.ended
	if c.err == nil {
		return false, nil
	}
	exit := new(exec.ExitError)
	if errors.As(c.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true, nil
		}
	}
	return false, fmt.Errorf("%w\n%s", c.err, c.output.Bytes()[:min(c.output.Len(), 3000)])
}

func (c *child) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// write continues the stream where the file ends, until it is killed.
func (k *killTest) write() error {
	f, n, err := k.open()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(k.seed, k.cycle))
	k.each(n, func(n int, op streamOp) bool {
		if err = k.do(f, n, op); err != nil {
			return false
		}
		switch r := rng.IntN(1000); {
		case r < 100:
			err = f.SyncAt(uint64(n + 1))
		case r < 200:
			err = f.Sync()
		case r < 205:
			err = f.Checkpoint(context.Background())
		case r < 207:
			err = f.Seal(context.Background())
		case r < 209:
			if err = f.Close(); err == nil {
				f, _, err = k.open()
			}
		default:
			return true
		}
		if err == nil {
			k.page.set(pageAcked, n+1)
		}
		return err == nil
	})
	return err
}

// do runs operation n.
func (k *killTest) do(f *Filter, n int, op streamOp) error {
	k.page.set(pageIssued, max(n+1, k.page.get(pageIssued)))
	if op.delete {
		if ok, err := f.Delete(keyBytes(op.key)); err != nil || !ok {
			return fmt.Errorf("operation %d: delete: %t, %v", n, ok, err)
		}
	} else if err := f.Insert(keyBytes(op.key)); err != nil {
		return fmt.Errorf("operation %d: %w", n, err)
	}
	k.page.set(pageReturned, n+1)
	return nil
}

// open opens the filter for writing and checks it. Every other writer also commits in the
// background.
func (k *killTest) open() (f *Filter, n int, err error) {
	interval := time.Duration(-1)
	if k.cycle%2 == 1 {
		interval = time.Millisecond
	}
	f, err = Open(k.path, &OpenOptions{CommitInterval: interval, LogBytes: wal.MinBytes})
	if err != nil {
		return nil, 0, err
	}
	n, err = k.check(f)
	return f, n, err
}

// read asserts, from before the first writer until after the last, that every key that is
// acknowledged and not being deleted is found.
func (k *killTest) read() error {
	f, err := OpenReadOnly(k.path, &OpenOptions{Checked: k.cycle%2 == 1})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(k.seed, k.cycle))
	for k.page.get(pageStop) == 0 {
		acked := k.page.get(pageAcked)
		keys, _ := k.state(acked)
		for key, copies := range keys {
			if copies > 0 && !f.Contains(keyBytes(key)) {
				// Operations issued since may have deleted it.
				issued := k.page.get(pageIssued)
				if copies > k.deletes(key, acked, issued) {
					return fmt.Errorf("key %x, of which %d copies were acknowledged with operation %d, is missing; %d are issued, %d returned",
						key, copies, acked, issued, k.page.get(pageReturned))
				}
			}
		}
		for range 100 {
			if !f.Contains(keyBytes(rng.Uint64())) {
				k.page.add(pageNegatives+int(k.cycle), 1)
			}
		}
		k.page.add(pageRounds+int(k.cycle), 1)
		time.Sleep(100 * time.Microsecond) // leaves time to the writer
	}
	return f.Err()
}

// newKillTest makes a filter that the stream fills to 97 to 107 % of its slots, so that items
// are moved and the stash is used.
func newKillTest(t *testing.T, s shape, seed uint64) *killTest {
	t.Helper()
	k := &killTest{path: filepath.Join(t.TempDir(), "f")}
	opts := s.options(Options{Capacity: 1200})
	f, err := Create(k.path, &opts)
	if err != nil {
		t.Fatal(err)
	}
	k.stream = stream{seed: seed, delay: int(f.Stats().Slots)/blockKeys + 1}
	if k.page, err = openPage(k.path + "-page"); err != nil {
		t.Fatal(err)
	}
	k.each(0, func(n int, op streamOp) bool {
		if err := k.do(f, n, op); err != nil {
			t.Fatal(err)
		}
		return n+1 < blockKeys*k.delay
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	k.page.set(pageAcked, k.page.get(pageReturned))
	return k
}

// recover recovers the file in one of the possible ways and checks it.
func (k *killTest) recover(rng *rand.Rand) error {
	switch rng.IntN(3) {
	case 0:
		if _, err := Recover(k.path); err != nil {
			return err
		}
	case 1:
		f, err := OpenReadOnly(k.path, nil)
		if err != nil {
			return err
		}
		f.Close()
	}
	f, _, err := k.open()
	if err != nil {
		return err
	}
	k.stashLen = max(k.stashLen, f.Stats().StashLen)
	if err := f.Close(); err != nil {
		return err
	}
	_, err = Verify(context.Background(), k.path)
	return err
}

const killReaders = 2

// TestKill kills a writer again and again, at random moments, while other processes read (C1,
// C2). Sometimes the test recovers the file; otherwise the next writer must, which is killed as
// well.
func TestKill(t *testing.T) {
	cycles := 300
	if testing.Short() {
		cycles = 50
	}
	// One of each layout, plus the shortest and the longest remainders of Compact.
	tables := append(oneEach(), newCompact(49, 4), compact26)
	rounds := len(tables)
	seed := rand.Uint64()
	for round, c := range tables {
		t.Run(c.String(), func(t *testing.T) {
			t.Logf("seed %d", seed)
			k := newKillTest(t, c, seed+uint64(round))
			k.run(t, cycles/rounds)
		})
	}
}

func (k *killTest) run(t *testing.T, cycles int) {
	rng := rand.New(rand.NewPCG(k.seed, 1<<63))
	var readers [killReaders]*child
	for i := range readers {
		k.cycle = uint64(i)
		var err error
		if readers[i], err = k.start("reader"); err != nil {
			t.Fatal(err)
		}
		defer readers[i].kill()
		k.await(readers[i], pageRounds+i, 1)
	}
	recovered, early := 0, 0
	for cycle := range cycles {
		k.cycle = uint64(cycle)
		before := k.page.get(pageReturned)
		w, err := k.start("writer")
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			k.await(w, pageReturned, before+rng.IntN(200))
			time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
		} else {
			time.Sleep(time.Duration(rng.IntN(12_000)) * time.Microsecond)
		}
		if killed, err := w.kill(); err != nil || !killed {
			t.Fatalf("cycle %d: killed: %t, %v", cycle, killed, err)
		}
		if k.page.get(pageReturned) == before {
			early++
		}
		if rng.IntN(4) == 0 {
			recovered++
			if err := k.recover(rng); err != nil {
				t.Fatalf("cycle %d: %v", cycle, err)
			}
		}
		for i, r := range readers {
			if !r.running() {
				_, err := r.wait()
				t.Fatalf("cycle %d: reader %d: %v", cycle, i, err)
			}
		}
	}
	if err := k.recover(rng); err != nil {
		t.Fatal(err)
	}
	for i, r := range readers {
		k.await(r, pageRounds+i, k.page.get(pageRounds+i)+2) // a whole one after the last writer
	}
	k.page.set(pageStop, 1)
	for i, r := range readers {
		if _, err := r.wait(); err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
		if k.page.get(pageNegatives+i) == 0 {
			t.Errorf("reader %d has never said no", i)
		}
		t.Logf("reader %d: %d rounds, %d times no", i, k.page.get(pageRounds+i), k.page.get(pageNegatives+i))
	}
	t.Logf("%d cycles, %d operations, up to %d entries in the stash; %d were recovered at once, and in %d the writer was killed before its first operation",
		cycles, k.page.get(pageReturned), k.stashLen, recovered, early)
}

// await waits until a word reaches a value, or the process ends.
func (k *killTest) await(c *child, word, value int) {
	for k.page.get(word) < value && c.running() {
		time.Sleep(50 * time.Microsecond)
	}
}
