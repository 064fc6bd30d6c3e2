package mmapfilter

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// aged is a filter and three positions of its history, with an insert and a rebuild after the first two.
type aged struct {
	*Filter
	path string
	at   [3]Position
}

func newAged(t *testing.T, keep time.Duration) *aged {
	t.Helper()
	a := &aged{path: filepath.Join(memoryDir(t), "filter.mmf")}
	f, err := Create(a.path, &Options{Capacity: 1000, KeepHashes: true, KeepChanges: keep, CommitInterval: -1})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	a.Filter = f
	for i := range a.at {
		must(t, errors.Join(f.Insert(numberKey(uint64(i))), f.Sync()))
		if a.at[i] = f.Position(); i < 2 {
			must(t, errors.Join(f.Insert(numberKey(uint64(10+i))), f.Rebuild(context.Background(), nil)))
		}
	}
	return a
}

// mustReach checks that the changes since position number from, and since later positions, are kept, and
// that those since earlier positions are gone.
func (a *aged) mustReach(t *testing.T, from int) {
	t.Helper()
	for i, since := range a.at {
		changed, to, err := changesOf(t, a.Filter, since, Classes{})
		switch {
		case i < from && !errors.Is(err, ErrChangesGone):
			t.Errorf("from position %d on: %v", i, err)
		case i >= from && (err != nil || to != a.at[2] || len(changed) != 2*(2-i)):
			t.Errorf("from position %d on: %d changes, to %v, %v", i, len(changed), to, err)
		}
	}
}

// mustName checks which files of former kept hashes the filter has.
func (a *aged) mustName(t *testing.T, past ...string) {
	t.Helper()
	names, err := filepath.Glob(a.path + ".past*")
	must(t, err)
	for i := range names {
		names[i] = names[i][len(a.path):]
	}
	if len(names) != len(past) {
		t.Fatalf("the files are %q, want %q", names, past)
	}
	for i := range past {
		if matched, _ := filepath.Match(past[i], names[i]); !matched {
			t.Errorf("the files are %q, want %q", names, past)
		}
	}
}

// age makes files of a filter look as if nobody had written to them for a time.
func (a *aged) age(t *testing.T, pattern string, by time.Duration) {
	t.Helper()
	names, err := filepath.Glob(a.path + pattern)
	must(t, err)
	for _, name := range names {
		then := time.Now().Add(-by)
		must(t, os.Chtimes(name, then, then))
	}
}

// TestKeepChanges covers K8: each rebuild keeps the history before it, for as long as the filter says.
func TestKeepChanges(t *testing.T) {
	a := newAged(t, 0)
	a.mustReach(t, 2)
	a.mustName(t)

	a = newAged(t, time.Hour)
	a.mustReach(t, 0)
	a.mustName(t, ".past", ".past.????????????????")
	a.age(t, ".past.*", 59*time.Minute)
	must(t, a.Rebuild(context.Background(), nil))
	a.mustName(t, ".past", ".past.????????????????", ".past.????????????????")
	a.mustReach(t, 0)
	a.age(t, ".past.*", 61*time.Minute)
	must(t, a.Rebuild(context.Background(), nil))
	a.mustName(t, ".past", ".past.????????????????")
	a.mustReach(t, 2)

	a.age(t, ".past*", 61*time.Minute)
	must(t, a.Close())
	a.Filter = mustOpen(t, a.path, nil)
	a.mustName(t)
	a.mustReach(t, 2)
	if a.superblockNow(t).KeepChanges() != uint64(time.Hour) {
		t.Error("the file no longer says for how long changes are kept")
	}
}

// TestKeepChangesOfIdle covers K8: the time for which changes are kept begins with the rebuild, even if
// the last write to the filter is longer ago than that.
func TestKeepChangesOfIdle(t *testing.T) {
	a := newAged(t, time.Hour)
	must(t, a.Checkpoint(context.Background()))
	a.age(t, ".hashes", 2*time.Hour)
	must(t, a.Rebuild(context.Background(), nil))
	a.mustReach(t, 0)
}

func (a *aged) superblockNow(t *testing.T) interface{ KeepChanges() uint64 } {
	f, head, err := osfile.OpenFile(a.path)
	must(t, err)
	must(t, f.Close())
	return head.Superblock
}

