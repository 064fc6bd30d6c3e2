package sets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestFollowSetAtOnce covers R6: a set that looks only once an hour switches, after one lookup of any
// kind, to a file that has taken the place of a shard, and then to the next such file.
func TestFollowSetAtOnce(t *testing.T) {
	looks := map[string]func(s *Set, key []byte) bool{
		"Contains":       (*Set).Contains,
		"ContainsString": func(s *Set, key []byte) bool { return s.ContainsString(string(key)) },
		"ContainsBatch": func(s *Set, key []byte) bool {
			found := make([]bool, 1)
			s.ContainsBatch([][]byte{key}, found)
			return found[0]
		},
	}
	for _, look := range looks {
		for _, checked := range []bool{false, true} {
			dir, p := t.TempDir(), mustPlan(t, mmapfilter.Options{}, 1)
			path := mustBuild(t, dir, p, numbers(0, 5000))
			s, err := Follow(path, &mmapfilter.OpenOptions{FollowInterval: time.Hour, Checked: checked})
			must(t, err)
			defer s.Close()
			absent := 5000
			for s.Contains(number(absent)) {
				absent++
			}
			for range 2 {
				flip(t, shards(t, path)[0], 33_000)
				mustBuild(t, dir, p, numbers(0, 5000)) // builds the shard again, since it is damaged
				for look(s, number(absent)) {
					runtime.Gosched()
				}
			}
			mustHave(t, s, 0, 5000)
			must(t, s.Err())
		}
	}
}

// TestFollowSetVerifies covers OpenOptions.VerifyBeforeSwitch: neither a manifest with a damaged shard
// nor a damaged file in the place of a shard is used, and Follow itself refuses a set with such a
// shard.
func TestFollowSetVerifies(t *testing.T) {
	dir, p := t.TempDir(), mustPlan(t, mmapfilter.Options{}, 5)
	path := mustBuild(t, dir, p, numbers(0, 5000))
	opts := mmapfilter.OpenOptions{VerifyBeforeSwitch: true, FollowInterval: -1}
	damaged := func(err error, file string) {
		t.Helper()
		shard := new(ShardError)
		if !errors.As(err, &shard) || shard.Path != file || !errors.As(err, new(*mmapfilter.CorruptError)) {
			t.Errorf("%s is damaged: %v", file, err)
		}
	}
	s := mustFollow(t, path, opts)
	if st := s.Stats(); st.Opened != 5 {
		t.Errorf("%d shards are open", st.Opened)
	}
	before := shards(t, path)
	mustBuild(t, dir, p, numbers(0, 5001)) // one more key, so four shards stay
	fresh, taken := "", ""
	for _, file := range shards(t, path) {
		if !slices.Contains(before, file) {
			fresh = file
		}
	}
	for _, file := range before {
		if filepath.Base(file)[:len("shard-00000")] != filepath.Base(fresh)[:len("shard-00000")] {
			taken = file
		}
	}
	whole, err := os.ReadFile(fresh)
	must(t, err)
	flip(t, fresh, 33_000)
	for range 2 {
		swapped, err := s.Refresh()
		damaged(err, fresh)
		damaged(s.Err(), fresh)
		if swapped || s.Len() != 5000 || s.Stats().Swaps != 0 {
			t.Errorf("swapped: %t, %d keys, %d swaps", swapped, s.Len(), s.Stats().Swaps)
		}
		mustHave(t, s, 0, 5000)
	}
	_, err = Follow(path, &opts)
	damaged(err, fresh)
	unwary := mustOpen(t, path, &opts) // Open does not verify
	mustHave(t, unwary, 5000, 5001)
	must(t, unwary.Err())
	must(t, os.WriteFile(fresh, whole, 0o666))
	if swapped, err := s.Refresh(); !swapped || err != nil || s.Err() != nil {
		t.Errorf("an undamaged set: %t, %v, %v", swapped, err, s.Err())
	}
	mustHave(t, s, 0, 5001)

	whole, err = os.ReadFile(taken)
	must(t, err)
	must(t, os.WriteFile(taken+"x", whole, 0o666))
	flip(t, taken+"x", 33_000)
	must(t, os.Rename(taken+"x", taken))
	_, err = s.Refresh()
	damaged(err, taken)
	damaged(s.Err(), taken)
	mustHave(t, s, 0, 5001)
	must(t, os.WriteFile(taken+"x", whole, 0o666))
	must(t, os.Rename(taken+"x", taken))
	_, err = s.Refresh()
	must(t, err)
	must(t, s.Err())
	mustHave(t, s, 0, 5001)
}

