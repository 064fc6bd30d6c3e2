//go:build unix

package pebbleguard

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var kills = flag.Int("kills", 10, "kills of TestKill")

const (
	killVar     = "PEBBLEGUARD_KILL" // what the child process is to do: a directory, a mode, a seed
	killKeys    = 4000
	killWorkers = 4
	enoughKills = 20 // to say that most lead to a rebuild
)

// killOptions have the filter commit often, now and then, or hardly ever.
func killOptions(deletes guard.DeleteMode, seed uint64) (*pebble.Options, *guard.Options) {
	o := newest()
	interval := []time.Duration{2 * time.Millisecond, 50 * time.Millisecond, time.Hour}[seed%3]
	o.MemTableSize = 256 << 10
	return o, &guard.Options{Capacity: 500, Deletes: deletes, CommitInterval: interval}
}

// TestKillHelper runs in the child process: it says that the store is open, and writes until it is
// killed.
func TestKillHelper(t *testing.T) {
	text := os.Getenv(killVar)
	if text == "" {
		t.Skip("for the process that TestKill starts")
	}
	part := strings.Split(text, "\n")
	mode, _ := strconv.Atoi(part[1])
	seed, _ := strconv.ParseUint(part[2], 10, 64)
	o, g := killOptions(guard.DeleteMode(mode), seed)
	d, err := Open(part[0], o, g)
	if err == nil {
		fmt.Println("open")
		var group sync.WaitGroup
		for w := range killWorkers {
			group.Add(1)
			go func() {
				defer group.Done()
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				for {
					if err := killStep(d, rng, filepath.Join(part[0], fmt.Sprint("ingest", w))); err != nil {
						fmt.Fprintln(os.Stderr, err)
						os.Exit(3)
					}
				}
			}()
		}
		group.Wait()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

func killKey(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(1+i)) }

func killStep(d *DB, rng *rand.Rand, file string) error {
	ctx, o := context.Background(), pebble.NoSync
	if rng.IntN(50) == 0 {
		o = pebble.Sync
	}
	from := rng.IntN(killKeys)
	to := min(killKeys, from+1+rng.IntN(50))
	switch r := rng.IntN(1000); {
	case r < 2:
		return d.Guard().Rebuild(ctx)
	case r < 4:
		return d.Guard().Work()
	case r < 6:
		return d.Flush()
	case r < 10:
		return d.DeleteRange(killKey(from), killKey(to), o)
	case r < 12:
		return d.Excise(ctx, pebble.KeyRange{Start: killKey(from), End: killKey(to)})
	case r < 16:
		err := writeTable(file, func(w *sstable.Writer) (err error) {
			for i := from; i < to && err == nil; i++ {
				err = w.Set(killKey(i), nil)
			}
			return err
		})
		if err != nil {
			return err
		}
		if r < 14 {
			return d.Ingest(ctx, []string{file})
		}
		_, err = d.IngestAndExcise(ctx, []string{file}, nil, nil, pebble.KeyRange{Start: killKey(from), End: killKey(to)})
		return err
	}
	b := d.NewBatch()
	defer b.Close()
	for range 1 + rng.IntN(20) {
		k := killKey(rng.IntN(killKeys))
		err := error(nil)
		if rng.IntN(2) == 0 {
			err = b.Set(k, nil, nil)
		} else {
			err = b.Delete(k, nil)
		}
		if err != nil {
			return err
		}
	}
	return b.Commit(o)
}

// kill starts a child and kills it after a while, atOpen maybe before it has opened the store.
func kill(t *testing.T, dir string, deletes guard.DeleteMode, seed uint64, after time.Duration, atOpen bool) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestKillHelper$")
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d", killVar, dir, deletes, seed))
	out, err := c.StdoutPipe()
	must(t, err)
	var said strings.Builder
	c.Stderr = &said
	must(t, c.Start())
	if !atOpen {
		if n, err := out.Read(make([]byte, 5)); err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	time.Sleep(after)
	c.Process.Kill()
	err = c.Wait()
	exit := new(exec.ExitError)
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return
		}
	}
	t.Fatalf("%v: %s", err, said.String())
}

// TestKill kills a process that writes, again and again, and looks for keys that are hidden
// afterwards (C9).
func TestKill(t *testing.T) {
	for _, deletes := range bothModes {
		t.Run(deletes.String(), func(t *testing.T) {
			dir, seed := t.TempDir(), rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			recovered, rebuilt, replayed, keys := 0, 0, uint64(0), 0
			// Some kills fall into a rebuild, and of a few all may: more of them tell.
			for i := 0; i < max(1, *kills/2) || rebuilt > recovered && i < enoughKills; i++ {
				kill(t, dir, deletes, rng.Uint64(), time.Duration(rng.IntN(150))*time.Millisecond, rng.IntN(5) == 0)
				o, g := killOptions(deletes, rng.Uint64())
				d := mustOpen(t, dir, o, g)
				n, err := hidden(d)
				if err != nil {
					t.Fatalf("kill %d: %v", i, err)
				}
				s := d.GuardStats()
				if s.State == "serving" && s.Err == "" {
					recovered++
				} else {
					rebuilt++
				}
				replayed += s.Replayed
				keys += n
				if rng.IntN(2) == 0 {
					must(t, d.Guard().Rebuild(t.Context()))
					if _, err := hidden(d); err != nil {
						t.Fatalf("kill %d, after a rebuild: %v", i, err)
					}
				}
				must(t, d.Close())
			}
			t.Logf("%d recovered, %d rebuilt, %d keys replayed from the outbox, %d keys looked for", recovered, rebuilt, replayed, keys)
			if rebuilt > recovered {
				t.Errorf("a kill is no reason to rebuild the filter")
			}
		})
	}
}
