package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A fakeClock is a clock that a test sets.
type fakeClock struct{ now atomic.Uint64 }

func setFakeClock(t *testing.T) *fakeClock {
	c := new(fakeClock)
	c.now.Store(1_800_000_000e9)
	t.Cleanup(osfile.SetClock(c.now.Load)) // after the filters of the test are closed
	return c
}

func (c *fakeClock) add(d time.Duration) { c.now.Add(uint64(d)) }

// expiring returns options for a filter whose keys expire, and which almost never answers "maybe" for an
// absent key.
func expiring(after time.Duration) *Options {
	return &Options{Capacity: 3000, FalsePositiveRate: 1e-8, Seed: 7, ExpireAfter: after, CommitInterval: -1}
}

func mustExpireNow(t *testing.T, f *Filter, want uint64) {
	t.Helper()
	if n, err := f.Expire(t.Context()); n != want || err != nil {
		t.Errorf("%d keys have expired, not %d: %v", n, want, err)
	}
}

// TestKeysLeaveInTime covers C10: no key expires before its time, and none more than 5 % late, whatever
// else happens to the filter: inserts, repeats, deletes, rebuilds, growth, short openings, kills.
func TestKeysLeaveInTime(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"two minutes": func(o *Options) { o.ExpireAfter = 2 * time.Minute },
		"a day":       func(o *Options) { o.ExpireAfter = 24 * time.Hour },
		"a year":      func(o *Options) { o.ExpireAfter = 365 * 24 * time.Hour },
		"growing":     func(o *Options) { o.Capacity, o.AutoGrow = 50, true },
	} {
		for _, repeats := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", repeats: ", repeats), func(t *testing.T) {
				o := expiring(24 * time.Hour)
				change(o)
				for seed := range uint64(small(2, 1)) {
					r := expiryRun{T: t, clock: setFakeClock(t), length: o.ExpireAfter, repeats: repeats, rng: rand.New(rand.NewPCG(seed, 1))}
					r.create(o)
					for range 120 {
						r.step()
					}
					r.f.Close()
				}
			})
		}
	}
}

// An expiryRun operates on a filter whose keys expire, and knows when each key was inserted.
type expiryRun struct {
	*testing.T
	f       *Filter
	path    string
	clock   *fakeClock
	length  time.Duration
	repeats bool // InsertUnique is called for keys in the filter, so that it may leave keys out
	rng     *rand.Rand
	born    []uint64 // by key; 0 if it was deleted
}

// create makes the filter on a file system in memory, since it syncs often.
func (r *expiryRun) create(o *Options) {
	r.path = filepath.Join(memoryDir(r), "filter.mmf")
	f, err := Create(r.path, o)
	must(r, err)
	r.f = f
}