// TestPastOfOthers covers K8: a rebuild does not overwrite a file of another kind with the name
// NAME.past, and still keeps the changes. Create refuses a name if a former filter of this name has left
// NAME.past. If Build replaces a filter, it removes NAME.past.
func TestPastOfOthers(t *testing.T) {
	a := newAged(t, time.Hour)
	text := []byte("mine")
	must(t, os.Remove(a.path+".past"))
	must(t, os.WriteFile(a.path+".past", text, 0o600))
	before := a.Position()
	must(t, errors.Join(a.Insert(numberKey(20)), a.Rebuild(context.Background(), nil)))
	if string(readFile(t, a.path+".past")) != "mine" {
		t.Error("NAME.past, a file of another kind, is gone")
	}
	if changed, _, err := changesOf(t, a.Filter, before, Classes{}); err != nil || len(changed) != 1 {
		t.Errorf("%v, %v", changed, err)
	}
	must(t, errors.Join(a.Close(), os.Remove(a.path+".past")))

	a = newAged(t, time.Hour)
	must(t, a.Close())
	for _, suffix := range []string{"", ".hashes"} {
		must(t, os.Rename(a.path+suffix, a.path+".moved"+suffix))
	}
	if _, err := Create(a.path, &Options{Capacity: 10}); !errors.As(err, new(*ForeignError)) {
		t.Errorf("create: %v", err)
	}
	a.mustName(t, ".past", ".past.????????????????")

	a = newAged(t, time.Hour)
	must(t, a.Close())
	b, err := Build(context.Background(), a.path, &Options{}, numbers(0, 1))
	must(t, err)
	must(t, b.Close())
	a.mustName(t)
}

// TestRename covers Rename, which does not check lines, and K8: the history of a filter gets the new
// name, too. The history of the filter that had this name is removed.
func TestRename(t *testing.T) {
	a, b := newAged(t, time.Hour), newAged(t, time.Hour)
	must(t, errors.Join(a.Close(), b.Close()))
	r := mustOpenReadOnly(t, b.path, replaceable())
	data := readFile(t, a.path)
	data[layout.OffRegion+20] ^= 1
	must(t, os.WriteFile(a.path, data, 0o600))
	if _, err := Install(context.Background(), a.path, b.path, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Install of a damaged file: %v", err)
	}
	must(t, Rename(a.path, b.path))
	mustListed(t, filepath.Dir(a.path))
	if osfile.Replaces {
		mustBeSuperseded(t, r)
	}
	b.mustName(t, ".past", ".past.????????????????")
	a.path = b.path
	a.Filter = mustOpen(t, a.path, nil)
	a.mustReach(t, 0)
	if err := Rename(a.path, b.path+"x"); !errors.Is(err, ErrLocked) {
		t.Errorf("with a writer: %v", err)
	}
}

// TestDamagedPast covers K8: if NAME.past is damaged, the changes since its positions are gone.
func TestDamagedPast(t *testing.T) {
	for off := range 4 * layout.PageBytes {
		if off%311 != 0 {
			continue
		}
		a := newAged(t, time.Hour)
		if off == 0 {
			must(t, os.Truncate(a.path+".past", layout.PageBytes))
		} else if off/8*8+8 > int(sizeOf(t, a.path+".past")) {
			break
		} else {
			must(t, flipByte(a.path+".past", int64(off)))
		}
		for i := range 3 {
			if _, to, err := changesOf(t, a.Filter, a.at[i], Classes{}); err == nil && to != a.at[2] || err != nil && !errors.Is(err, ErrChangesGone) {
				t.Fatalf("byte %d, from position %d on: %v, %v", off, i, to, err)
			}
		}
		must(t, a.Close())
	}
}

// TestForks: Changes refuses positions of other filters, and those of a copy that has had other
// operations since the copy was made.
func TestForks(t *testing.T) {
	a := newAged(t, time.Hour)
	must(t, a.Checkpoint(context.Background()))
	backup := copyFilter(t, a.path)
	other := mustOpen(t, backup, nil)
	for i := range uint64(5) {
		must(t, errors.Join(a.Insert(numberKey(30+i)), other.Insert(numberKey(40+i)), a.Sync(), other.Sync()))
		if i == 2 {
			must(t, errors.Join(other.Checkpoint(context.Background()), a.Rebuild(context.Background(), nil)))
		}
		if a.Position().Number != other.Position().Number {
			t.Fatal(a.Position(), other.Position())
		}
		for _, f := range []*Filter{a.Filter, other} {
			since := a.Position()
			if f == a.Filter {
				since = other.Position()
			}
			if _, err := f.Changes(context.Background(), io.Discard, since); !errors.Is(err, ErrOtherDescent) {
				t.Errorf("%d operations after the fork: %v", i+1, err)
			}
			must(t, f.Insert(numberKey(50))) // the position is no longer the last one
			if _, err := f.Changes(context.Background(), io.Discard, since); !errors.Is(err, ErrOtherDescent) {
				t.Errorf("%d operations after the fork, and one more: %v", i+1, err)
			}
		}
	}
	for _, since := range []Position{{}, {a.at[0].Descent + 1, a.at[0].Number, a.at[0].Chain}, {a.at[0].Descent, 1 << 40, 0}} {
		if _, err := a.Changes(context.Background(), io.Discard, since); !errors.Is(err, ErrOtherDescent) {
			t.Errorf("%v: %v", since, err)
		}
	}
	for _, since := range a.at {
		if _, err := a.Changes(context.Background(), io.Discard, since); err != nil {
			t.Errorf("%v, before the fork: %v", since, err)
		}
	}
}

