package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A keptReplica is a replica that keeps its hashes, the filter that it follows, and the keys of this
// filter.
type keptReplica struct {
	testing.TB
	rng  *rand.Rand
	f    *Filter
	keys map[uint64]uint64
	next uint64
	at   Position // of the replica
	path string
	*Filter
}

func newKeptReplica(t *testing.T, seed uint64, o *Options) *keptReplica {
	r := &keptReplica{TB: t, rng: rand.New(rand.NewPCG(seed, 9)), keys: map[uint64]uint64{}}
	r.f, _ = mustCreate(t, o)
	r.operate(300, 2)
	r.at, r.path = mustSnapshotWithHashes(t, r.f)
	r.Filter = mustOpen(t, r.path, &OpenOptions{CommitInterval: time.Hour})
	r.check(r.Filter)
	return r
}

// operate does n operations on the filter. Of inserts+1 operations, about one is a delete.
func (r *keptReplica) operate(n, inserts int) {
	r.Helper()
	for range n {
		if key := r.rng.Uint64N(r.next + 1); r.rng.IntN(inserts+1) == 0 && r.keys[key] > 0 {
			_, err := r.f.Delete(numberKey(key))
			must(r, err)
			r.keys[key]--
			continue
		}
		must(r, r.f.Insert(numberKey(r.next)))
		r.keys[r.next]++
		r.next++
	}
	must(r, r.f.SyncAt(r.rng.Uint64()))
}

// apply brings the replica to the position of the filter.
func (r *keptReplica) apply() {
	r.Helper()
	at, err := r.Apply(context.Background(), bytes.NewReader(mustChanges(r, r.f, r.at, r.Classes())))
	if err != nil || at != r.f.Position() {
		r.Fatalf("at %v, not %v: %v", at, r.f.Position(), err)
	}
	r.at = at
	a := &r.growth.auto // wait for a rebuild that may have begun in the background
	a.Lock()
	ends := a.done
	a.Unlock()
	if ends != nil {
		<-ends
	}
	r.check(r.Filter)
}

// cutOff begins to apply changes, and kills the process or closes the file, usually before all changes
// are applied.
func (r *keptReplica) cutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f, before, pause := r.Filter, r.Len(), time.Duration(r.rng.IntN(1000))*time.Microsecond
	go func() {
		for f.Len() == before && ctx.Err() == nil {
			runtime.Gosched()
		}
		time.Sleep(pause)
		cancel()
	}()
	_, err := r.Apply(ctx, bytes.NewReader(mustChanges(r, r.f, r.at, r.Classes())))
	if err != nil && (!errors.Is(err, context.Canceled) || r.Position() != r.at) {
		t.Fatalf("at %v after %v: %v", r.Position(), r.at, err)
	}
	if part := writerOf(r.Filter).Protocol().History().Set != 0; part && r.DurableSeq()|r.DurableOps() != 0 {
		t.Errorf("with a part of a set, %d operations after %d are durable", r.DurableOps(), r.DurableSeq())
	}
	t.Logf("cut off: %v", err)
	cancel()
	left := abandon(t, r.Filter, r.path)
	must(t, r.Close())
	if r.rng.IntN(2) == 0 {
		r.path = left
	}
	r.Filter = mustOpen(t, r.path, &OpenOptions{CommitInterval: time.Hour})
}

func (r *keptReplica) check(replica *Filter) {
	r.Helper()
	mustBeAt(r, replica, r.f, r.keys)
}

func (r *keptReplica) reopen() {
	r.Helper()
	must(r, r.Close())
	if _, err := Verify(context.Background(), r.path); err != nil {
		r.Fatal(err)
	}
	r.check(mustOpenReadOnly(r, r.path, nil))
	r.Filter = mustOpen(r, r.path, &OpenOptions{CommitInterval: time.Hour})
	r.check(r.Filter)
}

