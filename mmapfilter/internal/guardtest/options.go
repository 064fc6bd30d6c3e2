package guardtest

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Owner covers G6. Guards with different prefixes and filters open a store in turn, and no key is
// hidden. If the program has something at the place of the owner, Open refuses the store and leaves it
// as it is.
func Owner(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir := t.TempDir()
		for i, prefix := range []string{"", "o", "", guard.OwnerName[:13] + "n", "o", guard.OwnerName + "y", ""} {
			o := Quiet(deletes)
			o.Prefix, o.Path = []byte(prefix), filepath.Join(dir, fmt.Sprintf("filter%x", prefix))
			d := e.MustOpen(t, dir, o)
			MustHideNone(t, d)
			Set(t, d, 100*i, 100*i+100)
			if n := MustHideNone(t, d); n < 100*i+100 { // for this guard, entries of other guards are keys, too
				t.Errorf("%d keys", n)
			}
			Eventually(t, d, "a filter", Serving)
			Must(t, d.Close())
			Must(t, e.MustServe(t, dir, o).Close())
		}
		dir = t.TempDir()
		theirs := "the program's"
		if _, err := e.Swap(dir, theirs); err != nil {
			t.Fatal(err)
		}
		o := Quiet(deletes)
		o.Prefix = []byte("p")
		if _, err := e.Open(dir, o, false); !errors.Is(err, guard.ErrReserved) {
			t.Errorf("Open, though the program uses the name of the owner: %v", err)
		}
		if was, err := e.Swap(dir, ""); was != theirs || err != nil {
			t.Errorf("it has %q, not %q: %v", was, theirs, err)
		}
	})
}

// Once covers G3: a key that is put twice is in the filter once. With guard.Exact, a deleted key leaves
// the filter; with guard.Rebuild, it stays until a rebuild.
func Once(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir := t.TempDir()
		d := e.MustOpen(t, dir, Quiet(deletes))
		for range 2 {
			Set(t, d, 0, 100)
		}
		for range 2 {
			Remove(t, d, 0, 50)
		}
		Remove(t, d, 200, 210) // keys that were never there
		Must(t, d.Guard().Work())
		if s := d.GuardStats(); s.Keys != map[guard.DeleteMode]uint64{guard.Exact: 50, guard.Rebuild: 100}[deletes] {
			t.Errorf("once deleted: %+v", s)
		}
		Set(t, d, 25, 50)
		MustHave(t, d, 25, 100, 300)
		if n, s := MustKeep(t, d), d.GuardStats(); n != 75 || s.Keys != 75 || s.Pending > 0 {
			t.Errorf("%d keys: %+v", n, s)
		}
		Must(t, d.Close())
		MustHave(t, e.MustServe(t, dir, Quiet(deletes)), 25, 100, 300)
	})
}

// Covers tests a filter that is only for some of the keys. Get and Has count lookups in the same way.
func Covers(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir, o := t.TempDir(), Quiet(deletes)
		o.Covers, o.CoversVersion = func(key []byte) bool { return key[len(key)-1]%2 == 0 }, "even"
		d := e.MustOpen(t, dir, o)
		Set(t, d, 0, 100)
		for _, when := range []string{"now", "after a rebuild", "opened again"} {
			switch when {
			case "after a rebuild":
				Rebuild(t, d)
			case "opened again":
				Must(t, d.Close())
				d = e.MustServe(t, dir, o)
			}
			before := d.GuardStats()
			for i := range 200 {
				value, err := d.Get(Number(i))
				has, e := d.Has(Number(i))
				if Must(t, errors.Join(err, e)); (value != nil) != (i < 100) || has != (i < 100) {
					t.Fatalf("%s: key %d: %q, there: %t", when, i, value, has)
				}
			}
			if s := d.GuardStats(); s.Keys != 50 || s.Lookups-before.Lookups != 200 || s.Skipped-before.Skipped != 100 || s.TruePositives-before.TruePositives != 100 {
				t.Errorf("%s: %+v", when, s)
			}
		}
	})
}

// Batch covers C9: a lookup of many keys answers for each key as a lookup of this key alone does,
// both while the filter serves and while it cannot.
func Batch(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		o := Quiet(deletes)
		o.Covers, o.CoversVersion = func(key []byte) bool { return key[len(key)-1] != '7' }, "no 7"
		d := e.MustOpen(t, t.TempDir(), o)
		Set(t, d, 0, 100)
		var keys []string
		for i := range 300 {
			keys = append(keys, Number(i*7%300))
		}
		for _, serves := range []bool{true, false} {
			if !serves {
				Must(t, d.Guard().Doubt())
			}
			for _, n := range []int{0, 1, 63, 64, 65, 300} {
				before := d.GuardStats()
				absent, skipped := d.AbsentBatch(keys[:n]), uint64(0)
				for i, key := range keys[:n] {
					if want := serves && key >= Number(100) && key[len(key)-1] != '7'; absent[i] != want {
						t.Errorf("%q among %d, served %t: absent %t", key, n, serves, absent[i])
					}
					if absent[i] {
						skipped++
					}
				}
				if s := d.GuardStats(); s.Skipped-before.Skipped != skipped || !serves && s.Unfiltered-before.Unfiltered != uint64(n) {
					t.Errorf("%d of %d: %+v", skipped, n, s)
				}
			}
		}
	})
}

// Old covers G1: a reader that began before deletes still finds the keys in the store, after they
// have left the filter. For such a reader the filter is not asked, so its lookups do not count as
// false positives.
func Old(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := e.MustOpen(t, t.TempDir(), Quiet(deletes))
		Set(t, d, 0, 300)
		old, err := d.Reader()
		Must(t, err)
		look := func(keys int, want guard.Stats) {
			t.Helper()
			before := d.GuardStats()
			for i := range 600 {
				value, err := old.Get(Number(i))
				has, e := old.Has(Number(i))
				if Must(t, errors.Join(err, e)); (value != nil) != (i < keys) || has != (i < keys) {
					t.Fatalf("key %d: %q, there: %t", i, value, has)
				}
			}
			s := d.GuardStats()
			if s.Skipped-before.Skipped != want.Skipped || s.Unfiltered-before.Unfiltered != want.Unfiltered || s.TruePositives-before.TruePositives != want.TruePositives || s.FalsePositives != before.FalsePositives {
				t.Errorf("%+v", s)
			}
		}
		look(300, guard.Stats{Skipped: 600, TruePositives: 600})
		Remove(t, d, 0, 300)
		Must(t, d.Guard().Work())
		Rebuild(t, d)
		look(300, guard.Stats{Unfiltered: 1200})
		Must(t, old.Close())
		old, err = d.Reader()
		Must(t, err)
		look(0, guard.Stats{Skipped: 1200})
		Must(t, old.Close())
	})
}
