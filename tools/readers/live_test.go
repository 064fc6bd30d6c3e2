package readers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The statuses that mmf_status returns.
const (
	served      = "0"
	unrecovered = "1"
	recovering  = "2"
	superseded  = "3"
	replaced    = "4"
)

const (
	certainlyNot = "0"
	maybe        = "1"
)

// create creates a filter, inserts the keys "key 0" to "key 99", and syncs it.
func create(t *testing.T, path string, opts mmapfilter.Options) *mmapfilter.Filter {
	t.Helper()
	opts.Capacity, opts.FalsePositiveRate, opts.Seed = 10_000, 0.0001, 5
	f, err := mmapfilter.Create(path, &opts)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	for i := range 100 {
		must(t, f.Insert(fmt.Appendf(nil, "key %d", i)))
	}
	must(t, f.Sync())
	return f
}

// TestBesideAWriter checks that a reader sees the operations that a writer has committed, and those in
// the file after the writer has closed it, even if the file has a history.
func TestBesideAWriter(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		besideAWriter(t, v, mmapfilter.Options{})
		kept := besideAWriter(t, v, mmapfilter.Options{KeepHashes: true})
		f, err := mmapfilter.Open(kept, nil)
		must(t, err)
		added, err := f.InsertUnique([]byte("key 7"))
		if err != nil || added {
			t.Fatal(added, err)
		}
		deleted, err := f.Delete([]byte("key 8"))
		if err := errors.Join(err, f.Close()); err != nil || !deleted {
			t.Fatal(deleted, err)
		}
		_, sb, _, err := layout.Newest(mustRead(t, kept)[:layout.OffRuntime])
		if err != nil || sb.Hashes().Last == 0 || sb.Descent() == 0 || sb.LastTime() == 0 || sb.Kept().LeftOut != 1 || sb.Kept().Waiting != 1 {
			t.Fatal(sb.Hashes(), sb.Kept(), err)
		}
		s := openSession(t, v, kept)
		s.want("a history", "s", served)
		s.want("a history", "l", "100")
		s.want("a history", "kkey 7", maybe)
		s.want("a history", "kkey 8", maybe)
		s.want("a history", "klate", certainlyNot)
	})
}

// besideAWriter reads a filter with the given options while a writer has it open, and after its close.
// It returns the path.
func besideAWriter(t *testing.T, v variant, opts mmapfilter.Options) string {
	path := filepath.Join(t.TempDir(), "x.mmf")
	f := create(t, path, opts)
	s := openSession(t, v, path)
	s.want("beside a writer", "s", served)
	s.want("beside a writer", "kkey 7", maybe)
	s.want("beside a writer", "klate", certainlyNot)
	must(t, errors.Join(f.Insert([]byte("late")), f.Sync()))
	s.want("after a commit", "klate", maybe)
	if _, err := f.Delete([]byte("late")); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
	s.want("after the close", "s", served)
	s.want("after the close", "klate", certainlyNot)
	s.want("after the close", "l", "100")
	return path
}

// copyFile copies a file, if it exists.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o666)
	}
	must(t, err)
}

// TestWriterDied checks that lookups in the file of a dead writer answer "maybe" until it is recovered.
func TestWriterDied(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		for _, name := range []string{"halves", "compact", "kept"} {
			path := filepath.Join(t.TempDir(), "x.mmf")
			for _, end := range []string{"", ".stash", ".hashes"} {
				copyFile(t, "../../testdata/live/"+name+".mmf"+end, path+end)
			}
			s := openSession(t, v, path)
			s.want(name, "s", unrecovered)
			for i := range 200 {
				s.want(name, fmt.Sprintf("kabsent %d", i), maybe)
			}
			if _, err := mmapfilter.Recover(path); err != nil {
				t.Fatal(err)
			}
			s.want(name+" recovered, before the reader asks for the status", "kabsent", maybe)
			s.want(name+" recovered", "s", served)
			f, err := mmapfilter.OpenReadOnly(path, nil)
			must(t, err)
			for i := range 500 {
				for _, key := range []string{fmt.Sprintf("key %d", i), fmt.Sprintf("late %d", i), fmt.Sprintf("absent %d", i)} {
					s.want(name+" recovered", "k"+key, map[bool]string{true: maybe, false: certainlyNot}[f.ContainsString(key)])
				}
			}
			f.Close()
		}
	})
}

