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

// TestDiscardLog: if a killed process left a file without its log, or with a damaged or another
// file's log, only DiscardLog makes the file usable. It then has what was committed; Verify
// finds nothing; and it can be written to again.
func TestDiscardLog(t *testing.T) {
	stranger := deadWriter(t, 10, 5)
	for name, spoil := range map[string]func(log string) error{
		"missing":   os.Remove,
		"cut short": func(log string) error { return os.Truncate(log, wal.PageBytes) },
		"foreign":   func(log string) error { return copyOver(log, stranger+".stash") },
		"damaged":   func(log string) error { return flipByte(log, wal.FirstWord*8+3) },
	} {
		t.Run(name, func(t *testing.T) {
			path := deadWriter(t, 500, 300)
			log := path + ".stash"
			lost, uuid := readFile(t, log), uuidOf(t, path)
			must(t, spoil(log))
			before := contents(t, filepath.Dir(path))
			if _, err := Recover(path); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("Recover: %v", err)
			}
			if !maps.Equal(contents(t, filepath.Dir(path)), before) {
				t.Fatal("Recover has changed something")
			}
			found, err := DiscardLog(path)
			if err != nil || !found.Recovered || !found.Discarded || found.Length != 300 {
				t.Fatalf("%+v, %v", found, err)
			}
			if _, err := os.Stat(path + ".stash"); err == nil {
				t.Error("the log is still there")
			}
			r, err := Verify(context.Background(), path)
			if err != nil || r.Items != 300 {
				t.Errorf("%+v, %v", r, err)
			}
			// The log turns up again: it now belongs to another file.
			if uuidOf(t, path) == uuid {
				t.Error("it still is the file of the log that was given up")
			}
			must(t, os.WriteFile(log, lost, 0o600))
			f, err := Open(path, nil)
			must(t, err)
			for i := range 300 {
				if !f.ContainsHash(spread(i)) {
					t.Fatal("a key that was committed is lost")
				}
			}
			if err := f.InsertHash(spread(300)); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if found, err := DiscardLog(path); err != nil || found.Recovered || found.Length != 301 {
				t.Errorf("of a clean file: %+v, %v", found, err)
			}
		})
	}
}

// TestDiscardBesideALaterLog: an old copy of a file lies beside a log of a later time (L2).
// DiscardLog makes it usable, and the log does not count when it comes back.
func TestDiscardBesideALaterLog(t *testing.T) {
	for _, state := range []string{"clean", "live", "sealed"} {
		f, path := mustCreate(t, &Options{Capacity: 10_000})
		old := filepath.Join(t.TempDir(), "old")
		insert := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				must(t, f.InsertHash(spread(i)))
			}
			must(t, f.Sync())
		}
		insert(0, 100)
		switch state {
		case "clean":
			f.Close()
		case "sealed":
			must(t, f.Seal(context.Background()))
			f.Close()
		}
		must(t, copyOver(old, path))
		if state != "live" {
			var err error
			if f, err = Open(path, &OpenOptions{CommitInterval: -1}); err != nil {
				t.Fatal(err)
			}
			defer f.Close()
		} else {
			for range 2 { // after one, the log still has all that the old copy lacks
				must(t, f.Checkpoint(context.Background()))
			}
		}
		insert(100, 200)
		putLog := func() {
			t.Helper()
			must(t, copyOver(old+".stash", path+".stash"))
		}
		putLog()
		if _, err := Recover(old); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%s: Recover: %v", state, err)
		}
		found, err := DiscardLog(old)
		if err != nil || !found.Discarded || found.Length != 100 {
			t.Fatalf("%s: %+v, %v", state, found, err)
		}
		putLog()
		g, err := OpenReadOnly(old, &OpenOptions{NoRecover: true})
		if err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		for i := range 100 {
			if !g.ContainsHash(spread(i)) {
				t.Fatalf("%s: a key of the copy is lost", state)
			}
		}
		g.Close()
		if _, err := Verify(context.Background(), old); err != nil {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// TestDiscardNoGoodLog: DiscardLog replays a good log, and does not touch a file whose writer is
// alive.
func TestDiscardNoGoodLog(t *testing.T) {
	path := deadWriter(t, 500, 300)
	found, err := DiscardLog(path)
	if err != nil || !found.Recovered || found.Discarded || found.Length != 500 {
		t.Errorf("%+v, %v", found, err)
	}
	f := mustOpen(t, path, nil)
	for i := range 500 {
		if !f.ContainsHash(spread(i)) {
			t.Fatal("an acknowledged key is lost")
		}
	}
	if _, err := DiscardLog(path); !errors.Is(err, ErrLocked) {
		t.Errorf("beside a writer: %v", err)
	}
}

// TestDiscardAfterAPowerLoss: a power loss leaves parts of an operation, without the log that
// would complete it. DiscardLog removes a stash entry that no lookup finds, makes a removal
// counter even again, and returns an error and leaves the file as it is if a line breaks a rule.
func TestDiscardAfterAPowerLoss(t *testing.T) {
	edit := func(path string, words map[int64]uint64) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		for at, value := range words {
			var b [8]byte
			for i := range b {
				b[i] = byte(value >> (8 * i))
			}
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
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
		layout.OffStash + 16*11:                    1 << 63, // the mark of a group, in a place that has none
	})
	if found, err := DiscardLog(path); err != nil || found.Length != 300 {
		t.Fatalf("%+v, %v", found, err)
	}
	mustBeEven(t, path)
	if r, err := Verify(context.Background(), path); err != nil || r.Items != 300 || r.StashLen != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	f := mustOpenReadOnly(t, path, nil)
	absent := 0
	for i := 1000; i < 2000; i++ {
		if !f.ContainsHash(spread(i)) {
			absent++
		}
	}
	if absent < 950 {
		t.Errorf("of 1,000 absent keys %d are said to be", absent)
	}

	path = deadWriterOf(t, &Options{Capacity: 10_000}, 500, 300)
	must(t, os.Remove(path+".stash"))
	edit(path, map[int64]uint64{layout.OffRegion: 1 << 59}) // a bit that no bucket of 7 slots uses
	before := contents(t, filepath.Dir(path))
	if _, err := DiscardLog(path); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if !maps.Equal(contents(t, filepath.Dir(path)), before) {
		t.Error("it has changed something")
	}
}