// TestCloseEndsVerification: Close ends the verification of the shards of a new manifest, which holds
// the lock of the set. Then the old manifest stays.
func TestCloseEndsVerification(t *testing.T) {
	dir, p := t.TempDir(), mustPlan(t, mmapfilter.Options{}, 5)
	path := mustBuild(t, dir, p, numbers(0, 5000))
	s := mustFollow(t, path, mmapfilter.OpenOptions{VerifyBeforeSwitch: true})
	mustBuild(t, dir, p, numbers(0, 6000))
	closed := make(chan error)
	s.mu.Lock() // as Refresh does
	go func() { closed <- s.Close() }()
	<-s.poll.Life.Done()
	if _, err := s.read(s.state.Load()); !errors.Is(err, mmapfilter.ErrClosed) {
		t.Errorf("the verification went on to the end: %v", err)
	}
	mustHave(t, s, 0, 5000)
	s.mu.Unlock()
	must(t, <-closed)
}

// TestFollowSet: a new set under the same name takes over as a whole, the set tries again to open a
// shard that could not be opened, and a bad manifest changes nothing.
func TestFollowSet(t *testing.T) {
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{}, 5)
	s := mustFollow(t, filepath.Join(dir, "keys.set"), mmapfilter.OpenOptions{WaitForFile: true})
	if !s.Contains(number(1)) || !errors.Is(s.Err(), fs.ErrNotExist) || s.Stats().State != "waiting" {
		t.Errorf("without a manifest: %v, %+v", s.Err(), s.Stats())
	}
	refresh := func(want bool) {
		t.Helper()
		swapped, err := s.Refresh()
		must(t, err)
		if swapped != want {
			t.Errorf("swapped: %t", swapped)
		}
		must(t, s.Err())
	}
	path := mustBuild(t, dir, p, numbers(0, 5000))
	refresh(true)
	mustHave(t, s, 0, 5000)
	refresh(false)
	mustBuild(t, dir, p, numbers(1000, 7000))
	mustHave(t, s, 0, 5000)
	refresh(true)
	mustHave(t, s, 1000, 7000)
	if n := count(t, s, 0, 1000); n > 50 {
		t.Errorf("%d keys of the old set", n)
	}
	if s.Stats().Swaps != 2 || s.Len() != 6000 {
		t.Errorf("%d swaps, %d keys", s.Stats().Swaps, s.Len())
	}

	whole, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, whole[:len(whole)-1], 0o666))
	if swapped, err := s.Refresh(); swapped || !errors.Is(err, mmapfilter.ErrCorrupt) || !errors.Is(s.Err(), mmapfilter.ErrCorrupt) {
		t.Errorf("a bad manifest: %t, %v, %v", swapped, err, s.Err())
	}
	mustHave(t, s, 1000, 7000)
	must(t, os.WriteFile(path, whole, 0o666))
	s.Refresh()
	must(t, s.Err())

	mustBuild(t, dir, mustPlan(t, mmapfilter.Options{Seed: 3}, 3), numbers(1000, 7001)) // another seed and another number of shards
	refresh(true)
	mustHave(t, s, 1000, 7001)

	files, err := filepath.Glob(filepath.Join(dir, "shard-00001-of-00003-*.mmf"))
	must(t, err)
	must(t, os.Rename(files[0], files[0]+"x"))
	if _, err := s.Refresh(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a shard is missing: %v", err)
	}
	mustHave(t, s, 1000, 7001) // the old set is still mapped
	must(t, os.Rename(files[0]+"x", files[0]))
	refresh(false)

	fresh := mustFollow(t, path, mmapfilter.OpenOptions{})
	must(t, os.Rename(files[0], files[0]+"x"))
	mustHave(t, fresh, 1000, 7001)
	if n := count(t, fresh, 10_000, 20_000); n < 3000 || !errors.Is(fresh.Err(), fs.ErrNotExist) {
		t.Errorf("%d answers \"maybe\", %v", n, fresh.Err())
	}
	must(t, os.Rename(files[0]+"x", files[0]))
	_, err = fresh.Refresh()
	must(t, err)
	must(t, fresh.Err())
	if n := count(t, fresh, 10_000, 20_000); n > 200 {
		t.Errorf("%d of 10,000 absent keys found", n)
	}
}
