package sets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func mustOpen(tb testing.TB, path string, o *mmapfilter.OpenOptions) *Set {
	tb.Helper()
	s, err := Open(path, o)
	must(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

// mustFollow follows a set that looks for a new manifest only when it is told to.
func mustFollow(tb testing.TB, path string, o mmapfilter.OpenOptions) *Set {
	tb.Helper()
	o.FollowInterval = -1
	s, err := Follow(path, &o)
	must(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

// batch returns numbered keys.
func batch(from, to int) (keys [][]byte) {
	for i := range to - from {
		keys = append(keys, number(from+i))
	}
	return keys
}

type lookups interface {
	Contains(key []byte) bool
	ContainsString(key string) bool
	ContainsBatch(keys [][]byte, found []bool)
}

// count returns how many of the numbered keys are found, in each way of asking.
func count(tb testing.TB, s lookups, from, to int) int {
	tb.Helper()
	keys, n := batch(from, to), 0
	found := make([]bool, len(keys))
	s.ContainsBatch(keys, found)
	for i, k := range keys {
		one, text := s.Contains(k), s.ContainsString(string(k))
		if one != found[i] || text != one {
			tb.Fatalf("%s: %t alone, %t as a string, %t in a batch", k, one, text, found[i])
		}
		if one {
			n++
		}
	}
	return n
}

func mustHave(tb testing.TB, s lookups, from, to int) {
	tb.Helper()
	if n := count(tb, s, from, to); n != to-from {
		tb.Fatalf("%d of %d keys are missing", to-from-n, to-from)
	}
}

// shards returns the paths of the shards of a set, in their order.
func shards(tb testing.TB, path string) []string {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "shard-*.mmf"))
	must(tb, err)
	return names
}

// TestAnswers covers S1: a set has its keys, at the requested rate. Each shard alone has its own keys,
// and no others.
func TestAnswers(t *testing.T) {
	const n = 100_000
	for _, count64 := range []int{1, 5, 64} {
		p := mustPlan(t, mmapfilter.Options{Capacity: n}, count64)
		path := mustBuild(t, t.TempDir(), p, numbers(0, n))
		s := mustOpen(t, path, nil)
		if st := s.Stats(); st.Opened != 0 || st.Shards != count64 || s.Len() != n || s.Cap() != n {
			t.Errorf("%+v", st)
		}
		mustHave(t, s, 0, n)
		if wrong := count(t, s, n, 2*n); float64(wrong) > 1.1*0.01*n {
			t.Errorf("%d shards: %d of %d absent keys found", count64, wrong, n)
		}
		if err := s.Err(); err != nil || s.Len() != n {
			t.Errorf("%v, %d keys", err, s.Len())
		}
		if st := s.Stats(); st.Opened != count64 || st.Failed != 0 || st.HighestRate > 0.01 {
			t.Errorf("%+v", st)
		}
		var alone []*mmapfilter.Filter
		for _, file := range shards(t, path) {
			f, err := mmapfilter.OpenReadOnly(file, nil)
			must(t, err)
			defer f.Close()
			alone = append(alone, f)
		}
		for k := range numbers(0, n) {
			h := alone[0].Hash(k)
			for i, f := range alone {
				own := ShardOf(h, count64) == i
				found := make([]bool, 2)
				f.ContainsBatch([][]byte{k}, found[:1])
				f.ContainsHashes([]uint64{h}, found[1:])
				if f.Contains(k) != own || f.ContainsHash(h) != own || found[0] != own || found[1] != own || (f.Count(k) > 0) != own {
					t.Fatalf("shard %d of %d: %s: %t, %v, want %t", i, count64, k, f.Contains(k), found, own)
				}
			}
			if len(alone) > 5 {
				break // one key in many files
			}
		}
		for range 3 { // closing the set again does nothing, and does not wait
			must(t, s.Close())
		}
		if st := s.Stats(); !s.Contains(number(-1)) || s.Err() != mmapfilter.ErrClosed || s.Len() != n || st.State != "closed" {
			t.Errorf("after Close: %v, %+v", s.Err(), st)
		}
		mustHave(t, s, -1000, 0)
	}
}

// TestNothingIsAllocated: lookups of one key or of many allocate nothing.
func TestNothingIsAllocated(t *testing.T) {
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{}, 40), numbers(0, 20_000))
	s := mustOpen(t, path, &mmapfilter.OpenOptions{CommitInterval: -1}) // no commits, which may allocate at the same time
	keys := batch(0, 3000)
	found := make([]bool, len(keys))
	s.ContainsBatch(keys, found)
	if n := testing.AllocsPerRun(100, func() { s.ContainsBatch(keys, found); s.Contains(keys[0]) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
	f, err := mmapfilter.OpenReadOnly(shards(t, path)[0], nil) // a shard alone
	must(t, err)
	defer f.Close()
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = f.Hash(k)
	}
	if n := testing.AllocsPerRun(100, func() { f.ContainsBatch(keys, found); f.ContainsHashes(hashes, found); f.Contains(keys[0]) }); n >= 1 {
		t.Errorf("%v allocations in a shard", n)
	}
	must(t, s.OpenShards(1, 2, 3, 5, 8, 13, 21, 34))
	s.InsertBatch(keys)
	s.ContainsBatch(keys, found)
	if n := testing.AllocsPerRun(100, func() { s.ContainsBatch(keys, found) }); n >= 1 {
		t.Errorf("%v allocations with shards open for writing", n)
	}
}

// TestBadShards covers S4: a shard that is missing, or is not the file that the manifest names, answers
// "maybe", and the other shards answer correctly, even in a set of OpenFS.
func TestBadShards(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{}, 4)
	at := func(dir string) []string { return shards(t, filepath.Join(dir, "keys.set")) }
	for name, c := range map[string]struct {
		do  func(dir string)
		bad int
		is  error
	}{
		"missing": {func(dir string) { must(t, os.Remove(at(dir)[1])) }, 1, fs.ErrNotExist},
		"cut":     {func(dir string) { must(t, os.Truncate(at(dir)[1], 100)) }, 1, mmapfilter.ErrCorrupt},
		"swapped": {func(dir string) { a := at(dir); rename(t, a[0], a[1], a[2]) }, 3, ErrOtherSet},
		"doubled": {func(dir string) { copyFile(t, at(dir)[0], at(dir)[1]) }, 1, ErrOtherSet},
		"older": {func(dir string) {
			older := t.TempDir()
			copyFile(t, at(filepath.Dir(mustBuild(t, older, p, numbers(0, 9000))))[1], at(dir)[1])
		}, 1, ErrOtherSet},
		"of another plan": {func(dir string) {
			other := mustPlan(t, mmapfilter.Options{Seed: 9}, 4)
			copyFile(t, at(filepath.Dir(mustBuild(t, t.TempDir(), other, numbers(0, 10_000))))[1], at(dir)[1])
		}, 1, ErrOtherSet},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := mustBuild(t, dir, p, numbers(0, 10_000))
			c.do(dir)
			e := new(ShardError)
			for kind, fsys := range map[string]fs.FS{"path": nil, "file system": os.DirFS(dir), "no ReadAt": onlyReads{os.DirFS(dir)}} {
				s, err := Open(path, nil)
				if fsys != nil {
					s, err = OpenFS(fsys, filepath.Base(path), nil)
				}
				must(t, err)
				defer s.Close()
				mustHave(t, s, 0, 10_000)
				maybe := count(t, s, 10_000, 20_000)
				if least := 2300 * c.bad; maybe < least || maybe > 2700*c.bad+200 {
					t.Errorf("%s: %d of 10,000 absent keys found, with %d bad shards of 4", kind, maybe, c.bad)
				}
				for _, err := range []error{s.Err(), s.OpenAll()} {
					if !errors.As(err, &e) || !errors.Is(err, c.is) {
						t.Errorf("%s: %v, want %v", kind, err, c.is)
					}
				}
				if n, err := s.InsertBatch(batch(0, 100)); n != 0 || !errors.Is(err, mmapfilter.ErrReadOnly) || errors.Is(err, mmapfilter.ErrClosed) {
					t.Errorf("%s: a batch into shards that are not open for writing: %d, %v", kind, n, err)
				}
				failed := 0
				for _, sh := range s.ShardStats() {
					if errors.Is(sh.Err, c.is) {
						failed++
					}
				}
				if st := s.Stats(); st.Failed != c.bad || failed != c.bad {
					t.Errorf("%s: %d shards have failed; %+v", kind, failed, st)
				}
			}
			r, err := Verify(background, path)
			if len(r.Errors) != c.bad || !errors.As(err, &e) || !errors.Is(err, c.is) {
				t.Errorf("verify: %v, %v", r, err)
			}
		})
	}
}