// TestLostSuperblock damages the superblock that says that a file is live. Then an older superblock is
// in force, and readers must notice that the log is ahead of it (L2). A log that a clean close failed to
// remove is not ahead.
func TestLostSuperblock(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		dir := t.TempDir()
		path, copied := filepath.Join(dir, "x.mmf"), filepath.Join(dir, "y.mmf")
		f := create(t, path, mmapfilter.Options{})
		copyFile(t, path, copied)
		copyFile(t, path+".stash", copied+".stash")
		openSession(t, v, copied).want("a live file without a writer", "s", unrecovered)
		data := mustRead(t, copied)
		slot, sb, _, err := layout.Newest(data[:layout.OffRuntime])
		if err != nil || sb.State() != layout.Live {
			t.Fatal(sb.State(), err)
		}
		data[slot*layout.SuperblockBytes+100] ^= 1
		if _, sb, _, err = layout.Newest(data[:layout.OffRuntime]); err != nil || sb.State() != layout.Clean {
			t.Fatal(sb.State(), err)
		}
		must(t, os.WriteFile(copied, data, 0o666))
		if _, err := mmapfilter.OpenReadOnly(copied, nil); !errors.Is(err, mmapfilter.ErrCorrupt) {
			t.Errorf("Go opens the file: %v", err)
		}
		s := openSession(t, v, copied)
		s.want("a lost superblock", "s", unrecovered)
		s.want("a lost superblock", "kabsent", maybe)
		must(t, f.Close())
		copyFile(t, path, copied)
		s = openSession(t, v, copied)
		s.want("a log that is left", "s", served)
		s.want("a log that is left", "kabsent", certainlyNot)
	})
}

// TestLeftLog puts logs beside a file at rest. A superblock is lost (L2) only if the log has operations
// of a later generation of this file.
func TestLeftLog(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		dir := t.TempDir()
		path, copied := filepath.Join(dir, "x.mmf"), filepath.Join(dir, "y.mmf")
		built, err := mmapfilter.Build(context.Background(), path, nil, keysFrom(0, 100))
		must(t, err)
		built.Close()
		copyFile(t, path, copied)
		f, err := mmapfilter.Open(path, nil) // the first operation gives this file another UUID than copied has
		if err == nil {
			err = errors.Join(f.Insert([]byte("late")), f.Sync())
		}
		must(t, err)
		own := mustRead(t, path+".stash")
		must(t, f.Close())
		begun := make([]byte, len(own))
		copy(begun, own[:wal.FirstWord*8])
		torn := append([]byte(nil), own...)
		for at := wal.FirstWord * 8; at < len(torn); at += wal.PageBytes {
			torn[at] ^= torn[at] & 1 // the magic of a segment
		}
		other := append([]byte(nil), begun...)
		half, _ := wal.Half(uint64(len(own))/8, 1)
		copy(other[8*half:], own[wal.FirstWord*8:][:wal.PageBytes])
		_, sb, _, err := layout.Newest(mustRead(t, copied)[:layout.OffRuntime])
		must(t, err)
		later := make([]byte, len(own))
		wal.PutHeader(func(i, v uint64) { binary.LittleEndian.PutUint64(later[8*i:], v) },
			wal.Header{UUID: sb.UUID(), Generation: sb.Generation() + 2, Salt: 1, Bytes: int64(len(own))})
		for _, c := range []struct {
			what, status, answer string
			log                  []byte
		}{
			{"operations in the other half", unrecovered, maybe, other},
			{"two generations later", unrecovered, maybe, later},
			{"its log", unrecovered, maybe, own},
			{"its log with damage", unrecovered, maybe, torn},
			{"a log without operations", served, certainlyNot, begun},
			{"the log of another file", served, certainlyNot, mustRead(t, "../../testdata/live/halves.mmf.stash")},
			{"nonsense", served, certainlyNot, []byte("MMAPFLOG")},
		} {
			for _, end := range []string{".stash", ".stash.new"} {
				must(t, os.WriteFile(copied+end, c.log, 0o666))
				g, err := mmapfilter.OpenReadOnly(copied, &mmapfilter.OpenOptions{NoRecover: true})
				if err == nil {
					g.Close()
				}
				if (err == nil) != (c.status == served) && c.what != "its log with damage" {
					t.Errorf("%s: Go: %v", c.what, err)
				}
				s := openSession(t, v, copied)
				s.want(c.what, "s", c.status)
				s.want(c.what, "kabsent", c.answer)
				must(t, os.Remove(copied+end))
			}
		}
		must(t, os.WriteFile(copied+".stash", own, 0o666))
		if v.flags != sanitized { // a reader that may open no more files cannot know that there is no log
			got := output(t, strings.NewReader(copied), "sh", "-c", `ulimit -n 4 && exec "$0" opens`, probe(t, v))
			if want := "0 " + unrecovered + " 100\n"; string(got) != want {
				t.Errorf("too many open files: %q, not %q", got, want)
			}
		}
	})
}

// TestDirectory checks that a reader finds the path of its filter even if the working directory changes.
func TestDirectory(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.mmf")
		copyFile(t, "../../testdata/live/halves.mmf", path)
		copyFile(t, "../../testdata/live/halves.mmf.stash", path+".stash")
		here, err := os.Getwd()
		must(t, err)
		relative, err := filepath.Rel(here, path)
		must(t, err)
		s := openSession(t, v, relative)
		s.want("here", "s", unrecovered)
		s.want("here", "d/", "0")
		s.want("elsewhere", "s", unrecovered)
		if _, err := mmapfilter.Recover(path); err != nil {
			t.Fatal(err)
		}
		s.want("elsewhere, recovered", "s", served)
		copyFile(t, path, path+".new")
		must(t, os.Rename(path+".new", path))
		s.want("elsewhere, another file", "s", replaced)
	})
}

