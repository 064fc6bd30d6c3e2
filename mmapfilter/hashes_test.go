package mmapfilter

import (
	"bytes"
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

// mustLack checks that an error says that there are no hashes.
func mustLack(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrNoHashes) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestHashesMissing covers K1 and K2: if NAME.hashes is missing, short, foreign, older or damaged, calls
// that need it return an error and change nothing. The filter still answers and takes operations. If the
// hashes come back afterwards, they do not count, because these operations are missing from them.
func TestHashesMissing(t *testing.T) {
	_, other := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 1000))
	_, past := mustBuild(t, &Options{KeepHashes: true, Capacity: 2000}, numbers(0, 1000))
	for name, damage := range map[string]func(path string) error{
		"missing":   os.Remove,
		"short":     func(path string) error { return os.Truncate(path, 8192) },
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"foreign":   func(path string) error { return copyOver(path, other+".hashes") },
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) },
		"older":     func(path string) error { return copyOver(path, past+".hashes") },
		"header":    func(path string) error { return flipByte(path, 40) },
		"last page": func(path string) error { return flipByte(path, -100) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, path := t.Context(), filepath.Join(t.TempDir(), "f.mmf")
			hashes, require := path+".hashes", &OpenOptions{RequireHashes: true}
			must(t, errors.Join(copyOver(path, past), copyOver(hashes, past+".hashes")))
			opened(t, path, func(f *Filter) { mustInsert(t, f, 1000, 1900) })
			good := readFile(t, hashes)
			back := func() {
				must(t, errors.Join(os.RemoveAll(hashes), os.WriteFile(hashes, good, 0o600)))
			}
			refused := func() {
				t.Helper()
				_, err := Open(path, require)
				mustLack(t, "open", err)
				_, err = OpenOrCreate(path, &Options{Capacity: 9}, require)
				mustLack(t, "open or create", err)
				r, err := Verify(ctx, path)
				if mustLack(t, "verify", r.HashesErr); err != nil {
					t.Error(err)
				}
				mustLack(t, "merge", Merge(ctx, path+".merged", nil, path))
			}
			must(t, damage(hashes))
			refused()
			back()
			f, err := Open(path, require)
			must(t, err)
			must(t, errors.Join(f.Close(), damage(hashes)))
			opened(t, path, func(f *Filter) {
				mustLack(t, "rebuild", f.Rebuild(ctx, nil))
				_, err := f.ExpireBefore(ctx, time.Now())
				if mustLack(t, "expire", err); f.Stats().GrowthErr == "" {
					t.Error("Stats does not say that the filter cannot grow")
				}
				mustInsert(t, f, 1900, 2000)
				mustDelete(t, f, 0, 100) // as many items as before
				if err := f.Checkpoint(ctx); err != nil {
					t.Error(err)
				}
			})
			back()
			refused()
			if repaired, err := Repair(ctx, path, nil); repaired || err != nil {
				t.Errorf("repair: %t, %v", repaired, err)
			}
			opened(t, path, func(f *Filter) {
				mustHave(t, f, 100, 2000)
				mustLack(t, "rebuild", f.Rebuild(ctx, nil))
			})
		})
	}
}

// TestHashesOfADeadWriter covers K2: calls that need the hashes of a filter whose writer died, and do
// not find them, fail and change nothing. Once NAME.hashes is back, the filter can be used as before.
func TestHashesOfADeadWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	mustInsert(t, f, 0, 500)
	must(t, f.Checkpoint(t.Context()))
	mustInsert(t, f, 500, 700)
	path = abandon(t, f, path)
	must(t, os.Rename(path+".hashes", path+".away"))
	_, err := Open(path, &OpenOptions{RequireHashes: true})
	mustLack(t, "open", err)
	_, err = Repair(t.Context(), path, nil)
	mustLack(t, "repair", err)
	mustLack(t, "merge", Merge(t.Context(), path+".other", nil, path))
	must(t, os.Rename(path+".away", path+".hashes"))
	opened(t, path, func(f *Filter) {
		mustInsert(t, f, 700, 5000)
		mustHave(t, f, 0, 5000)
	})
}