// rename gives three files each the name of the next.
func rename(t *testing.T, a, b, c string) {
	must(t, os.Rename(a, a+"x"))
	must(t, os.Rename(b, a))
	must(t, os.Rename(c, b))
	must(t, os.Rename(a+"x", c))
}

// TestBadManifests: a manifest with a changed byte, or cut short, is refused.
func TestBadManifests(t *testing.T) {
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{Normalisation: "n"}, 3), numbers(0, 1000))
	whole, err := os.ReadFile(path)
	must(t, err)
	bad := filepath.Join(filepath.Dir(path), "bad.set")
	try := func(data []byte, what string) {
		must(t, os.WriteFile(bad, data, 0o666))
		s, err := Open(bad, nil)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, mmapfilter.ErrCorrupt) && !errors.Is(err, mmapfilter.ErrVersion) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole {
		for _, x := range []byte{1, 0x20} {
			data := bytes.Clone(whole)
			data[i] ^= x
			try(data, fmt.Sprintf("byte %d", i))
		}
		try(whole[:i], fmt.Sprintf("cut at %d", i))
	}
	try(append(bytes.Clone(whole), '\n'), "longer")
	if _, err := Open(filepath.Join(filepath.Dir(path), "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
	if _, err := Open(filepath.Dir(path), nil); err == nil {
		t.Errorf("a directory is read as a manifest")
	}
	if _, err := Open(shards(t, path)[0], nil); !errors.Is(err, mmapfilter.ErrCorrupt) {
		t.Errorf("a filter: %v", err)
	}
	if _, err := mmapfilter.OpenReadOnly(path, nil); !errors.Is(err, mmapfilter.ErrCorrupt) {
		t.Errorf("a manifest as a filter: %v", err)
	}
}

// TestShardOverwritten: a shard is overwritten in place while it is open, with another shard or with
// the same shard of another set. From the next look on it answers "maybe", and correctly once its own
// file is back.
func TestShardOverwritten(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 9000}, 3)
	path := mustBuild(t, t.TempDir(), p, numbers(0, 6000))
	s := mustFollow(t, path, mmapfilter.OpenOptions{})
	mustHave(t, s, 0, 6000)
	files := shards(t, path)
	read := func(file string) []byte {
		data, err := os.ReadFile(file)
		must(t, err)
		return data
	}
	own := read(files[1])
	for _, other := range [][]byte{read(files[0]), read(shards(t, mustBuild(t, t.TempDir(), p, numbers(6000, 12_000)))[1])} {
		must(t, os.WriteFile(files[1], other, 0o666))
		if _, err := s.Refresh(); !errors.Is(err, ErrOtherSet) || !errors.Is(s.Err(), ErrOtherSet) {
			t.Errorf("%v, %v", err, s.Err())
		}
		mustHave(t, s, 0, 6000)
		must(t, os.WriteFile(files[1], own, 0o666))
		_, err := s.Refresh()
		must(t, err)
		mustHave(t, s, 0, 6000)
		if n := count(t, s, 20_000, 30_000); n > 200 {
			t.Errorf("%d of 10,000 absent keys found", n)
		}
	}
}

