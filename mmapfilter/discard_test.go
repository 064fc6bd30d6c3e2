package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestDiscardLog: if a killed process left a file without its log, or with a damaged log or that of
// another file, only DiscardLog makes the file usable. The file then has what was committed, Verify
// finds no damage, and writers can open it again. If the log is good, DiscardLog replays it.
func TestDiscardLog(t *testing.T) {
	stranger := deadWriter(t, 10, 5)
	for name, spoil := range map[string]func(log string) error{
		"good":      nil,
		"missing":   os.Remove,
		"cut short": func(log string) error { return os.Truncate(log, wal.PageBytes) },
		"foreign":   func(log string) error { return copyOver(log, stranger+".stash") },
		"damaged":   func(log string) error { return flipByte(log, wal.FirstWord*8+3) },
	} {
		t.Run(name, func(t *testing.T) {
			path, keys := deadWriter(t, 500, 300), 500
			log := path + ".stash"
			lost, uuid := readFile(t, log), uuidOf(t, path)
			if spoil != nil {
				keys = 300
				must(t, spoil(log))
				before := contents(t, filepath.Dir(path))
				if _, err := Recover(path); !errors.Is(err, ErrCorrupt) || !maps.Equal(contents(t, filepath.Dir(path)), before) {
					t.Fatalf("Recover: %v, or it changed a file", err)
				}
			}
			found, err := DiscardLog(path)
			if err != nil || !found.Recovered || found.Discarded != (spoil != nil) || found.Length != uint64(keys) {
				t.Fatalf("%+v, %v", found, err)
			}
			mustLeave(t, path, 1)
			mustVerify(t, path, uint64(keys))
			if spoil != nil { // the discarded log comes back, but no longer belongs to this file
				must(t, os.WriteFile(log, lost, 0o600))
				if uuidOf(t, path) == uuid {
					t.Error("the file still has the UUID of the discarded log")
				}
			}
			f := mustOpen(t, path, nil)
			mustContain(t, f, spreads(0, keys))
			must(t, f.InsertHash(spread(keys)))
			if _, err := DiscardLog(path); !errors.Is(err, ErrLocked) {
				t.Errorf("beside a writer: %v", err)
			}
			must(t, f.Close())
			if found, err := DiscardLog(path); err != nil || found.Recovered || found.Length != uint64(keys)+1 {
				t.Errorf("of a clean file: %+v, %v", found, err)
			}
		})
	}
}

// TestDiscardBesideALaterLog: an old copy of a file is beside a later log (L2). DiscardLog makes the
// copy usable. If the log then comes back, it does not count.
func TestDiscardBesideALaterLog(t *testing.T) {
	for _, state := range []string{"clean", "live", "sealed"} {
		f, path := mustCreate(t, &Options{Capacity: 10_000})
		old := filepath.Join(t.TempDir(), "old")
		insertAll(t, f, spreads(0, 100))
		must(t, f.Sync())
		switch state {
		case "clean":
			f.Close()
		case "sealed":
			must(t, f.Seal(context.Background()))
			f.Close()
		}
		must(t, copyOver(old, path))
		if state != "live" {
			f = mustOpen(t, path, &OpenOptions{CommitInterval: -1})
		} else {
			for range 2 { // after only one, the log would still have all that the old copy lacks
				must(t, f.Checkpoint(context.Background()))
			}
		}
		insertAll(t, f, spreads(100, 200))
		must(t, f.Sync())
		must(t, copyOver(old+".stash", path+".stash"))
		if _, err := Recover(old); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: Recover: %v", state, err)
		}
		found, err := DiscardLog(old)
		if err != nil || !found.Discarded || found.Length != 100 {
			t.Fatalf("%s: %+v, %v", state, found, err)
		}
		must(t, copyOver(old+".stash", path+".stash"))
		g := mustOpenReadOnly(t, old, &OpenOptions{NoRecover: true})
		mustContain(t, g, spreads(0, 100))
		g.Close()
		mustVerify(t, old, 100)
	}
}

