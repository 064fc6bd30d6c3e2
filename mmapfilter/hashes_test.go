package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestHashesMissing covers K1 and K2: a NAME.hashes that is missing, short, foreign, swapped or
// damaged is an error of what needs it. The filter answers and is written to all the same.
func TestHashesMissing(t *testing.T) {
	_, other := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 5000))
	_, past := mustBuild(t, &Options{KeepHashes: true, Capacity: 9000}, numbers(0, 5000))
	for name, damage := range map[string]func(path string) error{
		"missing":   os.Remove,
		"short":     func(path string) error { return os.Truncate(path, 8192) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"foreign":   func(path string) error { return copyOver(path, other+".hashes") },
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"older":     func(path string) error { return os.Rename(path+".older", path) },
		"header":    func(path string) error { return flipBit(path, 40) },
		"last page": func(path string) error { return flipBit(path, -100) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f.mmf")
			if err := errors.Join(copyOver(path, past), copyOver(path+".hashes", past+".hashes"), copyOver(path+".hashes.older", past+".hashes")); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			mustInsert(t, f, 5000, 6000)
			if err := errors.Join(f.Close(), damage(path+".hashes")); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path, &OpenOptions{RequireHashes: true}); !errors.Is(err, ErrNoHashes) {
				t.Errorf("strict: %v", err)
			}
			if r, err := Verify(context.Background(), path); err != nil || !errors.Is(r.HashesErr, ErrNoHashes) {
				t.Errorf("verify: %+v, %v", r, err)
			}
			if err := Merge(context.Background(), path+".merged", nil, path); !errors.Is(err, ErrNoHashes) {
				t.Errorf("merge: %v", err)
			}
			f, err = Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) {
				t.Errorf("rebuild: %v", err)
			}
			if _, err := f.ExpireBefore(context.Background(), time.Now()); !errors.Is(err, ErrNoHashes) {
				t.Errorf("expire: %v", err)
			}
			if f.Stats().GrowthErr == "" {
				t.Error("Stats do not say that growth is off")
			}
			mustInsert(t, f, 6000, 6100)
			mustDelete(t, f, 0, 100)
			if err := errors.Join(f.Checkpoint(context.Background()), f.Close()); err != nil {
				t.Fatal(err)
			}
			f, err = Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mustHave(t, f, 100, 6100)
			// Operations are missing from now on, whatever NAME.hashes becomes.
			if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) {
				t.Errorf("rebuild after writes: %v", err)
			}
		})
	}
}

// TestHashesDamaged covers K1: damage in the middle of NAME.hashes, which opening does not see,
// makes a rebuild fail.
func TestHashesDamaged(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 9000, KeepHashes: true})
	mustInsert(t, f, 0, 3000)
	if err := f.Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 3000, 6000)
	if err := f.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int{3*4096 + 800, 5*4096 + 9, 12*4096 + 2000} {
		if err := flipBit(path+".hashes", off); err != nil {
			t.Fatal(err)
		}
		if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) || !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", off, err)
		}
		if err := flipBit(path+".hashes", off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Rebuild(context.Background(), nil); err != nil {
		t.Error(err)
	}
	mustHave(t, f, 0, 6000)
}