func uuidOf(t *testing.T, path string) [16]byte {
	t.Helper()
	f, head, err := osfile.OpenFile(path)
	must(t, err)
	f.Close()
	return head.Superblock.UUID()
}

// mustBeEven checks that every removal counter of a file, and its epoch, is even: an odd one
// would turn every "no" of its lines into "maybe" for ever.
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

// TestDiscardMakesBits: a power loss may have kept from the disk the bits that an item left in
// its home line but not its new place, and the log with both is lost. DiscardLog finds the item.
func TestDiscardMakesBits(t *testing.T) {
	f, alive := mustCreate(t, &Options{Layout: layout.Compact, Capacity: 1000})
	keys := hashes(21, 1000)
	insertAll(t, f, keys)
	must(t, f.Sync())
	path := filepath.Join(t.TempDir(), "dead")
	copyFile(t, path, alive)
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
	if err := os.WriteFile(path, data, 0o600); err != nil || cleared == 0 {
		t.Fatalf("%d lines led on; %v", cleared, err)
	}
	if found, err := DiscardLog(path); err != nil || found.Length != 1000 {
		t.Fatalf("%+v, %v", found, err)
	}
	if r, err := Verify(context.Background(), path); err != nil || r.Items != 1000 {
		t.Errorf("%+v, %v", r, err)
	}
	g2 := mustOpenReadOnly(t, path, nil)
	mustContain(t, g2, keys)
}

// TestVerifyFindsLostBits covers F11: Verify reports a guest without an overflow bit at home.
func TestVerifyFindsLostBits(t *testing.T) {
	f, path := mustCreate(t, &Options{Layout: layout.Compact, Capacity: 1000})
	insertAll(t, f, hashes(21, 1000))
	must(t, f.Close())
	data := readFile(t, path)
	_, _, g, err := layout.Newest(data)
	must(t, err)
	for line := range g.Lines {
		clear(data[layout.OffRegion+64*line+62:][:2])
	}
	must(t, os.WriteFile(path, data, 0o600))
	var e *CorruptError
	if _, err := Verify(context.Background(), path); !errors.As(err, &e) || e.Rule != "F11" || !strings.HasPrefix(e.What, "line ") {
		t.Errorf("%v", err)
	}
}
