package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
)

// TestUnseal covers W7: the first operation on a sealed file gives it a new UUID, and the file is no
// longer sealed. Seal seals it again.
func TestUnseal(t *testing.T) {
	built, path := mustBuild(t, &Options{Capacity: 5000}, numbers(0, 4000))
	uuid := built.Stats().UUID
	f := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
	if s := f.Stats(); s.State != "sealed" || s.UUID != uuid || s.LogBytes != 0 {
		t.Errorf("opened: %+v", s)
	}
	if ok, err := f.Delete([]byte("not there")); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	insertAll(t, f, hashes(4, 10))
	s := f.Stats()
	if s.State != "live" || s.UUID == uuid || s.LogBytes == 0 || s.Pending != 10 || s.Len != 4010 {
		t.Errorf("after an insert: %+v", s)
	}
	for _, sealed := range []bool{false, true} {
		if sealed {
			must(t, f.Seal(context.Background()))
		}
		copied := abandon(t, f, path)
		must(t, mustOpen(t, copied, nil).Close())
		if r := mustVerify(t, copied, 4010); r.Sealed != sealed {
			t.Errorf("%+v", r)
		}
	}
	mustContain(t, f, hashes(4, 10))
	if n, asked := countFound(f, numbers(0, 4000)); n != asked {
		t.Errorf("%d of %d keys", n, asked)
	}
}

// TestReadOnlyRefusesWrites calls every writing method of a filter that is open for reading, and of a
// closed filter.
func TestReadOnlyRefusesWrites(t *testing.T) {
	f, _ := mustBuild(t, nil, numbers(0, 10))
	calls := changing(f)
	calls["Apply"] = func() error { _, err := f.Apply(t.Context(), new(bytes.Buffer)); return err }
	for _, want := range []error{ErrReadOnly, ErrClosed} {
		for name, call := range calls {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s returns %v, not %v", name, err, want)
			}
		}
		f.Close()
	}
	if f.Count([]byte("k")) != math.MaxUint64 || f.DurableSeq() != 0 || f.Stats().Recovery != (Recovery{}) {
		t.Error("a closed filter has a count, a sequence or a recovery")
	}
}

// changing returns calls of the methods of a filter that write.
func changing(f *Filter) map[string]func() error {
	ctx := context.Background()
	return map[string]func() error{
		"InsertHash":   func() error { return f.InsertHash(1 << 60) },
		"DeleteHash":   func() error { _, err := f.DeleteHash(1 << 60); return err },
		"Insert":       func() error { return f.Insert([]byte("k")) },
		"InsertBatch":  func() error { _, err := f.InsertBatch([][]byte{nil}); return err },
		"InsertUnique": func() error { _, err := f.InsertUnique(nil); return err },
		"Delete":       func() error { _, err := f.Delete(nil); return err },
		"Sync":         f.Sync,
		"SyncAt":       func() error { return f.SyncAt(1) },
		"Checkpoint":   func() error { return f.Checkpoint(ctx) },
		"Seal":         func() error { return f.Seal(ctx) },
	}
}
