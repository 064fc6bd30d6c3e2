package mmapfilter

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestRepairOfALiveFile covers K6 for a file whose writer died, and which cannot be recovered. If the
// log is intact, Repair finds all operations and the user sequence. If not, it says that operations are
// lost. It does not remove a log that does not belong to the file.
func TestRepairOfALiveFile(t *testing.T) {
	g, other := mustCreate(t, &Options{Capacity: 100})
	mustInsert(t, g, 0, 10)
	for name, c := range map[string]struct {
		damage  func(path string) error
		lost    bool
		refused bool
	}{
		"the superblock":        {damage: loseNewest},
		"the lines are cut off": {damage: func(path string) error { return os.Truncate(path, layout.OffRegion+64) }},
		"the log is missing":    {damage: func(path string) error { return os.Remove(path + ".stash") }, lost: true},
		"superblock and log": {damage: func(path string) error {
			return errors.Join(loseNewest(path), os.Remove(path+".stash"))
		}, lost: true},
		"the first record of the log": {damage: func(path string) error {
			return errors.Join(loseNewest(path), loseBegin(path+".stash"))
		}, lost: true},
		"the log of another filter": {damage: func(path string) error {
			return errors.Join(loseNewest(path), copyOver(path+".stash", other+".stash"))
		}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, from := mustCreate(t, &Options{Capacity: 4000, KeepHashes: true, CommitInterval: -1})
			mustInsert(t, f, 0, 900)
			must(t, f.SyncAt(7))
			mustInsert(t, f, 900, 930)
			path := abandon(t, f, from)
			must(t, errors.Join(f.Close(), c.damage(path)))
			repaired, err := Repair(context.Background(), path, nil)
			if c.refused {
				if _, gone := os.Stat(path + ".stash"); repaired || !errors.Is(err, ErrCorrupt) || gone != nil {
					t.Errorf("repaired %t, %v; %v", repaired, err, gone)
				}
				return
			}
			if !repaired || errors.As(err, new(*LostError)) != c.lost || err != nil && !c.lost {
				t.Fatalf("repaired %t: %v", repaired, err)
			}
			if c.lost {
				_, err := Verify(context.Background(), path)
				must(t, err)
				return
			}
			mustVerify(t, path, 930)
			f = mustOpen(t, path, nil)
			mustHave(t, f, 0, 930)
			if f.DurableSeq() != 7 || f.DurableOps() != 30 {
				t.Errorf("%d and %d operations are durable", f.DurableSeq(), f.DurableOps())
			}
		})
	}
}

// loseNewest damages the newest superblock of a file.
func loseNewest(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	slot, _, _, err := layout.Newest(data[:layout.OffRuntime])
	return errors.Join(err, flipByte(path, int64(slot)*layout.SuperblockBytes+3000))
}

// loseBegin damages the first record of each half of a log.
func loseBegin(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	for generation := range uint64(2) {
		from, _ := wal.Half(uint64(info.Size())/8, generation)
		err = errors.Join(err, flipByte(path, int64(from)*8+8))
	}
	return err
}
