package engine

import (
	"errors"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A logFault is what the runtime panics with after a fault in a mapped log.
type logFault struct{}

func (logFault) Error() string { return "a fault" }
func (logFault) RuntimeError() {}
func (logFault) Addr() uintptr { return 1 }

// TestFaultBesideHandover covers W8: an operation is cut off by a fault in one of the files that it is
// done in. A fault in the new one ends that, and not the old one, which goes on. After one in the old
// one, whose caller has got an error and knows of no other file, no file goes on: the handover fails,
// even before the writer knows why.
func TestFaultBesideHandover(t *testing.T) {
	for _, c := range []struct {
		name         string
		inNew, named bool // which file, and whether the new one has the name
	}{
		{"in the new file", true, false}, {"in the new file, with the name", true, true},
		{"in the old file", false, false}, {"in the old file, with the name", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stages := [2]*stage{newStage(t, 3, 1), newStage(t, 4, 1)}
			var faulty [2]bool
			var syncing func()
			var writers [2]*Writer
			for i, s := range stages {
				v := &storingVolume{s.volume, func(recovery.File) {
					if faulty[i] {
						panic(logFault{})
					}
				}}
				s.volume.LogSync = func() {
					if i == 1 && syncing != nil {
						syncing()
					}
				}
				writers[i] = mustWriter(t, v, wal.MinBytes)
				if err := writers[i].Insert(1); err != nil {
					t.Fatal(err)
				}
			}
			old, next := writers[0], writers[1]
			var got error
			during := func() {
				if syncing = nil; !old.Doubles() {
					t.Fatal("operations are not done in both files")
				}
				if got = old.Insert(2); got != nil {
					t.Fatal(got)
				}
				faulty[0], faulty[1] = !c.inNew, c.inNew
				defer func() {
					faulty = [2]bool{}
					if (recover() == nil) != c.inNew {
						t.Error("who meets the fault?")
					}
				}()
				got = old.Insert(3)
			}
			named, swapped := false, false
			stages[1].volume.place = func() (bool, error) {
				if named = true; c.named {
					during()
				}
				return true, nil
			}
			if !c.named {
				if err := next.Sync(false, 0); err != nil {
					t.Fatal(err)
				}
				old.Insert(5) // or else there is nothing to sync
				next.Insert(5)
				syncing = during
			}
			err := old.Handover(next, true, true, func(int) error { return nil }, func(bool) {}, func() { swapped = true })
			if !errors.Is(err, recovery.ErrFailed) || named != c.named || swapped != c.named {
				t.Fatalf("%v; named %t, swapped %t", err, named, swapped)
			}
			if c.named {
				if next.Err() == nil {
					t.Error("the new file goes on")
				}
				return
			}
			if !c.inNew {
				if old.Err() == nil {
					t.Error("the old file goes on")
				}
				return
			}
			if got != ErrAgain {
				t.Errorf("the operation: %v", got)
			}
			before := old.protocol.Operations()
			if err := old.Insert(3); err != nil || old.protocol.Operations() != before+1 || old.Len() != 4 {
				t.Errorf("again: %v, %d items after %d operations", err, old.Len(), old.protocol.Operations())
			}
			for _, h := range []uint64{1, 2, 3, 5} {
				if !old.Contains(h) {
					t.Errorf("%d is lost", h)
				}
			}
		})
	}
}

// TestFaultBeforeHandover covers W8: a fault in the old file while a handover makes its log ends that
// file, whose log may be half made, and not the new one.
func TestFaultBeforeHandover(t *testing.T) {
	v := &storingVolume{small.Volume(t, 3), func(recovery.File) { panic(logFault{}) }}
	old, next := mustWriter(t, v, wal.MinBytes), newStage(t, 4, 1)
	err := old.Handover(next.w, true, true, func(int) error { return nil }, func(bool) {}, func() { t.Error("it takes over") })
	if !errors.Is(err, recovery.ErrFailed) || old.Err() == nil || next.w.Err() != nil {
		t.Errorf("%v; the old file: %v; the new one: %v", err, old.Err(), next.w.Err())
	}
}
