//go:build faults

package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A replaceRun does operations at every call of a rebuild that writes, as far as none waits.
type replaceRun struct {
	*testing.T
	f          *Filter
	path       string
	next       uint64 // key
	in         map[uint64]bool
	operations uint64
	calls      []string
	kills      []replaceKill
}

// A replaceKill is what a process leaves that is killed at a call.
type replaceKill struct {
	call, path string
	in         []uint64
	operations uint64
}

func newReplaceRun(t *testing.T) *replaceRun {
	r := &replaceRun{T: t, in: make(map[uint64]bool), path: filepath.Join(t.TempDir(), "f.mmf")}
	var err error
	r.f, err = Create(r.path, &Options{Capacity: 3000, KeepHashes: true, Seed: 1})
	if err == nil {
		err = r.f.Close()
	}
	if err == nil { // then it does not go on without its hashes, if a call on them fails
		r.f, err = Open(r.path, &OpenOptions{RequireHashes: true, CommitInterval: time.Hour})
	}
	must(t, err)
	for range 100 {
		r.insert()
	}
	must(t, r.f.SyncAt(17))
	r.operations = 0
	r.insert()
	return r
}

// idle reports whether an operation can be done now.
func (r *replaceRun) idle() bool { return r.f.open.Load().work.Writer.Idle() }

func bytesOf(key uint64) []byte { return binary.LittleEndian.AppendUint64(nil, key) }

func (r *replaceRun) insert() {
	must(r, r.f.Insert(bytesOf(r.next)))
	r.in[r.next] = true
	r.next++
	r.operations++
}

// each does operations of every kind. After a kill, the last ones that change nothing may not count.
func (r *replaceRun) each() {
	defer r.insert()
	if n, err := r.f.InsertBatch([][]byte{bytesOf(r.next), bytesOf(r.next + 1)}); n != 2 || err != nil {
		r.Fatal(n, err)
	}
	r.in[r.next], r.in[r.next+1] = true, true
	gone := r.next
	r.next += 2
	if there, err := r.f.Delete(bytesOf(gone)); !there || err != nil {
		r.Fatal(there, err)
	}
	delete(r.in, gone)
	if added, err := r.f.InsertUnique(bytesOf(gone + 1)); added || err != nil {
		r.Fatal(added, err)
	}
	if _, err := r.f.InsertUnique(bytesOf(r.next)); err != nil {
		r.Fatal(err)
	}
	r.in[r.next] = true
	r.next++
	absent := uint64(1 << 40)
	for r.f.Contains(bytesOf(absent)) {
		absent++
	}
	if there, err := r.f.Delete(bytesOf(absent)); there || err != nil {
		r.Fatal(there, err)
	}
	r.operations += 6
}

// kill copies the files, as they are now.
func (r *replaceRun) kill(call string) {
	k := replaceKill{call, filepath.Join(r.TempDir(), "f.mmf"), nil, r.operations}
	for key := range r.in {
		k.in = append(k.in, key)
	}
	for _, suffix := range []string{"", ".stash", ".stash.new", ".hashes", ".hashes.new"} {
		err := copyOver(k.path+suffix, r.path+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Fatal(err)
		}
	}
	r.kills = append(r.kills, k)
}

// check opens what a killed process has left: it has every operation, counts each, and its kept hashes
// are those of its items.
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
		for _, key := range k.in {
			if !f.Contains(bytesOf(key)) {
				r.Errorf("%s, rebuilt %t: key %d is lost", k.call, rebuilt, key)
			}
		}
	}
}

// TestCallsOfReplace covers C2, C8 and K3 in the files of the system: operations come at each call of a
// rebuild that writes, but for those of its pause. If the process is killed there, or one of the calls
// fails, none is lost, and none is counted twice. Unless the new file has the name, the old one goes on.
func TestCallsOfReplace(t *testing.T) {
	stop := errors.New("stop")
	t.Cleanup(func() { fault.Hook = nil })
	calls := 1
	for failing := 0; failing <= calls; failing++ {
		t.Run(fmt.Sprintf("call %d fails", failing), func(t *testing.T) {
			r := newReplaceRun(t)
			var mu sync.Mutex // calls that other goroutines make
			inPause, busy := 0, new(atomic.Bool)
			fault.Hook = func(call string) error {
				if busy.Load() { // by an operation of this hook
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if last := len(r.calls) - 1; last >= 0 && call == "write" && r.calls[last] == call {
					return nil // one of many
				}
				busy.Store(true)
				defer busy.Store(false)
				if r.calls = append(r.calls, call); r.idle() {
					r.each()
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
			}
			err := r.f.Rebuild(context.Background(), nil)
			fault.Hook = nil
			if (err == nil) != (failing == 0) || err != nil && !errors.Is(err, stop) {
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
			if r.f.Err() != nil { // the file that has the name has failed
				if err := r.f.Insert(bytesOf(1)); !errors.Is(err, ErrFailed) {
					t.Error(err)
				}
				r.f.Close()
				r.check(replaceKill{"closed", r.path, r.kills[len(r.kills)-1].in, r.operations})
				return
			}
			r.each()
			if err := r.f.Sync(); err != nil || r.f.DurableOps() != r.operations || r.f.Len()-r.f.Stats().Waiting != uint64(len(r.in)) {
				t.Errorf("%v; %d operations of %d, %d items of %d", err, r.f.DurableOps(), r.operations, r.f.Len(), len(r.in))
			}
			r.kills = nil
			r.each()
			r.kill("afterwards")
			r.check(r.kills[0])
			if err := r.f.Close(); err != nil {
				t.Error(err)
			}
			if list, _ := os.ReadDir(filepath.Dir(r.path)); len(list) != 2 {
				t.Errorf("the directory has %v", list)
			}
		})
	}
}

// TestStrayBesideRebuild covers K7: a delete of a key that was never inserted, which the old file takes
// for another one and the new file does not, is in the history of both. It takes nothing from the new
// file.
func TestStrayBesideRebuild(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, FalsePositiveRate: 0.2, KeepHashes: true, Seed: 1, CommitInterval: time.Hour})
	defer f.Close()
	mustInsert(t, f, 0, 1000)
	deleted := false
	opts := &RebuildOptions{FalsePositiveRate: 1e-6, Progress: func(string, uint64, uint64) {
		for i := uint64(1 << 40); !deleted; i++ {
			var err error
			if deleted, err = f.Delete(bytesOf(i)); err != nil {
				t.Fatal(err)
			}
		}
	}}
	err := f.Rebuild(context.Background(), opts)
	if !deleted || err != nil {
		t.Error(deleted, err)
	}
	mustHave(t, f, 0, 1000)
	if err := f.Insert(bytesOf(1)); err != nil || f.Len() != 1001 {
		t.Error(err, f.Len())
	}
}