// TestKeptReplica: a replica that keeps its hashes takes changes, even if it must grow meanwhile. It can
// have a second replica, which takes its changes. It keeps its position in the history that it follows
// when it is closed, rebuilt, sealed or copied.
func TestKeptReplica(t *testing.T) {
	needsReplacing(t)
	ctx := context.Background()
	for seed := range uint64(small(3, 2)) {
		r := newKeptReplica(t, seed, &Options{Capacity: 500, FalsePositiveRate: 0.01, AutoGrow: true, KeepHashes: true, KeepChanges: time.Hour})
		second := filepath.Join(t.TempDir(), "second")
		_, err := r.Snapshot(ctx, second)
		must(t, err)
		own := r.ownPosition()
		if own.Descent == r.f.Position().Descent || !r.Classes().IsZero() || r.Position() != r.f.Position() {
			t.Fatalf("the replica is at %v, in its own history at %v, with classes %v", r.Position(), own, r.Classes())
		}
		s := mustOpen(t, second, nil)
		capacity := r.Cap()
		for i := range 6 {
			r.operate(100+r.rng.IntN(2500), 1+i%3)
			if r.rng.IntN(2) == 0 {
				r.cutOff(t)
			}
			r.apply()
			set := mustChanges(t, r.Filter, own, Classes{})
			own, err = s.Apply(ctx, bytes.NewReader(set))
			if errors.Is(err, ErrFull) { // the second replica does not grow
				must(t, s.Close())
				own, err = r.Snapshot(ctx, second)
				must(t, err)
				s = mustOpen(t, second, nil)
			}
			if err != nil || own != r.ownPosition() {
				t.Fatalf("the second replica is at %v, not %v: %v", own, r.ownPosition(), err)
			}
			if s.Len() != r.Len() {
				t.Errorf("the second replica has %d items, not %d", s.Len(), r.Len())
			}
			switch r.rng.IntN(4) {
			case 0:
				r.reopen()
			case 1:
				must(t, r.Rebuild(ctx, nil)) // uses the history of the replica
				r.check(r.Filter)
			case 2:
				must(t, r.Seal(ctx))
				r.reopen()
			case 3: // a copy of the replica follows the replica, and not the filter
				at, copied := mustSnapshotWithHashes(t, r.Filter)
				if c := mustOpenReadOnly(t, copied, nil); at != r.ownPosition() || c.Position() != at || c.Len() != r.Len() {
					t.Errorf("a copy at %v is at %v with %d keys", at, c.Position(), c.Len())
				}
			}
		}
		if r.Cap() == capacity {
			t.Error("the replica has not grown")
		}
	}
}

// TestDepartInRebuild: if a replica departs during a Rebuild, the new file follows no history. It is an
// ordinary filter that keeps its hashes, and it has the changes since it was a replica.
func TestDepartInRebuild(t *testing.T) {
	needsReplacing(t)
	r := newKeptReplica(t, 8, &Options{Capacity: 2000, KeepChanges: time.Hour})
	own := r.ownPosition()
	r.operate(300, 2)
	r.apply()
	seq, departed := r.DurableSeq(), false
	must(t, r.Rebuild(context.Background(), &RebuildOptions{Progress: func(string, uint64, uint64) {
		if !departed {
			departed = true
			must(t, r.Insert([]byte("of its own")))
		}
	}}))
	for range 2 {
		p := r.Position()
		if !departed || p.Descent == r.at.Descent || p != r.ownPosition() || r.DurableSeq() != seq || r.DurableOps() == 0 || r.Len() != r.f.Len()+1 {
			t.Errorf("the filter is at %v, with sequence %d, not %d, and %d keys", p, r.DurableSeq(), seq, r.Len())
		}
		if _, err := r.Apply(context.Background(), new(bytes.Buffer)); !errors.Is(err, ErrNotReplica) {
			t.Errorf("Apply: %v", err)
		}
		if changed, to, err := changesOf(t, r.Filter, own, Classes{}); err != nil || to != p || len(changed) < 100 {
			t.Errorf("%d changes to %v, %v", len(changed), to, err)
		}
		must(t, r.Close())
		r.Filter = mustOpen(t, r.path, nil)
	}
	since, before := r.Position(), r.Len()
	mustInsert(t, r.Filter, 1<<40, 1<<40+500)
	must(t, r.Rebuild(context.Background(), nil))
	if r.Len() != before+500 || r.Position().Number != since.Number+500 {
		t.Errorf("%d keys, not %d, at %v after %v", r.Len(), before+500, r.Position(), since)
	}
}

// TestKeptReplicaDoesNotExpire: in a replica, keys do not expire by themselves, but only by changes of
// the filter. They do once the replica is a filter of its own.
func TestKeptReplicaDoesNotExpire(t *testing.T) {
	clock := setFakeClock(t)
	f, _ := mustCreate(t, expiring(time.Hour))
	mustInsert(t, f, 0, 100)
	must(t, f.Sync())
	_, path := mustSnapshotWithHashes(t, f)
	clock.add(2 * time.Hour)
	r := mustOpen(t, path, nil)
	n, err := r.expireDue(context.Background(), 0)
	must(t, errors.Join(err, r.Close())) // in an ordinary filter, Close lets keys expire, too
	r = mustOpen(t, path, nil)
	if n != 0 || r.Len() != 100 || r.Position() != f.Position() {
		t.Errorf("%d keys have expired, %d are left, at %v", n, r.Len(), r.Position())
	}
	mustExpireNow(t, r, 100)
	if r.Position().Descent == f.Position().Descent {
		t.Error("the replica still follows the filter after an operation of its own")
	}
}
