//go:build unix

package badgerguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// What the child of a kill test gets.
const (
	killDir  = "BADGERGUARD_KILL_DIR"
	killMode = "BADGERGUARD_KILL_MODE"
	killSeed = "BADGERGUARD_KILL_SEED"
)

const killKeys = 8000

// TestKill kills a process that writes to a guarded store, at random points, and looks whether the
// next one finds all that the store has.
func TestKill(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir := t.TempDir()
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		var recovered, rebuilt, replayed, keys, busy int
		for n := range *kills {
			output, err := runAndKill(dir, deletes, rng.Uint64(), time.Duration(50+rng.IntN(600))*time.Millisecond)
			if err != nil {
				t.Fatalf("kill %d: %v\n%s", n, err, output)
			}
			if bytes.Contains(output, []byte("opened")) {
				busy++
			}
			d, err := Open(small(dir), often(deletes))
			if err != nil { // Badger opens a log that it was about to create the second time only
				t.Logf("kill %d: %v", n, err)
				d = mustOpen(t, small(dir), often(deletes))
			}
			if h := hidden(t, d); len(h) > 0 {
				t.Fatalf("kill %d: %d keys are hidden, the first is %q; %+v", n, len(h), h[0], d.GuardStats())
			}
			s := d.GuardStats()
			if s.Err == "" {
				recovered++
			} else {
				t.Logf("kill %d: %s", n, s.Err)
				rebuilt++
			}
			if s.Replayed > 0 {
				replayed++
			}
			if n%3 == 0 {
				keys = mustHideNone(t, d)
			} else {
				waitServing(t, d)
				if h := hidden(t, d); len(h) > 0 {
					t.Fatalf("kill %d: serving, %d keys are hidden, the first is %q; %+v", n, len(h), h[0], d.GuardStats())
				}
			}
			must(t, d.Close())
		}
		t.Logf("%d kills, %d of them of a process that had opened the store: the filter was recovered %d times (with keys from the outbox %d times), and rebuilt %d times; %d keys at the end", *kills, busy, recovered, replayed, rebuilt, keys)
	})
}

// runAndKill runs the child for some time. It returns its output.
func runAndKill(dir string, deletes guard.DeleteMode, seed uint64, after time.Duration) ([]byte, error) {
	var output bytes.Buffer
	c := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	c.Env = append(os.Environ(), killDir+"="+dir, killMode+"="+deletes.String(), killSeed+"="+strconv.FormatUint(seed, 10))
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		return nil, err
	}
	time.Sleep(after)
	c.Process.Kill()
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != -1 {
		return output.Bytes(), fmt.Errorf("the child has ended by itself: %w", err)
	}
	return output.Bytes(), nil
}

// TestKillChild is the process that is killed.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		t.Skip("for the processes that TestKill starts")
	}
	deletes := guard.Rebuild
	if os.Getenv(killMode) == guard.Exact.String() {
		deletes = guard.Exact
	}
	seed, err := strconv.ParseUint(os.Getenv(killSeed), 10, 64)
	must(t, err)
	d := mustOpen(t, small(dir), often(deletes))
	fmt.Println("opened")
	m := d.GetMergeOperator([]byte("merge"), func(a, b []byte) []byte { return b }, 10*time.Millisecond)
	var all sync.WaitGroup
	for g := range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(g)))
			for {
				if err := killStep(d, m, rng); err != nil && !errors.Is(err, badger.ErrConflict) && !errors.Is(err, badger.ErrBlockedWrites) {
					t.Errorf("%v", err)
					return
				}
			}
		}()
	}
	all.Wait()
}

func killStep(d *DB, m *MergeOperator, rng *rand.Rand) error {
	base := rng.IntN(killKeys)
	key := func() []byte { return fmt.Appendf(nil, "key%d", (base+rng.IntN(200))%killKeys) }
	value := make([]byte, rng.IntN(3)*rng.IntN(800))
	some := func(set func(k, v []byte) error, remove func(k []byte) error, n int) error {
		for range n {
			var err error
			if rng.IntN(2) == 0 {
				err = remove(key())
			} else {
				err = set(key(), value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	switch r := rng.IntN(1000); {
	case r < 800:
		return d.Update(func(txn *Txn) error {
			if _, err := txn.Get(key()); err != nil && err != badger.ErrKeyNotFound {
				return err
			}
			return some(txn.Set, txn.Delete, 1+rng.IntN(20))
		})
	case r < 900:
		b := d.NewWriteBatch()
		defer b.Cancel()
		if err := some(b.Set, b.Delete, 1+rng.IntN(200)); err != nil {
			return err
		}
		return b.Flush()
	case r < 940:
		return m.Add([]byte("m"))
	case r < 980:
		s, err := d.GetSequence(fmt.Appendf(nil, "sequence%d", rng.IntN(20)), 2)
		if err != nil {
			return err
		}
		_, err = s.Next()
		return err
	case r < 990:
		return d.Guard().Rebuild(context.Background())
	case r < 993:
		return d.DropPrefix(fmt.Appendf(nil, "key%d", 10+rng.IntN(90)))
	}
	return d.View(func(txn *Txn) error {
		for range 50 {
			if _, err := txn.Get(key()); err != nil && err != badger.ErrKeyNotFound {
				return err
			}
		}
		return nil
	})
}
