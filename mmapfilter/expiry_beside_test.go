package mmapfilter

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestFilesKeepTheirExpiry: in a file that takes the place of another, keys expire after the same time,
// and keep their ages. In a copy without hashes, no keys expire.
func TestFilesKeepTheirExpiry(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string) error{
		"Rebuild": func(t *testing.T, path string) error {
			f := mustOpen(t, path, nil)
			return errors.Join(f.Rebuild(t.Context(), &RebuildOptions{Capacity: 5000}), f.Close())
		},
		"Merge": func(t *testing.T, path string) error { return Merge(t.Context(), path, nil, path) },
		"Repair": func(t *testing.T, path string) error {
			repaired, err := Repair(t.Context(), path, nil)
			if !repaired {
				t.Error("Repair found no damage")
			}
			return err
		},
		"Repair without the newest superblock": func(t *testing.T, path string) error {
			for slot := range int64(3) {
				must(t, flipByte(path, 4096*slot+100))
			}
			_, err := Repair(t.Context(), path, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := setFakeClock(t)
			f, path := mustCreate(t, expiring(24*time.Hour))
			mustInsert(t, f, 0, 100)
			must(t, f.Sync())
			clock.add(12 * time.Hour)
			mustInsert(t, f, 100, 200)
			must(t, f.Close())
			if name == "Repair" {
				must(t, flipByte(path, layout.OffRegion+100))
			}
			must(t, replace(t, path))
			f = mustOpen(t, path, nil)
			clock.add(12*time.Hour + 72*time.Minute) // 5 %
			if _, err := f.Expire(t.Context()); err != nil || countOf(f, 0, 100) > 0 || f.Stats().ExpireAfter != 24*time.Hour {
				t.Errorf("%d keys have not expired: %v, %+v", countOf(f, 0, 100), err, f.Stats())
			}
			mustHave(t, f, 100, 200)
			copied := filepath.Join(t.TempDir(), "copy.mmf")
			_, err := f.Snapshot(t.Context(), copied)
			must(t, err)
			c := mustOpen(t, copied, nil)
			clock.add(48 * time.Hour)
			if n, err := c.Expire(t.Context()); n != 0 || err != nil || c.Stats().ExpireAfter != 0 {
				t.Errorf("in the copy, %d keys have expired: %v", n, err)
			}
			mustHave(t, c, 100, 200)
			must(t, errors.Join(c.Close(), f.Close()))
		})
	}
}

// TestBuildKeepsExpiry: if Build replaces a file whose keys expire, the keys of the new file expire
// after the same time, counted from the Build.
func TestBuildKeepsExpiry(t *testing.T) {
	clock := setFakeClock(t)
	f, path := mustCreate(t, expiring(24*time.Hour))
	must(t, f.Close())
	clock.add(48 * time.Hour)
	built, err := Build(t.Context(), path, &Options{FalsePositiveRate: 1e-8}, numbers(0, 100))
	must(t, err)
	built.Close()
	f = mustOpen(t, path, nil)
	clock.add(23 * time.Hour)
	mustExpireNow(t, f, 0)
	clock.add(3 * time.Hour)
	mustExpireNow(t, f, 100)
	must(t, f.Close())
}

// TestExpiryWithoutHashes: if the hashes are lost, keys do not expire, and the filter reports this.
func TestExpiryWithoutHashes(t *testing.T) {
	clock := setFakeClock(t)
	f, path := mustCreate(t, expiring(time.Hour))
	mustInsert(t, f, 0, 100)
	must(t, errors.Join(f.Close(), os.Remove(path+".hashes")))
	clock.add(2 * time.Hour)
	reported := make(chan error, 1)
	f = mustOpen(t, path, &OpenOptions{OnError: func(err error) { reported <- err }})
	if err := <-reported; !errors.Is(err, ErrNoHashes) {
		t.Error(err)
	}
	if _, err := f.Expire(t.Context()); !errors.Is(err, ErrNoHashes) {
		t.Error(err)
	}
	if s := f.Stats(); s.ExpireErr == "" || s.Expired != 0 {
		t.Errorf("%+v", s)
	}
	mustHave(t, f, 0, 100)
	f.Close()
	if f, err := Open(path, &OpenOptions{ExpireAfter: 2 * time.Hour}); !errors.Is(err, ErrNoHashes) {
		t.Error(f, err)
	}
}

// TestGrowthWithAClockBehind covers C10: if the clock is behind for a moment during a growth, as when a
// machine starts, no key becomes older.
func TestGrowthWithAClockBehind(t *testing.T) {
	clock := setFakeClock(t)
	o := expiring(32 * time.Hour)
	o.Capacity, o.AutoGrow = 110, true
	f, _ := mustCreate(t, o)
	mustInsert(t, f, 0, 90)
	must(t, f.Sync())
	right := clock.now.Load()
	clock.now.Store(100e9)
	mustInsert(t, f, 90, 200)
	must(t, f.Sync())
	if f.Stats().Rebuilds == 0 {
		t.Fatal("the filter has not grown")
	}
	clock.now.Store(right)
	clock.add(31 * time.Hour)
	mustExpireNow(t, f, 0)
	mustHave(t, f, 0, 200)
	clock.add(3 * time.Hour)
	mustExpireNow(t, f, 200)
}