// TestOtherFile replaces a file by a rebuild or a build. The status of the old file must say so, and its
// lookups must answer "maybe" from then on.
func TestOtherFile(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		path := filepath.Join(t.TempDir(), "x.mmf")
		f := create(t, path, mmapfilter.Options{KeepHashes: true})
		old := openSession(t, v, path)
		old.want("before", "kabsent", certainlyNot)
		must(t, f.Rebuild(context.Background(), &mmapfilter.RebuildOptions{Capacity: 30_000}))
		old.want("a rebuild", "s", superseded)
		old.want("a rebuild", "kabsent", maybe)
		s := openSession(t, v, path)
		s.want("the new file", "s", served)
		s.want("the new file", "kkey 9", maybe)
		s.want("the new file", "kabsent", certainlyNot)
		must(t, f.Close())
		old.want("the old file after the close", "s", superseded)
		old.want("the old file after the close", "kabsent", maybe)

		built, err := mmapfilter.Build(context.Background(), path, nil, keysFrom(0, 100))
		must(t, err)
		built.Close()
		s.want("a build", "s", superseded)
		s.want("a build", "kabsent", maybe)
	})
}

// TestCounters sets the epoch and each removal counter in turn to an odd number, as a dead writer may
// leave it, and compares the answers with those of Go. Only keys whose places are guarded by the counter
// may be answered "maybe".
func TestCounters(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		for _, opts := range []mmapfilter.Options{
			{}, {FalsePositiveRate: 1e-6},
			{Layout: layout.Packed, FingerprintBits: 31, BucketSize: 8}, {Layout: layout.SemiSorted, FingerprintBits: 13},
		} {
			path := filepath.Join(t.TempDir(), "x.mmf")
			opts.Capacity, opts.Seed = 20_000, 3
			built, err := mmapfilter.Build(context.Background(), path, &opts, keysFrom(0, 20_000))
			must(t, err)
			built.Close()
			f, err := mmapfilter.OpenReadOnly(path, nil)
			must(t, err)
			defer f.Close()
			w, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer w.Close()
			s := openSession(t, v, path)
			var keys []string
			for i := 0; len(keys) < 12; i++ {
				if key := fmt.Sprintf("absent %d", i); !f.ContainsString(key) {
					keys = append(keys, key)
				}
			}
			maybes := 0
			check := func(what string) (n int) {
				t.Helper()
				for _, key := range keys {
					in := f.ContainsString(key)
					if in {
						n++
					}
					s.want(fmt.Sprintf("%v, %s", opts.Layout, what), "k"+key, map[bool]string{true: maybe, false: certainlyNot}[in])
				}
				return n
			}
			set := func(word int, to uint64) {
				t.Helper()
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], to)
				if _, err := w.WriteAt(b[:], int64(layout.OffRuntime+8*word)); err != nil {
					t.Fatal(err)
				}
			}
			layout.Counters(func(word uint64) {
				set(int(word), 7)
				maybes += check(fmt.Sprintf("counter %d is odd", word))
				set(int(word), 8)
			})
			if maybes < len(keys) || maybes > 6*len(keys) {
				t.Errorf("%v: with odd counters, %d lookups answer \"maybe\"", opts.Layout, maybes)
			}
			set(layout.RuntimeEpoch, 3)
			if n := check("the epoch is odd"); n != len(keys) {
				t.Errorf("with an odd epoch, %d keys are answered \"maybe\"", n)
			}
			s.want("a recovery after the opening", "s", served)
			set(layout.RuntimeEpoch, layout.Superseded)
			s.want("superseded", "s", superseded)
			check("superseded")
			set(layout.RuntimeEpoch, 4)
			if n := check("all are even"); n != 0 {
				t.Errorf("with even words, %d keys are answered \"maybe\"", n)
			}
		}
	})
}

// scenes returns a file with the stores of writers, and with keys that are present meanwhile.
var scenes = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(scratch, "scenes")
	return path, run("go", "test", "../../mmapfilter/internal/writer", "-run", "^TestSchedules$/^another_process$|^TestRecoverySchedules$", "-args", "-scenes", path)
})

// TestSchedules makes the stores of operations and recoveries in three pieces, between the loads of a
// lookup, in all ways to divide them.
func TestSchedules(t *testing.T) {
	path, err := scenes()
	must(t, err)
	each(t, func(t *testing.T, v variant) {
		t.Logf("%s", output(t, nil, program(t, "threads", v, "-pthread"), path, "schedules"))
	})
}

// TestThreads runs a writer and readers in one process, where -fsanitize=thread checks their accesses.
func TestThreads(t *testing.T) {
	path, err := scenes()
	must(t, err)
	all := []variant{{compiler(t), plain}}
	if *sanitize {
		all = nil
		for _, v := range variants(t) {
			if v.flags == sanitized {
				v.flags = threaded
			}
			all = append(all, v)
		}
	}
	for _, v := range all {
		rounds := "5000"
		if v.flags == threaded {
			rounds = "500"
		}
		t.Logf("%s: %s", v, strings.TrimSpace(string(output(t, nil, program(t, "threads", v, "-pthread"), path, rounds))))
	}
}
