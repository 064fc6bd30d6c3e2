//go:build faults

package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A replaceRun does operations at each writing call of a rebuild, unless operations wait at this call.
type replaceRun struct {
	*testing.T
	f          *Filter
	path       string
	next       uint64 // the next key
	in         map[uint64]bool
	operations uint64
	since      pastCounts        // the counts after the first keys
	reached    map[uint64]uint64 // operations since the SyncAt, by number of a position
	mu         sync.Mutex        // several goroutines make calls
	busy       atomic.Bool       // a function of watch is running
	calls      []string
	kills      []replaceKill
}

// A replaceKill is what a process leaves if it is killed at a call.
type replaceKill struct {
	call, path string
	in         []uint64
	operations uint64
}

func newReplaceRun(t *testing.T) *replaceRun {
	r := &replaceRun{T: t, in: make(map[uint64]bool), reached: make(map[uint64]uint64), path: filepath.Join(memoryDir(t), "f.mmf")}
	f, err := Create(r.path, &Options{Capacity: 3000, KeepChanges: time.Hour, Seed: 1})
	must(t, err)
	must(t, f.Close()) // with RequireHashes, it does not go on without hashes if a call fails
	r.f = mustOpen(t, r.path, &OpenOptions{RequireHashes: true, CommitInterval: time.Hour})
	for range 100 {
		r.insert()
	}
	must(t, r.f.SyncAt(17))
	r.since = pastCounts{r.f.Position(), r.counts(slices.Collect(maps.Keys(r.in)))}
	r.operations = 0
	r.insert()
	must(t, r.f.Rebuild(context.Background(), nil)) // makes NAME.past
	r.insert()
	r.reach()
	return r
}