// TestHashesDamaged covers K1: damage in the middle of NAME.hashes, which opening does not find, makes a
// rebuild fail.
func TestHashesDamaged(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 9000, KeepHashes: true})
	mustInsert(t, f, 0, 3000)
	must(t, f.Rebuild(context.Background(), nil))
	mustInsert(t, f, 3000, 6000)
	must(t, f.Checkpoint(context.Background()))
	for _, off := range []int64{3*4096 + 800, 5*4096 + 9, 12*4096 + 2000} {
		damaged := flipByte(path+".hashes", off)
		if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) || !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", off, err)
		}
		_, err := f.ExpireBefore(context.Background(), time.Now())
		mustLack(t, "expire", err)
		must(t, errors.Join(damaged, flipByte(path+".hashes", off)))
	}
	if err := f.Rebuild(context.Background(), nil); err != nil {
		t.Error(err)
	}
	mustHave(t, f, 0, 6000)
}

// TestMerge covers C8 and K6: the new filter has the items of all inputs, or with Distinct each key
// once. The number of workers does not change its bytes.
func TestMerge(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	var inputs []string
	for i := range uint64(4) {
		f, path := mustCreate(t, &Options{KeepHashes: true, Capacity: 3000, Seed: DefaultSeed})
		mustInsert(t, f, 1000*i, 1000*i+2000)
		mustDelete(t, f, 1000*i, 1000*i+10)
		must(t, f.Close())
		inputs = append(inputs, path)
	}
	_, built := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 1000))
	inputs = append(inputs, built)
	for distinct, want := range map[bool]uint64{false: 4*1990 + 1000, true: 5000} {
		var before [2][]byte
		for _, workers := range []int{1, 3} {
			out := filepath.Join(dir, "out")
			must(t, Merge(ctx, out, &Options{Distinct: distinct, KeepHashes: true, Workers: workers}, inputs...))
			if r, err := Verify(ctx, out); err != nil || r.Items != want || r.Hashes != want {
				t.Errorf("distinct %t: %+v, %v", distinct, r, err)
			}
			opened(t, out, func(f *Filter) { mustHave(t, f, 0, 5000) })
			made := [2][]byte{readFile(t, out), readFile(t, out+".hashes")}
			if workers > 1 && (!bytes.Equal(made[0], before[0]) || !bytes.Equal(made[1], before[1])) {
				t.Errorf("distinct %t: other bytes with %d workers", distinct, workers)
			}
			before = made
		}
	}
}

// TestMergeRefuses: the errors of Merge name the inputs that cannot be merged. With AnyNormalisation,
// Merge accepts inputs with different notes on normalisation, and drops the notes.
func TestMergeRefuses(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	create := func(name string, o Options) (*Filter, string) {
		path := filepath.Join(dir, name)
		o.KeepHashes, o.Capacity = true, 100
		f, err := Create(path, &o)
		must(t, err)
		mustInsert(t, f, 0, 10)
		return f, path
	}
	f, plain := create("plain", Options{Seed: DefaultSeed})
	f.Close()
	f, noted := create("noted", Options{Seed: DefaultSeed, Normalisation: "upper case"})
	f.Close()
	f, other := create("other", Options{Seed: 77})
	f.Close()
	f, busy := create("busy", Options{Seed: 77})
	for name, c := range map[string]struct {
		opts   *Options
		inputs []string
		want   error
		says   []string
	}{
		"another seed": {nil, []string{plain, other}, ErrOtherSeed, []string{other}},
		"a writer":     {nil, []string{busy}, ErrBusy, []string{busy}},
		"another note": {nil, []string{plain, noted}, ErrOtherNormalisation, []string{plain, noted, `"upper case"`, `""`}},
		"a given note": {&Options{Normalisation: "upper case"}, []string{plain, noted}, ErrOtherNormalisation, []string{plain, noted, `"upper case"`, `""`}},
		"no input":     {nil, nil, nil, nil},
	} {
		err := Merge(ctx, filepath.Join(dir, "no"), c.opts, c.inputs...)
		if err == nil || c.want == nil && !errors.As(err, new(*OptionError)) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range c.says {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v does not say %s", name, err, part)
			}
		}
	}
	must(t, errors.Join(f.Close(), Merge(ctx, noted, &Options{AnyNormalisation: true}, plain, noted)))
	opened(t, noted, func(f *Filter) {
		if mustHave(t, f, 0, 10); f.Len() != 20 || f.Normalisation() != "" {
			t.Errorf("%d items; the note of the new filter is %q", f.Len(), f.Normalisation())
		}
	})
}