// TestWrites: each process may write to shards of its own. Readers see what was committed.
func TestWrites(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 40_000}, 4)
	path := mustBuild(t, t.TempDir(), p, numbers(0, 10_000))
	a, b, reader := mustOpen(t, path, nil), mustOpen(t, path, nil), mustOpen(t, path, nil)
	mustHave(t, a, 0, 10_000) // opens the shards for reading first
	must(t, a.OpenShards(0, 1))
	must(t, a.OpenShards(1))
	must(t, b.OpenShards(2, 3))
	held := new(mmapfilter.LockedError)
	if err := b.OpenShards(1); !errors.As(err, &held) {
		t.Errorf("a shard that is taken: %v", err)
	}
	if err := b.OpenShards(4); err == nil {
		t.Errorf("shard 4 of 4 has been opened")
	}
	mustHave(t, reader, 0, 10_000)
	for k := range numbers(10_000, 20_000) {
		errA, errB := a.Insert(k), b.Insert(k)
		if (errA == nil) == (errB == nil) || errA != nil && errA != mmapfilter.ErrReadOnly || errB != nil && errB != mmapfilter.ErrReadOnly {
			t.Fatalf("%s: %v, %v", k, errA, errB)
		}
		if !a.Contains(k) && errA == nil || !b.Contains(k) && errB == nil {
			t.Fatalf("%s is missing at once", k)
		}
	}
	more := batch(20_000, 30_000)
	nA, errA := a.InsertBatch(more[:500])
	nB, errB := b.InsertBatch(more[:500])
	if nA+nB != 500 || !errors.Is(errA, mmapfilter.ErrReadOnly) || !errors.Is(errB, mmapfilter.ErrReadOnly) {
		t.Errorf("batches: %d, %v; %d, %v", nA, errA, nB, errB)
	}
	fresh := batch(-1000, 0)
	added := make([]bool, len(fresh))
	if n, err := a.InsertUniqueBatch(fresh, added); n < 300 || n > 700 || !errors.Is(err, mmapfilter.ErrReadOnly) {
		t.Errorf("%d done, %v", n, err)
	}
	for i, is := range added {
		if is && (ShardOf(p.Hash(fresh[i]), 4) > 1 || !a.Contains(fresh[i])) {
			t.Fatalf("%s is new: %t", fresh[i], is)
		}
	}
	for _, s := range []*Set{a, b} {
		must(t, s.Sync())
	}
	mustHave(t, reader, 0, 20_000)
	for k := range numbers(0, 5000) {
		goneA, errA := a.Delete(k)
		goneB, errB := b.Delete(k)
		if goneA == goneB || errA != nil && errB != nil {
			t.Fatalf("%s: %t, %v; %t, %v", k, goneA, errA, goneB, errB)
		}
	}
	must(t, a.Checkpoint(background))
	must(t, b.Seal(background))
	must(t, a.Close())
	must(t, b.Close())
	all := mustOpen(t, path, nil)
	must(t, all.OpenShards())
	if n, err := all.InsertBatch(more[500:]); n != len(more)-500 || err != nil {
		t.Errorf("a batch into all shards: %d, %v", n, err)
	}
	offered := batch(29_000, 33_000)
	added = make([]bool, len(offered))
	n, err := all.InsertUniqueBatch(offered, added)
	if old := slices.Index(added, true); n != len(offered) || err != nil || old < 1000 {
		t.Errorf("%d done, %v, and key %d is new", n, err, old)
	}
	twice := append(batch(33_000, 33_500), batch(33_000, 33_500)...)
	added = make([]bool, len(twice))
	if n, err := all.InsertUniqueBatch(twice, added); n != len(twice) || err != nil || !added[0] || slices.Contains(added[500:], true) {
		t.Errorf("the first of two equal keys is not the new one: %d done, %v", n, err)
	}
	must(t, all.Sync())
	mustHave(t, reader, 5000, 33_000)
	mustHave(t, all, 5000, 33_000)
	if n := count(t, all, 0, 5000); n > 200 {
		t.Errorf("%d of 5,000 deleted keys are there", n)
	}
	must(t, all.Close())
	if err := all.Insert(number(1)); err != mmapfilter.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if err := mustFollow(t, path, mmapfilter.OpenOptions{}).OpenShards(); err != mmapfilter.ErrReadOnly {
		t.Errorf("a set that follows: %v", err)
	}
}