func (r *expiryRun) key(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

func (r *expiryRun) step() {
	for range r.rng.IntN(30) {
		must(r, r.f.Insert(r.key(len(r.born))))
		r.born = append(r.born, r.clock.now.Load())
	}
	if n := len(r.born); n > 0 {
		i := n - 1 - r.rng.IntN(min(n, 300))
		if added, err := r.f.InsertUnique(r.key(i)); err != nil {
			r.Fatal(err)
		} else if added {
			r.born[i] = r.clock.now.Load()
		}
		i = n - 1 - r.rng.IntN(min(n, 100))
		if !r.repeats || r.rng.IntN(4) == 0 {
			if _, err := r.f.Delete(r.key(i)); err != nil {
				r.Fatal(err)
			}
			r.born[i] = 0
		}
	}
	must(r, r.f.Sync()) // the keys get the time of this commit
	switch r.rng.IntN(12) {
	case 0:
		must(r, r.f.Rebuild(r.Context(), nil))
	case 1:
		must(r, r.f.Close())
		r.f = mustOpen(r, r.path, &OpenOptions{CommitInterval: -1})
	case 2:
		killed := filepath.Join(memoryDir(r), "killed.mmf")
		unlock := writerOf(r.f).LockAll()
		for _, suffix := range []string{"", ".stash", ".hashes"} {
			copyOver(killed+suffix, r.path+suffix)
		}
		unlock()
		must(r, r.f.Close())
		r.path = killed
		r.f = mustOpen(r, r.path, &OpenOptions{CommitInterval: -1})
	}
	r.f.growth.Lock() // keys inserted during a growth get the time of its end: let none be under way
	r.clock.add(time.Duration(r.rng.Int64N(int64(r.length / 10))))
	r.f.growth.Unlock()
	if _, err := r.f.Expire(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.check()
}

// check looks all keys up.
func (r *expiryRun) check() {
	r.Helper()
	late := uint64(r.length) / 20
	for i, born := range r.born {
		age := r.clock.now.Load() - born
		switch found := r.f.Contains(r.key(i)); {
		case born == 0: // a key whose delete waits is found until the next rebuild
		case !found && age < uint64(r.length):
			r.Fatalf("key %d has expired after %v", i, time.Duration(age))
		case found && age > uint64(r.length)+late && !r.maybe(i):
			r.Fatalf("key %d has not expired after %v", i, time.Duration(age))
		}
	}
	if s := r.f.Stats(); s.ExpireErr != "" || s.ExpireAfter != r.length {
		r.Fatalf("%+v", s)
	}
}

// maybe reports whether a lookup of key i answers "maybe" because of another key. While the filter
// grows, this depends on chance, because the number of lines does.
func (r *expiryRun) maybe(i int) bool {
	r.f.growth.Lock()
	defer r.f.growth.Unlock()
	t := r.f.open.Load().table
	class := func(i int) layout.Class { return t.Class(t.Split(r.f.Hash(r.key(i)))) }
	for j, born := range r.born {
		if j != i && class(j) == class(i) && (born == 0 || born > r.born[i]) {
			return true
		}
	}
	return !r.f.Contains(r.key(i)) // a growth has ended since
}

// TestAgesAreJoinedByTime covers C10: a rebuild keeps the times of a few keys that came slowly, and
// those of many keys that came at once.
func TestAgesAreJoinedByTime(t *testing.T) {
	r := expiryRun{T: t, clock: setFakeClock(t), length: 320 * time.Hour}
	o := expiring(r.length)
	o.Capacity = 6000
	r.create(o)
	insert := func(n int) {
		for range n {
			must(t, r.f.Insert(r.key(len(r.born))))
			r.born = append(r.born, r.clock.now.Load())
		}
		must(t, r.f.Sync())
	}
	for range 300 {
		insert(1)
		r.clock.add(time.Hour)
	}
	for range 200 {
		insert(20)
		r.clock.add(time.Second)
	}
	must(t, r.f.Rebuild(t.Context(), nil))
	if n := len(keptOf(t, r.f).Header.Ages); n > 34 {
		t.Errorf("%d ages", n)
	}
	for range 400 {
		r.clock.add(time.Hour)
		if _, err := r.f.Expire(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.check()
	}
	if r.f.Len() != 0 || r.f.Stats().Expired != uint64(len(r.born)) {
		t.Errorf("%d of %d keys are left, %d have expired", r.f.Len(), len(r.born), r.f.Stats().Expired)
	}
	r.f.Close()
}

func keptOf(t *testing.T, f *Filter) recovery.Kept {
	t.Helper()
	defer writerOf(f).LockAll()()
	kept, err := writerOf(f).Protocol().Hashes()
	must(t, err)
	return kept
}

// TestKilledBeforeTheRebuild covers C10: deletes wait for a rebuild if InsertUnique has left keys out.
// They take effect even if the process dies before the rebuild.
func TestKilledBeforeTheRebuild(t *testing.T) {
	clock := setFakeClock(t)
	f, path := mustCreate(t, expiring(time.Hour))
	mustInsert(t, f, 0, 200)
	for key := range numbers(0, 10) {
		if added, err := f.InsertUnique(key); added || err != nil {
			t.Fatal(added, err)
		}
	}
	must(t, f.Sync())
	clock.add(2 * time.Hour)
	if _, _, n, err := f.sweep(t.Context(), 0); err != nil || n != 200 || f.Stats().Waiting != 200 {
		t.Fatalf("%d have expired, %d wait, %v", n, f.Stats().Waiting, err)
	}
	must(t, f.Checkpoint(t.Context()))
	path = abandon(t, f, path)
	f.Close()
	f = mustOpen(t, path, nil)
	if _, err := f.Expire(t.Context()); err != nil || f.Stats().Waiting != 0 || f.Len() != 0 {
		t.Errorf("%d keys are left, %d deletes wait, %v", f.Len(), f.Stats().Waiting, err)
	}
	f.Close()
}

// TestExpiryDoesNotCount covers C10: the deletes of expired keys do not count as operations, also after
// a kill. So DurableOps still says which operations of the caller are durable.
func TestExpiryDoesNotCount(t *testing.T) {
	for _, killed := range []bool{false, true} {
		clock := setFakeClock(t)
		f, path := mustCreate(t, expiring(time.Hour))
		mustInsert(t, f, 0, 100)
		must(t, f.SyncAt(5))
		clock.add(2 * time.Hour)
		mustInsert(t, f, 100, 110)
		mustExpireNow(t, f, 100)
		mustInsert(t, f, 110, 120)
		if killed { // before a commit
			path = abandon(t, f, path)
		}
		f.Close()
		f = mustOpen(t, path, nil)
		if seq, ops := f.DurableSeq(), f.DurableOps(); seq != 5 || ops != 20 || f.Len() != 20 {
			t.Errorf("killed %t: %d keys; %d operations after %d", killed, f.Len(), ops, seq)
		}
		f.Close()
	}
}

// TestExpiryWithWrongClocks covers C10. If a clock was ahead, the keys inserted then expire at the
// latest the usual time after the rebuild that finds that the clock was set back. If a clock is set
// back, no key expires.
func TestExpiryWithWrongClocks(t *testing.T) {
	const hour = time.Hour
	for name, wrong := range map[string]time.Duration{"ahead by years": 50_000 * hour, "ahead by hours": 30 * hour, "back by years": -50_000 * hour, "back by hours": -30 * hour} {
		clock := setFakeClock(t)
		right := clock.now.Load()
		f, _ := mustCreate(t, expiring(32*hour))
		mustInsert(t, f, 0, 100)
		must(t, f.Sync())
		clock.add(wrong)
		mustInsert(t, f, 100, 200)
		must(t, f.Sync())
		if wrong < 0 {
			mustExpireNow(t, f, 0)
		}
		clock.now.Store(right)
		for i := range 31 {
			mustInsert(t, f, 200, 201)
			must(t, f.Sync())
			clock.add(hour)
			mustExpireNow(t, f, 0)
			f.growth.Lock()
			e := &f.growth.expiry
			if i == 0 && (f.Stats().Rebuilds > 0 || e.behind.IsZero() != (wrong < 0)) {
				t.Errorf("%s: a rebuild came at once, or none is due later", name)
			}
			if !e.behind.IsZero() {
				e.behind = e.behind.Add(-hour)
			}
			f.growth.Unlock()
		}
		if n := f.Stats().Rebuilds; n > 0 != (wrong > 0) || n > 1 {
			t.Errorf("%s: %d rebuilds", name, n)
		}
		mustHave(t, f, 0, 201)
		for range 6 {
			clock.add(hour)
			if _, err := f.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if left := countOf(f, 0, 200); left > 0 {
			t.Errorf("%s: %d keys have not expired", name, left)
		}
		mustHave(t, f, 200, 201) // this key was inserted again and again
		f.Close()
	}
}

func countOf(f *Filter, from, to uint64) int {
	found, _ := countFound(f, numbers(from, to))
	return found
}

// TestKeysLeaveInTheBackground: keys expire while nobody calls the filter.
func TestKeysLeaveInTheBackground(t *testing.T) {
	clock := setFakeClock(t)
	o := expiring(10 * time.Second)
	f, _ := mustCreate(t, o)
	mustInsert(t, f, 0, 500)
	must(t, f.Sync())
	clock.add(9 * time.Second)
	mustInsert(t, f, 500, 600)
	must(t, f.Sync())
	clock.add(3 * time.Second)
	for f.Len() > 100 {
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	mustHave(t, f, 500, 600)
	if n := countOf(f, 0, 500); n != 0 {
		t.Errorf("%d keys are left", n)
	}
	f.Close()
}

// TestShortOpeningsExpire: keys expire in a filter that is open only for short times. Once the keys of a
// step have expired, later openings in this step do not look for them again.
func TestShortOpeningsExpire(t *testing.T) {
	clock := setFakeClock(t)
	f, path := mustCreate(t, expiring(time.Hour))
	mustInsert(t, f, 0, 100)
	must(t, f.Close())
	clock.add(2 * time.Hour)
	must(t, mustOpen(t, path, nil).Close())
	r := mustOpenReadOnly(t, path, nil)
	if r.Len() != 0 {
		t.Errorf("%d keys are left", r.Len())
	}
	cut := windowOf(r.open.Load().newest()).Cut()
	if r.open.Load().newest().ExpiredBefore() != cut {
		t.Error("the next opening reads all hashes again")
	}
	f = mustOpen(t, path, nil)
	if o, _, _, err := f.sweep(t.Context(), 0); o != nil || err != nil {
		t.Error("an opening does the same step again", err)
	}
	f.Close()
}

// TestRebuildsComeFirst: an expiry in the background does not delay a rebuild, for which inserts may
// wait. The expiry goes on after the rebuild.
func TestRebuildsComeFirst(t *testing.T) {
	clock := setFakeClock(t)
	o := expiring(24 * time.Hour)
	o.Capacity, o.FalsePositiveRate = 100_000, 0.01
	f, _ := mustCreate(t, o)
	insertAll(t, f, spreads(0, 100_000))
	must(t, f.Sync())
	clock.add(48 * time.Hour)
	ended := make(chan error)
	go func() {
		_, _, _, err := f.sweep(context.Background(), time.Hour)
		ended <- err
	}()
	for f.Len() == 100_000 { // the sweep above, or the one of the filter, has begun
		time.Sleep(time.Millisecond)
	}
	must(t, f.Rebuild(t.Context(), nil))
	if err := <-ended; !errors.Is(err, context.Canceled) && err != errLater || f.Len() == 0 {
		t.Errorf("%v; %d keys are left", err, f.Len())
	}
	if _, err := f.Expire(t.Context()); err != nil || f.Len() != 0 {
		t.Errorf("%d keys are left: %v", f.Len(), err)
	}
	f.Close()
}

// TestExpiryOptions checks which times ExpireAfter allows, that a file keeps its time, and that Open can
// change it.
func TestExpiryOptions(t *testing.T) {
	setFakeClock(t)
	dir := t.TempDir()
	for _, after := range []time.Duration{-1, 1, leastExpireAfter - 1} {
		_, err := Create(filepath.Join(dir, "refused"), expiring(after))
		if e := new(OptionError); !errors.As(err, &e) || e.Field != "ExpireAfter" {
			t.Errorf("%v: %v", after, err)
		}
		_, err = Open(filepath.Join(dir, "refused"), &OpenOptions{ExpireAfter: after})
		if e := new(OptionError); after > 0 && (!errors.As(err, &e) || e.Field != "ExpireAfter") {
			t.Errorf("%v: %v", after, err)
		}
	}
	f, path := mustCreate(t, expiring(time.Hour))
	must(t, f.Close())
	for _, c := range []struct{ set, want time.Duration }{{0, time.Hour}, {2 * time.Hour, 2 * time.Hour}, {0, 2 * time.Hour}, {-1, 0}, {0, 0}, {time.Minute, time.Minute}} {
		f = mustOpen(t, path, &OpenOptions{ExpireAfter: c.set})
		if got := f.Stats().ExpireAfter; got != c.want {
			t.Errorf("set to %v: %v", c.set, got)
		}
		must(t, f.Close())
		if got := mustOpenReadOnly(t, path, nil).Stats().ExpireAfter; got != c.want {
			t.Errorf("set to %v: %v after a Close", c.set, got)
		}
	}
	plain, path := mustCreate(t, &Options{Capacity: 100})
	plain.Close()
	if _, err := Open(path, &OpenOptions{ExpireAfter: time.Hour}); !errors.Is(err, ErrNoHashes) {
		t.Errorf("a filter without hashes: %v", err)
	}
}