// TestDiscardAfterAPowerLoss: a power loss leaves parts of an operation, and the log that would complete
// it is lost. DiscardLog removes a stash entry that no lookup finds, and makes a removal counter even
// again. If a line breaks a rule, it returns an error and leaves the file as it is.
func TestDiscardAfterAPowerLoss(t *testing.T) {
	edit := func(path string, words map[int64]uint64) {
		t.Helper()
		data := readFile(t, path)
		for at, value := range words {
			binary.LittleEndian.PutUint64(data[at:], value)
		}
		must(t, os.WriteFile(path, data, 0o600))
	}
	path := deadWriter(t, 500, 300)
	must(t, os.Remove(path+".stash"))
	counter := int64(0)
	layout.Counters(func(word uint64) { counter = layout.OffRuntime + int64(word)*8 })
	edit(path, map[int64]uint64{
		counter: 1,
		layout.OffRuntime + layout.RuntimeEpoch*8:  1,
		layout.OffStash + 16*7:                     3, // half an entry: its count was not stored yet
		layout.OffStash + 16*9 + 8:                 1<<32 | 1,
		layout.OffStash + 16*layout.StashEntries/2: 1 << 40,
		layout.OffStash + 16*11:                    1 << 63, // a group mark in an entry without one
	})
	if found, err := DiscardLog(path); err != nil || found.Length != 300 {
		t.Fatalf("%+v, %v", found, err)
	}
	mustBeEven(t, path)
	if r := mustVerify(t, path, 300); r.StashLen != 0 {
		t.Errorf("%+v", r)
	}
	f := mustOpenReadOnly(t, path, nil)
	if found, _ := countFound(f, numbers(1000, 2000)); found > 50 {
		t.Errorf("of 1,000 absent keys %d are found", found)
	}

	path = deadWriterOf(t, &Options{Capacity: 10_000}, 500, 300)
	must(t, os.Remove(path+".stash"))
	edit(path, map[int64]uint64{layout.OffRegion: 1 << 59}) // a bit that no bucket of 7 slots uses
	before := contents(t, filepath.Dir(path))
	if _, err := DiscardLog(path); !errors.Is(err, ErrCorrupt) || !maps.Equal(contents(t, filepath.Dir(path)), before) {
		t.Errorf("%v, or DiscardLog changed a file", err)
	}
}

func uuidOf(t *testing.T, path string) [16]byte {
	t.Helper()
	f, head, err := osfile.OpenFile(path)
	must(t, err)
	f.Close()
	return head.Superblock.UUID()
}

// mustBeEven checks that every removal counter of a file, and its epoch, is even. If a counter were odd,
// lookups of its lines would never answer "certainly not".
func mustBeEven(t *testing.T, path string) {
	t.Helper()
	data := readFile(t, path)
	word := func(word uint64) uint64 {
		return binary.LittleEndian.Uint64(data[layout.OffRuntime+8*word:])
	}
	odd, all := 0, 0
	layout.Counters(func(w uint64) { all++; odd += int(word(w) & 1) })
	if odd != 0 || all == 0 || word(layout.RuntimeEpoch)&1 != 0 {
		t.Errorf("%d of %d removal counters are odd; the epoch is %d", odd, all, word(layout.RuntimeEpoch))
	}
}

// TestRecoveryEvensCounters: a writer that dies between the first and the last store of a move
// leaves a removal counter odd. Recovery makes it even, as DiscardLog does.
func TestRecoveryEvensCounters(t *testing.T) {
	path := deadWriter(t, 500, 300)
	data := readFile(t, path)
	n := uint64(0)
	layout.Counters(func(word uint64) {
		if n++; n%3 == 0 {
			data[layout.OffRuntime+8*word] |= 1
		}
	})
	must(t, os.WriteFile(path, data, 0o600))
	if r, err := Recover(path); err != nil || !r.Recovered || r.Length != 500 {
		t.Fatalf("%+v, %v", r, err)
	}
	mustBeEven(t, path)
}

// TestLostBits: after a power loss, the disk may have an item in its new place, but not its overflow bit
// in its home line, and the log with both may be lost. DiscardLog sets the bit. In a clean file, Verify
// reports a guest whose overflow bit is not set (F11).
func TestLostBits(t *testing.T) {
	for _, live := range []bool{true, false} {
		f, path := mustCreate(t, &Options{Layout: layout.Compact, Capacity: 1000})
		keys := hashes(21, 1000)
		insertAll(t, f, keys)
		must(t, f.Sync())
		if live {
			path = abandon(t, f, path)
			must(t, os.Remove(path+".stash"))
		} else {
			must(t, f.Close())
		}
		data := readFile(t, path)
		_, _, g, err := layout.Newest(data)
		must(t, err)
		cleared := 0
		for line := range g.Lines {
			bits := data[layout.OffRegion+64*line+62:][:2] // the overflow bits
			if bits[0]|bits[1] != 0 {
				cleared++
			}
			clear(bits)
		}
		if must(t, os.WriteFile(path, data, 0o600)); cleared == 0 {
			t.Fatal("no line had an overflow bit")
		}
		if !live {
			var e *CorruptError
			if _, err := Verify(context.Background(), path); !errors.As(err, &e) || e.Rule != "F11" || !strings.HasPrefix(e.What, "line ") {
				t.Errorf("%v", err)
			}
			continue
		}
		if found, err := DiscardLog(path); err != nil || found.Length != 1000 {
			t.Fatalf("%+v, %v", found, err)
		}
		mustVerify(t, path, 1000)
		mustContain(t, mustOpenReadOnly(t, path, nil), keys)
	}
}