// TestRefusedKeysAreNotAdded: a batch says of the keys that a shard refuses that they are not added,
// whatever it has answered for earlier keys.
func TestRefusedKeysAreNotAdded(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 9000}, 2)
	s := mustOpen(t, mustBuild(t, t.TempDir(), p, numbers(0, 10)), nil)
	must(t, s.OpenShards(0))
	of := func(shard, n int) (keys [][]byte) {
		for i := 10; len(keys) < n; i++ {
			if k := number(i); ShardOf(p.Hash(k), 2) == shard {
				keys = append(keys, k)
			}
		}
		return keys
	}
	keys := append(of(0, mostKeys), of(1, 20)...)
	added := make([]bool, len(keys))
	n, err := s.InsertUniqueBatch(keys, added)
	if n != mostKeys || !errors.Is(err, mmapfilter.ErrReadOnly) || slices.Contains(added[n:], true) {
		t.Errorf("%d done, %v; of the others: %t", n, err, added[mostKeys:])
	}
}

// TestWarmSet: Warm opens and reads the files that the set has when it returns.
func TestWarmSet(t *testing.T) {
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{}, 3)
	path := mustBuild(t, dir, p, numbers(0, 6000))
	var s *Set
	var meanwhile func() // once
	reads := 0
	s = mustFollow(t, path, mmapfilter.OpenOptions{Progress: func(_, _ int64) {
		reads++
		if do := meanwhile; do != nil {
			meanwhile = nil
			do()
			_, err := s.Refresh()
			must(t, err)
		}
	}})
	meanwhile = func() {
		f, err := mmapfilter.Open(shards(t, path)[0], nil)
		must(t, err)
		must(t, f.Rebuild(background, &mmapfilter.RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 6000), nil }}))
		must(t, f.Close())
	}
	if err := s.Warm(background); err != nil || reads != 4 {
		t.Errorf("a shard is replaced: %d files were read: %v", reads, err)
	}
	meanwhile = func() { mustBuild(t, dir, p, numbers(0, 7000)) }
	reads = 0
	if err := s.Warm(background); err != nil || reads != 4 || s.Stats().Opened != 3 || s.Len() != 7000 {
		t.Errorf("the set is replaced: %d files were read, %d are open, with %d keys: %v", reads, s.Stats().Opened, s.Len(), err)
	}
	must(t, s.Close())
	if err := s.Warm(background); err != mmapfilter.ErrClosed {
		t.Errorf("closed: %v", err)
	}
}

