package badgerguard

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// filterFiles returns the names of the filter and what lies beside it.
func filterFiles(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), FilterName) {
			names = append(names, e.Name())
		}
	}
	return names
}

func removeFilter(t *testing.T, dir string) {
	for _, name := range filterFiles(t, dir) {
		must(t, os.Remove(filepath.Join(dir, name)))
	}
}

// copyFilter replaces the filter in a directory. What is removed meanwhile is not copied.
func copyFilter(t *testing.T, to, from string) {
	must(t, os.MkdirAll(to, 0o755))
	removeFilter(t, to)
	for _, name := range filterFiles(t, from) {
		b, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, name), b, 0o644))
	}
}

// TestFiles opens stores whose files somebody has changed.
func TestFiles(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		roomy := often(deletes) // a filter that is not rebuilt for want of room
		roomy.Capacity = 10_000
		base, other := t.TempDir(), t.TempDir()
		older, live, olderStore := t.TempDir(), t.TempDir(), t.TempDir()
		d := mustOpen(t, small(other), roomy)
		set(t, d, 50_000, 52_000)
		must(t, d.Close())
		d = mustOpen(t, small(base), roomy)
		set(t, d, 0, 3000)
		must(t, d.Guard().Work())
		must(t, d.Close())
		copyFilter(t, older, base)
		copyDir(t, olderStore, base)
		d = mustOpen(t, small(base), roomy)
		remove(t, d, 0, 1500)
		must(t, d.Guard().Work())
		if deletes == guard.Rebuild {
			must(t, d.Guard().Rebuild(context.Background()))
		}
		set(t, d, 3000, 3500)
		must(t, d.Guard().Work())
		var writing sync.WaitGroup
		writing.Add(1)
		go func() {
			defer writing.Done()
			set(t, d, 3500, 4500)
		}()
		copyFilter(t, live, base)
		writing.Wait()
		set(t, d, 4500, 5000)
		must(t, d.Close())

		cut := func(keep float64) func(t *testing.T, dir string) {
			return func(t *testing.T, dir string) {
				path := filepath.Join(dir, FilterName)
				info, err := os.Stat(path)
				must(t, err)
				must(t, os.Truncate(path, int64(keep*float64(info.Size()))))
			}
		}
		for _, c := range []struct {
			name   string
			change func(t *testing.T, dir string)
			built  bool // must be rebuilt
		}{
			{"unchanged", func(*testing.T, string) {}, false},
			{"missing", removeFilter, true},
			{"emptied", cut(0), true},
			{"cut", cut(0.5), true},
			{"of another store", func(t *testing.T, dir string) { copyFilter(t, dir, other) }, true},
			{"older", func(t *testing.T, dir string) { copyFilter(t, dir, older) }, true},
			{"older, live", func(t *testing.T, dir string) { copyFilter(t, dir, live) }, true},
			{"its log discarded", func(t *testing.T, dir string) {
				copyFilter(t, dir, live)
				path := filepath.Join(dir, FilterName)
				must(t, os.Remove(path+".stash"))
				found, err := mmapfilter.DiscardLog(path) // a file that was copied while it was written may be damaged
				t.Logf("%+v, %v", found, err)
			}, true},
			{"older store", func(t *testing.T, dir string) {
				away := t.TempDir()
				copyFilter(t, away, dir)
				must(t, os.RemoveAll(dir))
				copyDir(t, dir, olderStore)
				copyFilter(t, dir, away)
			}, true},
			{"older store without a filter", func(t *testing.T, dir string) {
				must(t, os.RemoveAll(dir))
				copyDir(t, dir, olderStore)
				removeFilter(t, dir)
			}, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				copyDir(t, dir, base)
				c.change(t, dir)
				d := openChanged(t, dir, deletes)
				if s := d.GuardStats(); (s.Rebuilds > 0) != c.built {
					t.Errorf("rebuilt: %t; %+v", !c.built, s)
				}
				mustHideNone(t, reopen(t, d, often(deletes)))
			})
		}
		t.Run("damaged", func(t *testing.T) {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
			built := 0
			for range 25 {
				dir := filepath.Join(t.TempDir(), "store")
				copyDir(t, dir, base)
				names := filterFiles(t, dir)
				path := filepath.Join(dir, names[rng.IntN(len(names))])
				b, err := os.ReadFile(path)
				must(t, err)
				for range 1 << rng.IntN(10) {
					if len(b) > 0 {
						b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
					}
				}
				must(t, os.WriteFile(path, b, 0o644))
				d := openChanged(t, dir, deletes)
				if d.GuardStats().Rebuilds > 0 {
					built++
				}
				must(t, d.Close())
			}
			t.Logf("rebuilt %d times of 25", built)
			if built == 0 {
				t.Errorf("never rebuilt")
			}
		})
	})
}

// openChanged opens a store, and checks that no key is hidden: at once, and when the filter is in use.
func openChanged(t *testing.T, dir string, deletes guard.DeleteMode) *DB {
	d := mustOpen(t, small(dir), quiet(deletes))
	if h := hidden(t, d); len(h) > 0 {
		t.Fatalf("%d keys are hidden; %+v", len(h), d.GuardStats())
	}
	waitServing(t, d)
	if h := hidden(t, d); len(h) > 0 {
		t.Fatalf("%d keys are hidden; %+v", len(h), d.GuardStats())
	}
	if d.GuardStats().Keys < uint64(len(keysOf(t, d))*9/10) {
		t.Errorf("the filter lacks keys: %+v", d.GuardStats())
	}
	return d
}