// TestMerge covers C8 and K6: the new filter has the items of all inputs, or their union, with the same
// bytes each time.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	var inputs []string
	for i := range uint64(5) {
		path := filepath.Join(dir, "in"+string('0'+rune(i)))
		if i == 0 {
			f, err := Build(context.Background(), path, &Options{KeepHashes: true}, numbers(0, 2000))
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		} else {
			f, err := Create(path, &Options{KeepHashes: true, Capacity: 3000, Seed: DefaultSeed})
			if err != nil {
				t.Fatal(err)
			}
			mustInsert(t, f, 1000*i, 1000*i+2000)
			mustDelete(t, f, 1000*i, 1000*i+10)
			if i == 2 {
				if err := f.Rebuild(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				mustInsert(t, f, 1000*i, 1000*i+5)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		inputs = append(inputs, path)
	}
	for _, distinct := range []bool{false, true} {
		var first, firstHashes []byte
		for _, workers := range []int{1, 3} {
			out := filepath.Join(dir, "out")
			if err := Merge(context.Background(), out, &Options{Distinct: distinct, KeepHashes: true, Workers: workers}, inputs...); err != nil {
				t.Fatal(err)
			}
			r, err := Verify(context.Background(), out)
			want := uint64(5*2000 - 4*10 + 5)
			if distinct {
				want = 6000
			}
			if err != nil || r.Items != want || r.Hashes != want {
				t.Errorf("distinct %t: %+v, %v", distinct, r, err)
			}
			f, err := OpenReadOnly(out, nil)
			if err != nil {
				t.Fatal(err)
			}
			mustHave(t, f, 0, 6000)
			f.Close()
			data, err := os.ReadFile(out)
			hashes, err2 := os.ReadFile(out + ".hashes")
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if first == nil {
				first, firstHashes = data, hashes
			} else if string(first) != string(data) || string(firstHashes) != string(hashes) {
				t.Errorf("distinct %t: other bytes with %d workers", distinct, workers)
			}
		}
	}
	f, err := Create(filepath.Join(dir, "other"), &Options{KeepHashes: true, Capacity: 3000, Seed: 77})
	if err != nil {
		t.Fatal(err)
	}
	if err := Merge(context.Background(), filepath.Join(dir, "no"), nil, inputs[0], filepath.Join(dir, "other")); !errors.Is(err, ErrOtherSeed) {
		t.Errorf("another seed: %v", err)
	} else if e := new(fs.PathError); !errors.As(err, &e) || e.Path != filepath.Join(dir, "other") {
		t.Errorf("the error does not name the input: %v", err)
	}
	mustInsert(t, f, 0, 10)
	if err := Merge(context.Background(), filepath.Join(dir, "no"), nil, filepath.Join(dir, "other")); !errors.Is(err, ErrBusy) {
		t.Errorf("with a writer: %v", err)
	}
	f.Close()
	notes := filepath.Join(dir, "notes")
	if f, err = Create(notes, &Options{KeepHashes: true, Capacity: 100, Seed: DefaultSeed, Normalisation: "upper case"}); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 7000, 7001)
	f.Close()
	for _, given := range []string{"", "upper case"} {
		err = Merge(context.Background(), filepath.Join(dir, "no"), &Options{Normalisation: given}, inputs[0], notes)
		if !errors.Is(err, ErrOtherNormalisation) {
			t.Errorf("another note: %v", err)
		}
		for _, part := range []string{inputs[0], notes, `"upper case"`, `""`} {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not say %s", err, part)
			}
		}
	}
	if err := Merge(context.Background(), notes, &Options{AnyNormalisation: true}, inputs[0], notes); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenReadOnly(notes, nil); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if mustHave(t, f, 7000, 7001); f.Normalisation() != "" {
		t.Errorf("the note of the new filter is %q", f.Normalisation())
	}
	if err := Merge(context.Background(), filepath.Join(dir, "no"), nil); !errors.As(err, new(*OptionError)) {
		t.Errorf("no input: %v", err)
	}
}

// TestInPlace: a filter that Build or Merge puts in the place of one that grows keeps its hashes and
// grows, too, and goes on with its sequence.
func TestInPlace(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"merge": func(path string) error { return Merge(context.Background(), path, nil, path) },
		"build": func(path string) error {
			f, err := Build(context.Background(), path, nil, numbers(0, 900))
			if err == nil {
				err = f.Close()
			}
			return err
		},
	} {
		f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
		mustInsert(t, f, 0, 800)
		if err := f.SyncAt(7); err != nil {
			t.Fatal(err)
		}
		mustInsert(t, f, 800, 900)
		if err := errors.Join(f.Close(), replace(path)); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if seq, ops := f.DurableSeq(), f.DurableOps(); seq != 7 || ops != 100 {
			t.Errorf("%s: %d operations after %d", name, ops, seq)
		}
		mustInsert(t, f, 900, 10_000)
		mustHave(t, f, 0, 10_000)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestExpire covers C8 and K6: what is old goes, what is younger stays, with several items of a
// key, also after rebuilds, and if it is called again after it was cut off.
func TestExpire(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 20_000, KeepHashes: true, CommitInterval: -1})
	var now uint64 = 1000e9
	defer osfile.SetClock(func() uint64 { return now })()
	var at [6]time.Time
	for i := range uint64(6) {
		now = (1000 + 10*i) * 1e9
		at[i] = time.Unix(0, int64(now))
		mustInsert(t, f, 1000*i, 1000*i+1000)
		mustInsert(t, f, 1<<40, 1<<40+10) // again and again
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	mustDelete(t, f, 1<<40, 1<<40+5) // the oldest of each
	expire := func(before time.Time, want uint64) {
		t.Helper()
		n, err := f.ExpireBefore(context.Background(), before)
		if err != nil || n != want {
			t.Fatalf("%d expired, not %d: %v", n, want, err)
		}
	}
	expire(at[0].Add(500*time.Millisecond), 0)
	expire(at[1], 1000+5)
	expire(at[1], 0)
	if err := f.Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.ExpireBefore(cancelled, at[3]); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	expire(at[3], 2*(1000+10))
	mustHave(t, f, 3000, 6000)
	mustHave(t, f, 1<<40, 1<<40+10)
	expire(at[5].Add(time.Hour), 3*(1000+10))
	if f.Len() != 0 {
		t.Errorf("%d items are left", f.Len())
	}
}