// TestShardRebuilt: a shard whose writer rebuilds it, larger, stays in its set.
func TestShardRebuilt(t *testing.T) {
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{}, 3), numbers(0, 6000))
	follower, reader := mustFollow(t, path, mmapfilter.OpenOptions{}), mustOpen(t, path, nil)
	mustHave(t, follower, 0, 6000)
	mustHave(t, reader, 0, 6000)
	f, err := mmapfilter.Open(shards(t, path)[1], nil)
	must(t, err)
	must(t, f.Rebuild(background, &mmapfilter.RebuildOptions{Capacity: 50_000, Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 20_000), nil }}))
	must(t, f.Close())
	if n := f.Len(); n < 6300 || n > 7000 {
		t.Errorf("%d of 20,000 keys are in a shard of 3", n)
	}
	mustHave(t, reader, 0, 6000) // "maybe", since the file of the shard has been superseded
	if !errors.Is(reader.Err(), mmapfilter.ErrSuperseded) {
		t.Errorf("%v", reader.Err())
	}
	_, err = follower.Refresh()
	must(t, err)
	must(t, follower.Err())
	mustHave(t, follower, 0, 6000)
	if n := count(t, follower, 100_000, 110_000); n > 200 {
		t.Errorf("%d of 10,000 absent keys found", n)
	}
}

// TestSetRace uses a set from many goroutines while its shards are opened, replaced, written and closed.
func TestSetRace(t *testing.T) {
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{Capacity: 20_000}, 16)
	path := mustBuild(t, dir, p, numbers(0, 5000))
	follower, writer := mustFollow(t, path, mmapfilter.OpenOptions{}), mustOpen(t, path, nil)
	keys := batch(1000, 2000)
	ctx, cancel := context.WithCancel(background)
	var group sync.WaitGroup
	for _, s := range []*Set{follower, writer} {
		for _, size := range []int{1, len(keys)} {
			group.Add(1)
			go func() {
				defer group.Done()
				found := make([]bool, size)
				for i := 0; ctx.Err() == nil; i = (i + size) % len(keys) {
					if size > 1 {
						s.ContainsBatch(keys[i:i+size], found)
					} else {
						found[0] = s.Contains(keys[i])
					}
					if at := slices.Index(found, false); at >= 0 {
						t.Errorf("%s is missing in a batch of %d", keys[i+at], size)
						return
					}
					s.Len()
					s.Err()
				}
			}()
		}
	}
	for i := range 16 {
		must(t, writer.OpenShards(i))
		for k := range numbers(5000, 5100) {
			if err := writer.Insert(k); err != mmapfilter.ErrReadOnly {
				must(t, err)
			}
		}
		if i%4 == 0 {
			mustBuild(t, dir, p, numbers(900-50*i, 5000+50*i)) // builds another file for each shard
		}
		_, err := follower.Refresh()
		must(t, err)
	}
	must(t, writer.Close())
	must(t, follower.Close())
	cancel()
	group.Wait()
}