// commitAt sets the clock, and inserts and commits keys.
func commitAt(t *testing.T, f *Filter, clock *uint64, now, from, to uint64) {
	t.Helper()
	*clock = now
	mustInsert(t, f, from, to)
	must(t, f.Sync())
}

// mustExpire checks how many items ExpireBefore deletes.
func mustExpire(t *testing.T, f *Filter, before time.Time, want uint64) {
	t.Helper()
	if n, err := f.ExpireBefore(t.Context(), before); n != want || err != nil {
		t.Errorf("%d keys from before %v expired, not %d: %v", n, before, want, err)
	}
}

// TestExpireAfterUpserts covers K7: if a delete of an absent key removes an item of another key, and
// then the absent key is inserted, one item answers for two keys. When the older key expires, the
// younger one is still found.
func TestExpireAfterUpserts(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 5000, FalsePositiveRate: 0.05, KeepHashes: true})
	now := uint64(1000e9)
	defer osfile.SetClock(func() uint64 { return now })()
	commitAt(t, f, &now, 1000e9, 0, 4000)
	now = 2000e9
	strays := uint64(0)
	for key := range numbers(1<<40, 1<<40+500) {
		gone, err := f.Delete(key)
		err = errors.Join(err, f.Insert(key))
		must(t, err)
		if gone {
			strays++
		}
	}
	mustExpire(t, f, time.Unix(1500, 0), 4000)
	mustHave(t, f, 1<<40, 1<<40+500)
	// In a class with one stray delete, two young keys may share one item, or one key may have two.
	if s := f.Stats(); strays == 0 || s.Len < 500-strays || s.Len > 500+strays {
		t.Errorf("%d items, and %d stray deletes", s.Len, strays)
	}
	if err := f.Rebuild(context.Background(), nil); err != nil || f.Len() != 500 {
		t.Errorf("%d items, %v", f.Len(), err)
	}
}

// TestExpireWithWrongClocks covers K6: however wrong the clock was, ExpireBefore deletes no item that is
// too young. It deletes all older items once a rebuild was made with the right time.
func TestExpireWithWrongClocks(t *testing.T) {
	const hour = uint64(3600e9)
	at := func(hours uint64) time.Time { return time.Unix(0, int64(hours*hour)) }
	for name, wrong := range map[string]uint64{"1970": 0, "back": 1000, "ahead for a moment": 2002, "ahead by years": 50_000} {
		now := 2000 * hour
		defer osfile.SetClock(func() uint64 { return now })()
		f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
		commitAt(t, f, &now, 2000*hour, 0, 100)
		commitAt(t, f, &now, wrong*hour, 100, 200) // the true time is an hour later
		commitAt(t, f, &now, 2002*hour, 200, 300)
		mustExpire(t, f, at(2000), 0)
		if wrong < 2000 { // the second hundred has the time of the first
			mustExpire(t, f, at(1999), 0)
		} else {
			mustExpire(t, f, at(2001), 100)
			mustHave(t, f, 100, 200)
		}
		mustHave(t, f, 200, 300)
		if err := f.Rebuild(context.Background(), nil); err != nil {
			t.Fatal(name, err)
		}
		left := f.Len()
		commitAt(t, f, &now, 2100*hour, 300, 400)
		mustExpire(t, f, at(2050), left)
		mustHave(t, f, 300, 400)
		mustExpire(t, f, at(2101), 100)
	}
	now := uint64(0) // 1970; no earlier year has a number of nanoseconds
	defer osfile.SetClock(func() uint64 { return now })()
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	commitAt(t, f, &now, 0, 0, 100)
	opened(t, abandon(t, f, path), func(f *Filter) { mustHave(t, f, 0, 100) })
	mustExpire(t, f, time.Time{}, 0)
	for _, year := range []int{-1, 1, 500, 1000, 1400, 1969} {
		mustExpire(t, f, time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC), 0)
	}
	// In 2554, the nanoseconds since 1970 are 2^64 and a few more.
	mustExpire(t, f, time.Unix(18_446_744_073, 999_999_999), 100)
}