// TestDescents: DiscardLog and Repair, which may lose operations, begin another descent. So nobody can
// apply later changes to a copy that has the lost operations.
func TestDescents(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"discarded": func(path string) error {
			_, err := DiscardLog(path)
			return err
		},
		"repaired": func(path string) error {
			if _, err := Repair(context.Background(), path, nil); !errors.As(err, new(*LostError)) {
				return errors.Join(err, errors.New("Repair reports no loss"))
			}
			return nil
		},
	} {
		a := newAged(t, time.Hour)
		must(t, errors.Join(a.Checkpoint(context.Background()), a.Insert(numberKey(60)), a.Sync()))
		path := abandon(t, a.Filter, a.path)
		must(t, errors.Join(os.Remove(path+".stash"), lose(path)))
		if at := mustOpenReadOnly(t, path, nil).Position(); at.Descent == a.at[2].Descent || at.Number != a.at[2].Number {
			t.Errorf("%s: the position is %v, and was %v", name, at, a.Position())
		}
	}
}

// TestNoChanges covers the other errors of Changes.
func TestNoChanges(t *testing.T) {
	ctx := context.Background()
	f, _ := mustCreate(t, &Options{Capacity: 10})
	if _, err := f.Changes(ctx, io.Discard, Position{}); !errors.Is(err, ErrNoHashes) {
		t.Errorf("without hashes: %v", err)
	}
	a := newAged(t, time.Hour)
	replica, _, _ := mustSnapshot(t, a.Filter)
	if _, err := replica.Changes(ctx, io.Discard, a.at[2]); !errors.Is(err, ErrNoHashes) {
		t.Errorf("of a replica: %v", err)
	}
	if replica.Position() != a.at[2] {
		t.Error(replica.Position())
	}
	failed := errors.New("failed")
	if _, err := a.Changes(ctx, failingWriter{failed}, a.at[0]); !errors.Is(err, failed) {
		t.Errorf("to a writer that fails: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.Changes(cancelled, io.Discard, a.at[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	must(t, a.Close())
	if _, err := a.Changes(ctx, io.Discard, a.at[0]); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestChangesBesideWriter adds up the changes that the writer and a reader write, while a goroutine
// inserts, deletes, commits, makes checkpoints and rebuilds. No change may be lost or come twice.
func TestChangesBesideWriter(t *testing.T) {
	m := &changeModel{T: t, rng: rand.New(rand.NewPCG(11, 12)), now: counts{}}
	m.create(Options{Capacity: 5000, KeepChanges: time.Hour})
	reader := mustOpenReadOnly(t, m.path, nil)
	type sum struct {
		f     *Filter
		since Position
		counts
	}
	sums := []*sum{{m.f, m.f.Position(), counts{}}, {reader, m.f.Position(), counts{}}}
	add := func(s *sum) {
		changed, to, err := changesOf(t, s.f, s.since, Classes{})
		must(t, err)
		for hash, n := range changed {
			s.add(hash, n)
		}
		s.since = to
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range small(40, 15) {
			for range 5 {
				m.operate(50)
				must(t, m.f.Sync())
			}
			if i%3 == 0 {
				must(t, m.f.Checkpoint(context.Background()))
			}
			if i%10 == 9 {
				must(t, m.f.Rebuild(context.Background(), nil))
			}
		}
	}()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		default:
		}
		for _, s := range sums {
			add(s)
		}
	}
	must(t, m.f.Checkpoint(context.Background()))
	for _, s := range sums {
		if add(s); s.since != m.f.Position() || !maps.Equal(s.counts, m.now) {
			t.Errorf("the changes up to %v add up to %d hashes, not to the %d at %v", s.since, len(s.counts), len(m.now), m.f.Position())
		}
	}
}