// TestExpireAfterUpserts covers K7: a delete of a key that was not there, and then its insert, leave
// one item for two keys. The older one expires, and the younger one is still found.
func TestExpireAfterUpserts(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 5000, FalsePositiveRate: 0.05, KeepHashes: true})
	now := uint64(1000e9)
	defer osfile.SetClock(func() uint64 { return now })()
	mustInsert(t, f, 0, 4000)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	now = 2000e9
	strays := uint64(0)
	for key := range numbers(1<<40, 1<<40+500) {
		gone, err := f.Delete(key)
		if err = errors.Join(err, f.Insert(key)); err != nil {
			t.Fatal(err)
		}
		if gone {
			strays++
		}
	}
	if n, err := f.ExpireBefore(context.Background(), time.Unix(1500, 0)); n != 4000 || err != nil || strays == 0 {
		t.Fatalf("%d have expired; %d stray deletes; %v", n, strays, err)
	}
	mustHave(t, f, 1<<40, 1<<40+500)
	// Of a class with one stray, two young keys may share one item, or one may have two.
	if s := f.Stats(); s.Len < 500-strays || s.Len > 500+strays {
		t.Errorf("%d items, and %d stray deletes", s.Len, strays)
	}
	if err := f.Rebuild(context.Background(), nil); err != nil || f.Len() != 500 {
		t.Errorf("%d items, %v", f.Len(), err)
	}
}

// TestDiscardLosesHashes: DiscardLog leaves a filter without its hashes, since some were in the log.
func TestDiscardLosesHashes(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 500)
	if err := f.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 500, 900)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	path = abandon(t, f, path)
	if err := os.Remove(path + ".stash"); err != nil {
		t.Fatal(err)
	}
	if found, err := DiscardLog(path); err != nil || !found.Discarded {
		t.Fatalf("%+v, %v", found, err)
	}
	if r, err := Verify(context.Background(), path); err != nil || !errors.Is(r.HashesErr, ErrNoHashes) {
		t.Errorf("%+v, %v", r, err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) {
		t.Errorf("rebuild: %v", err)
	}
	mustHave(t, f, 0, 900)
	f.Close()
}

// TestRebuildEndsGrowthErr: a filter that cannot grow, since its hashes are lost, can once it is rebuilt
// from its keys, and then reports no error.
func TestRebuildEndsGrowthErr(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100, AutoGrow: true})
	mustInsert(t, f, 0, 80)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".hashes"); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := uint64(80)
	for ; err == nil; n++ {
		err = f.Insert(fmt.Appendf(nil, "late %d", n))
	}
	if !errors.Is(err, ErrFull) || !errors.Is(f.growthErr(f.open.Load()), ErrNoHashes) {
		t.Fatalf("%v; %v", err, f.growthErr(f.open.Load()))
	}
	old := f.open.Load()
	err = f.Rebuild(context.Background(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 80), nil }})
	if s := f.Stats(); err != nil || s.GrowthErr != "" {
		t.Errorf("%v; %q", err, s.GrowthErr)
	}
	if err := f.growthErr(old); err != nil { // Stats may have begun before the rebuild ended
		t.Error(err)
	}
	mustInsert(t, f, 80, 2000)
	mustHave(t, f, 0, 2000)
}

// TestRepair covers K6: whichever byte of a filter at rest is damaged, Verify finds it or it does
// not matter, and Repair mends the file.
func TestRepair(t *testing.T) {
	for _, opts := range []*Options{{Capacity: 300, KeepHashes: true}, {Capacity: 100, KeepHashes: true, Layout: layout.Packed}} {
		f, path := mustCreate(t, opts)
		items := opts.Capacity - 20
		mustInsert(t, f, 0, opts.Capacity)
		mustDelete(t, f, 0, 20)
		if err := errors.Join(f.SyncAt(9), f.Close()); err != nil {
			t.Fatal(err)
		}
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		hashes, err := os.ReadFile(path + ".hashes")
		if err != nil {
			t.Fatal(err)
		}
		if repaired, err := Repair(context.Background(), path, nil); err != nil || repaired {
			t.Fatalf("a good file: %t, %v", repaired, err)
		}
		_, _, g, err := layout.Newest(good[:layout.OffRuntime])
		if err != nil {
			t.Fatal(err)
		}
		step := func(off int) int {
			switch region := off >= layout.OffRegion && off < layout.OffRegion+int(g.RegionBytes); {
			case testing.Short():
				return 1009
			case region:
				return 1
			case off >= layout.OffRuntime:
				return 311
			}
			return 1009
		}
		for off := 0; off < len(good); off += step(off) {
			bad := append([]byte(nil), good...)
			bad[off] ^= 1 << (off % 8)
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			_, broken := Verify(context.Background(), path)
			inLines := off >= layout.OffRegion && off < layout.OffRegion+64
			if inLines && broken == nil {
				t.Fatalf("byte %d of the lines: no damage is found", off)
			}
			if broken == nil && off%64 != 0 {
				continue
			}
			repaired, err := Repair(context.Background(), path, nil)
			if err != nil || repaired != (broken != nil) {
				t.Fatalf("byte %d: repaired %t, %v; damage: %v", off, repaired, err, broken)
			}
			r, err := Verify(context.Background(), path)
			if err != nil || r.Items != items || r.Hashes != items {
				t.Fatalf("byte %d: after the repair: %+v, %v", off, r, err)
			}
			if err := os.WriteFile(path+".hashes", hashes, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