// TestTimesGoOn covers K2 and K6: a file that replaces another has no earlier times than the other, even
// if the clock was set back.
func TestTimesGoOn(t *testing.T) {
	for _, rebuilt := range []bool{true, false} {
		now := uint64(1_700_000_000e9)
		defer osfile.SetClock(func() uint64 { return now })()
		f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
		commitAt(t, f, &now, now, 0, 1)
		before := time.Unix(0, int64(now-60e9))
		now -= 3600e9
		if rebuilt {
			must(t, f.Rebuild(t.Context(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, 1), nil }}))
		} else {
			f.Close()
			built, err := Build(t.Context(), path, nil, numbers(0, 1))
			must(t, err)
			built.Close()
			f = openQuiet(t, path)
		}
		commitAt(t, f, &now, now, 1, 2)
		now += 3600e9
		mustExpire(t, f, before, 0)
		mustHave(t, f, 0, 2)
		f.Close()
	}
}

// TestSealCancelledKeepsHashes: operations after a cancelled Seal are in the kept hashes.
func TestSealCancelledKeepsHashes(t *testing.T) {
	for n := range int64(8) {
		f, path := mustCreate(t, &Options{Capacity: 500, KeepHashes: true})
		mustInsert(t, f, 0, 100)
		sealed := f.Seal(endingAfter(t, n))
		mustInsert(t, f, 100, 120)
		mustDelete(t, f, 0, 20)
		err := f.Rebuild(context.Background(), nil)
		mustHave(t, f, 20, 120)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Errorf("after %v: %v", sealed, err)
		}
		if r, err := Verify(context.Background(), path); err != nil || r.Hashes != 100 {
			t.Errorf("after %v: %+v, %v", sealed, r, err)
		}
	}
}

// TestRebuildEndsGrowthErr: a filter whose hashes are lost cannot grow. Once it is rebuilt from its
// keys, it can grow again, and reports no error.
func TestRebuildEndsGrowthErr(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100, AutoGrow: true})
	mustInsert(t, f, 0, 80)
	must(t, errors.Join(f.Close(), os.Remove(path+".hashes")))
	f = openQuiet(t, path)
	defer f.Close()
	var err error
	for n := 0; err == nil; n++ {
		err = f.Insert(fmt.Appendf(nil, "late %d", n))
	}
	old := f.open.Load()
	if !errors.Is(err, ErrFull) || !errors.Is(f.growthErr(old), ErrNoHashes) {
		t.Fatalf("%v; %v", err, f.growthErr(old))
	}
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

// TestRepair covers K6: whichever byte of a filter at rest is damaged, either Verify finds the damage
// and Repair repairs it, or the byte does not matter.
func TestRepair(t *testing.T) {
	for _, opts := range []*Options{{Capacity: 300, KeepHashes: true}, {Capacity: 100, KeepHashes: true, Layout: layout.Packed}} {
		f, path := mustCreate(t, opts)
		items := opts.Capacity - 20
		mustInsert(t, f, 0, opts.Capacity)
		mustDelete(t, f, 0, 20)
		must(t, errors.Join(f.SyncAt(9), f.Close()))
		good, hashes := readFile(t, path), readFile(t, path+".hashes")
		if repaired, err := Repair(context.Background(), path, nil); err != nil || repaired {
			t.Fatalf("a good file: %t, %v", repaired, err)
		}
		_, _, g, err := layout.Newest(good[:layout.OffRuntime])
		must(t, err)
		step := 0
		for off := 0; off < len(good); off += step {
			if step = 1009; off >= layout.OffRegion && off < layout.OffRegion+int(g.RegionBytes) {
				step = small(5, 101)
			}
			bad := bytes.Clone(good)
			bad[off] ^= 1 << (off % 8)
			must(t, errors.Join(os.WriteFile(path, bad, 0o644), os.WriteFile(path+".hashes", hashes, 0o644)))
			_, broken := Verify(context.Background(), path)
			if off >= layout.OffRegion && off < layout.OffRegion+64 && broken == nil {
				t.Fatalf("byte %d of the lines: no damage is found", off)
			}
			repaired, err := Repair(context.Background(), path, nil)
			if err != nil || repaired != (broken != nil) {
				t.Fatalf("byte %d: repaired %t, %v; damage: %v", off, repaired, err, broken)
			}
			if r, err := Verify(context.Background(), path); err != nil || r.Items != items || r.Hashes != items {
				t.Fatalf("byte %d: after the repair: %+v, %v", off, r, err)
			}
		}
	}
}