// watch runs a function at each writing call, except at calls that the function makes itself. Of several
// writes in a row, only the first counts.
func (r *replaceRun) watch(at func(call string) error) {
	r.Cleanup(func() { fault.Hook = nil })
	fault.Hook = func(call string) error {
		if r.busy.Load() {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if last := len(r.calls) - 1; last >= 0 && call == "write" && r.calls[last] == call {
			return nil
		}
		r.busy.Store(true)
		defer r.busy.Store(false)
		r.calls = append(r.calls, call)
		return at(call)
	}
}

// counts returns the counts of keys that the filter has once each.
func (r *replaceRun) counts(keys []uint64) counts {
	c := counts{}
	for _, key := range keys {
		c.add(r.f.hash.Hash(numberKey(key)), 1)
	}
	return c
}

// idle reports whether an operation would not wait now.
func (r *replaceRun) idle() bool { return r.f.open.Load().work.Writer.Idle() }

func (r *replaceRun) insert() {
	must(r, r.f.Insert(numberKey(r.next)))
	r.in[r.next] = true
	r.next++
	r.operations++
}

// each does operations of every kind. The last one must change something, because operations that change
// nothing may be lost in a kill.
func (r *replaceRun) each() {
	defer r.insert()
	if n, err := r.f.InsertBatch([][]byte{numberKey(r.next), numberKey(r.next + 1)}); n != 2 || err != nil {
		r.Fatal(n, err)
	}
	r.in[r.next], r.in[r.next+1] = true, true
	gone := r.next
	r.next += 2
	if there, err := r.f.Delete(numberKey(gone)); !there || err != nil {
		r.Fatal(there, err)
	}
	delete(r.in, gone)
	if added, err := r.f.InsertUnique(numberKey(gone + 1)); added || err != nil {
		r.Fatal(added, err)
	}
	if _, err := r.f.InsertUnique(numberKey(r.next)); err != nil {
		r.Fatal(err)
	}
	r.in[r.next] = true
	r.next++
	absent := uint64(1 << 40)
	for r.f.Contains(numberKey(absent)) {
		absent++
	}
	if there, err := r.f.Delete(numberKey(absent)); there || err != nil {
		r.Fatal(there, err)
	}
	r.operations += 6
}

// reach records the number of operations up to the position. No operation may be under way.
func (r *replaceRun) reach() {
	r.reached[writerOf(r.f).Protocol().History().At.Number] = r.operations
}

// lookFromOutside checks that another process gets the number of operations that belongs to its
// position. It takes both from a superblock.
func (r *replaceRun) lookFromOutside(call string) {
	f, err := OpenReadOnly(r.path, nil)
	must(r, err)
	defer f.Close()
	want, known := r.reached[f.Position().Number]
	if seq, ops := f.durable(); seq != 17 || known && ops != want {
		r.Errorf("%s: another process sees %d operations after %d at %v, not %d", call, ops, seq, f.Position(), want)
	}
}

// kill copies the files as a kill would leave them now.
func (r *replaceRun) kill(call string) {
	r.kills = append(r.kills, replaceKill{call, copyFilter(r, r.path), slices.Collect(maps.Keys(r.in)), r.operations})
}

// look looks keys up, one by one and in a batch. It must find all keys of the filter, and only few other
// keys, also while operations wait (C1, C8).
func (r *replaceRun) look(call string) {
	r.Helper()
	var batch [][]byte
	for key := range r.in {
		batch = append(batch, numberKey(key))
	}
	for key := range uint64(1000) {
		batch = append(batch, numberKey(1<<50+key))
	}
	found, passed, inBatch := make([]bool, len(batch)), 0, 0
	r.f.ContainsBatch(batch, found)
	for i, key := range batch {
		switch alone := r.f.Contains(key); {
		case i < len(r.in) && (!alone || !found[i]):
			r.Fatalf("%s: a key is lost", call)
		case i >= len(r.in):
			passed += map[bool]int{true: 1}[alone]
			inBatch += map[bool]int{true: 1}[found[i]]
		}
	}
	if passed > 50 || inBatch > 50 {
		r.Errorf("%s: of 1000 absent keys, %d are found, and %d in a batch", call, passed, inBatch)
	}
}

// check opens what a killed process has left. The filter must have every operation and count each. Its
// kept hashes must match its items, and it must have the history before the rebuild (K8).
func (r *replaceRun) check(k replaceKill) {
	r.Helper()
	f, err := Open(k.path, &OpenOptions{RequireHashes: true})
	if err != nil {
		r.Fatalf("%s: %v", k.call, err)
	}
	defer f.Close()
	for _, rebuilt := range []bool{false, true} {
		if rebuilt {
			if err := f.Rebuild(context.Background(), nil); err != nil {
				r.Errorf("%s: %v", k.call, err)
			}
		}
		if f.Len()-f.Stats().Waiting != uint64(len(k.in)) || f.DurableSeq() != 17 || f.DurableOps() != k.operations {
			r.Errorf("%s, rebuilt %t: %d items of %d, %d operations of %d after %d", k.call, rebuilt, f.Len(), len(k.in), f.DurableOps(), k.operations, f.DurableSeq())
		}
		m := &changeModel{T: r.T}
		m.check(f, r.since, pastCounts{f.Position(), r.counts(k.in)}, Classes{})
		for _, key := range k.in {
			if !f.Contains(numberKey(key)) {
				r.Errorf("%s, rebuilt %t: key %d is lost", k.call, rebuilt, key)
			}
		}
	}
}

// TestCallsOfReplace covers C2, C8 and K3 with real files: operations come at each writing call of a
// rebuild, except while operations wait. If the process is killed at a call, or the call fails, no
// operation is lost or counted twice. Unless the new file has the name, the old file stays in use.
func TestCallsOfReplace(t *testing.T) {
	stop := errors.New("stop")
	calls := 1
	for failing := 0; failing <= calls; failing++ {
		t.Run(fmt.Sprintf("call %d fails", failing), func(t *testing.T) {
			r, inPause := newReplaceRun(t), 0
			r.watch(func(call string) error {
				r.look(call)
				r.lookFromOutside(call)
				if r.idle() {
					r.each()
					r.reach()
				} else {
					inPause++
				}
				if failing == 0 || len(r.calls) == failing {
					r.kill(call)
				}
				if len(r.calls) == failing {
					return stop
				}
				return nil
			})
			err := r.f.Rebuild(context.Background(), nil)
			fault.Hook = nil
			// If a checkpoint of the new file cannot keep the hashes, a later one does: see Rebuild.
			late := err == nil && strings.Contains(r.f.Stats().GrowthErr, stop.Error())
			if (err == nil) != (failing == 0 || late) || err != nil && !errors.Is(err, stop) {
				t.Errorf("%v after %v", err, r.calls)
			}
			for _, k := range r.kills {
				r.check(k)
			}
			if failing == 0 {
				if calls = len(r.calls); inPause < 5 || calls < inPause+5 {
					t.Errorf("only %v", r.calls)
				}
				t.Log(r.calls, inPause)
			}
			if r.f.Err() != nil { // the writer of the file with the name has failed
				if err := r.f.Insert(numberKey(1)); !errors.Is(err, ErrFailed) {
					t.Error(err)
				}
				r.f.Close()
				r.check(replaceKill{"closed", r.path, r.kills[len(r.kills)-1].in, r.operations})
				return
			}
			r.each()
			r.look("afterwards")
			r.watch(func(call string) error {
				r.look(call)
				return nil
			})
			must(t, r.f.Rebuild(context.Background(), nil))
			fault.Hook = nil
			if err := r.f.Sync(); err != nil || r.f.DurableOps() != r.operations || r.f.Len()-r.f.Stats().Waiting != uint64(len(r.in)) {
				t.Errorf("%v; %d operations of %d, %d items of %d", err, r.f.DurableOps(), r.operations, r.f.Len(), len(r.in))
			}
			r.kills = nil
			r.each()
			r.kill("afterwards")
			r.check(r.kills[0])
			must(t, r.f.Close())
			osfile.ForgetPast(r.path, 0)
			mustLeave(t, filepath.Dir(r.path)+"/", 2)
		})
	}
}
