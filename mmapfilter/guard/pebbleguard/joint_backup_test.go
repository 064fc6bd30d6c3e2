package pebbleguard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// ingest ingests a file with one key.
func (m *machine) ingest() error {
	path := fmt.Sprintf("file %d", m.random())
	f, err := m.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{TableFormat: sstable.TableFormatPebblev4})
	key := fmt.Appendf(nil, "ingested %d", m.rng.IntN(jointKeys))
	m.say("ingest %q", key)
	if err := errors.Join(w.Set(key, nil), w.Close()); err != nil {
		return err
	}
	return m.db.Ingest(context.Background(), []string{path})
}

// large commits a batch that has no room in a memtable.
func (m *machine) large() error {
	b := m.db.NewBatch()
	defer b.Close()
	key := fmt.Appendf(nil, "large %d", m.rng.IntN(jointKeys))
	m.say("a large batch with %q", key)
	if err := b.Set(key, make([]byte, 20<<10), nil); err != nil {
		return err
	}
	return m.db.Apply(b, m.writeOptions())
}

// stepOfBackups does one operation of a trace, which may be one that bypasses the memtable.
func (m *machine) stepOfBackups() error {
	switch m.rng.IntN(12) {
	case 0:
		return m.ingest()
	case 1:
		return m.large()
	case 2:
		m.say("flush")
		return m.db.Flush()
	case 3, 4, 5:
		b := m.batch()
		defer b.Close()
		return m.db.Apply(b, m.writeOptions())
	}
	return m.step()
}

// A momentary is a disk as a crash at an instant of a trace leaves it.
type momentary struct {
	disk
	at int // length of the log at that instant
}

// moments runs a trace and returns disks of many of its instants.
func (m *machine) moments(steps int) (disks []momentary, err error) {
	if err := m.open(); err != nil {
		return nil, err
	}
	for range steps {
		if err := m.stepOfBackups(); err != nil {
			return nil, err
		}
		if err := m.check(); err != nil {
			return nil, err
		}
		if m.rng.IntN(2) == 0 {
			continue
		}
		m.mu.Lock()
		d := m.disk.copyOf(m)
		if m.rng.IntN(2) == 0 {
			d.fs = m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 90}[m.rng.IntN(3)], RNG: m.rng})
		}
		if m.vol != nil && m.rng.IntN(2) == 0 {
			d.vol = m.vol.AfterPowerLoss(m.rng)
		}
		m.mu.Unlock()
		disks = append(disks, momentary{d, len(m.log)})
	}
	m.closed.Store(true)
	return disks, m.close()
}

// TestJointBackups opens stores with filters from other instants. Whichever of them is restored from a
// backup, and however old the backup is, no key is hidden (G1, G2).
func TestJointBackups(t *testing.T) {
	mem := &memory{pebble.NewCache(1 << 20)}
	defer mem.cache.Unref()
	pairs, serving := 0, 0
	for seed := *jointSeed; seed < *jointSeed+20; seed++ {
		m := newMachine(disk{fs: vfs.NewCrashableMem()}, seed, guard.Rebuild, maxDepth, mem)
		disks, err := m.moments(50)
		if err != nil {
			t.Fatalf("seed %d: %v\n%v", seed, err, m.log)
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		for range 40 {
			i := rng.IntN(len(disks))
			j := max(0, i-rng.IntN(5)) // mostly a close instant: if the store was opened in between, the filter is seldom used
			if rng.IntN(2) == 0 {
				j = rng.IntN(len(disks))
			}
			c := newMachine(disk{disks[i].fs, disks[j].vol}.copyOf(m), rng.Uint64(), guard.Rebuild, maxDepth, mem)
			if err := c.open(); c.db == nil && strings.Contains(err.Error(), "MANIFEST") {
				continue // see machine.life
			} else if err != nil {
				t.Fatal(err)
			}
			if pairs++; c.db.GuardStats().State == "serving" {
				serving++
			}
			for range 3 {
				if err := c.check(); err != nil {
					t.Fatalf("seed %d, the store after %d lines, the filter after %d: %v\n%v\n%v", seed, disks[i].at, disks[j].at, err, m.log, c.log)
				}
				must(t, c.stepOfBackups())
			}
			c.closed.Store(true)
			must(t, c.close())
		}
	}
	if t.Logf("%d of %d filters were used", serving, pairs); serving < 100 {
		t.Error("too few filters were used")
	}
}
