package recovery_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// diedAfter copies a golden file that keeps its hashes, and returns the path of what a writer leaves
// there that dies: some operations in NAME.hashes, others that were committed, and others that were
// not.
func diedAfter(t *testing.T, kept, committed, others []uint64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "f.mmf")
	for _, suffix := range []string{"", ".stash", ".hashes"} {
		data, err := os.ReadFile("../testdata/live/kept.mmf" + suffix)
		if err == nil {
			err = os.WriteFile(path+suffix, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w := mustWriter(t, path)
	leaveOut := func(hashes []uint64, end func() error) {
		for _, h := range hashes {
			w.Append(nil, 0, layout.AtLeastOne, h)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() error { return w.Harden(w.EndSegment(false, 0)) }
	leaveOut(kept, func() error { return errors.Join(commit(), w.Checkpoint(wal.MinBytes)) })
	leaveOut(committed, commit)
	leaveOut(others, w.Abandon)
	return path
}

// TestSalvage covers K2: what is left of a history are NAME.hashes and the operations of the log behind
// it, committed or not. A log of another history does not join, and is not taken.
func TestSalvage(t *testing.T) {
	path := diedAfter(t, []uint64{1, 2, 3}, []uint64{4, 5}, []uint64{6, 7})
	r, err := osfile.Salvage(path)
	if err != nil {
		t.Fatal(err)
	}
	var more []uint64
	for _, e := range r.Kept.More {
		if e.Op != layout.AtLeastOne || e.Items != 0 || e.Time == 0 {
			t.Errorf("it has %+v", e)
		}
		more = append(more, e.Hash)
	}
	if want := []uint64{4, 5, 6, 7}; !slices.Equal(more, want) || r.Lost != 0 || r.LogLost {
		t.Errorf("the log has %d, not %d; lost %d, the log is lost: %t", more, want, r.Lost, r.LogLost)
	}
	if err := r.Kept.File.Close(); err != nil {
		t.Fatal(err)
	}

	for _, last := range []uint64{3, 8} { // the third operation of NAME.hashes is 3
		other := diedAfter(t, nil, []uint64{1, 2, last}, []uint64{9})
		if err := os.Rename(other+".stash", path+".stash"); err != nil {
			t.Fatal(err)
		}
		r, err := osfile.Salvage(path)
		if err == nil {
			r.Kept.File.Close()
		}
		if same := last == 3; same && (err != nil || len(r.Kept.More) != 1) || !same && !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("a log of the same history, %t, is taken: %t; %v", same, err == nil, err)
		}
	}
}

// TestUncountedPages covers K2: what a writer that died has appended to NAME.hashes, and no superblock
// counts, is cut off. Otherwise Salvage would take it for a part of the history, whatever came since.
func TestUncountedPages(t *testing.T) {
	path := diedAfter(t, nil, nil, nil)
	w := mustWriter(t, path)
	if err := errors.Join(w.Clean(), w.Abandon()); err != nil {
		t.Fatal(err)
	}
	w = mustWriter(t, path)
	defer w.Abandon()
	tail := *w.KeptTail()
	for h := range uint64(1000) {
		if err := tail.Add(hashes.Entry{Op: layout.AtLeastOne, Hash: h, Time: 1}); err != nil {
			t.Fatal(err)
		}
	}
	before, err := w.KeptFile().Pages()
	if err != nil {
		t.Fatal(err)
	}
	w.Append(nil, 0, layout.AtLeastOne, 1)
	if err := errors.Join(w.Harden(w.EndSegment(false, 0)), w.Checkpoint(wal.MinBytes)); err != nil {
		t.Fatal(err)
	}
	pages, err := w.KeptFile().Pages()
	if counted := w.Superblock().Hashes().Pages; err != nil || before <= counted || pages != counted {
		t.Errorf("%d pages are there of %d, and %d count: %v", pages, before, counted, err)
	}
}

// A failingHashes is a HashFile whose syncs fail as often as failures says.
type failingHashes struct {
	recovery.HashFile
	failures *int
}

var errHashes = errors.New("no sync")

func (f failingHashes) Sync() error {
	if *f.failures > 0 {
		*f.failures--
		return errHashes
	}
	return f.HashFile.Sync()
}

// TestKeepFails covers K2: a checkpoint that cannot keep the hashes changes nothing, and can be tried
// again, if the filter must keep them. Otherwise it goes on without them.
func TestKeepFails(t *testing.T) {
	for _, must := range []bool{true, false} {
		w := mustWriter(t, diedAfter(t, nil, nil, nil))
		failures := 2
		w.KeepHashesIn(failingHashes{w.KeptFile(), &failures})
		w.SetMustKeep(must)
		before, at := *w.Superblock(), w.History().At.Number
		w.Append(nil, 0, layout.AtLeastOne, 1)
		if err := w.Harden(w.EndSegment(false, 0)); err != nil {
			t.Fatal(err)
		}
		w.BeginCheckpoint()
		for must && failures > 0 {
			if err := w.EndCheckpoint(); !errors.Is(err, errHashes) || *w.Superblock() != before || w.HashesErr() != nil || w.Err() != nil {
				t.Fatalf("a checkpoint that failed has changed something: %v, %v, %v", err, w.HashesErr(), w.Err())
			}
		}
		if err := w.EndCheckpoint(); err != nil {
			t.Fatal(err)
		}
		sb := w.Superblock()
		if lost := w.HashesErr() != nil && sb.Hashes().Pages == 0; lost != !must || sb.Kept().At.Number != at+1 {
			t.Errorf("must %t, lost %t: %v", must, lost, w.HashesErr())
		}
		k, err := w.Hashes()
		if err == nil {
			_, _, err = recovery.EndOfHashes(k.File, sb)
		}
		if (err == nil) != must {
			t.Errorf("must %t: %v", must, err)
		}
		if err := w.Abandon(); err != nil {
			t.Fatal(err)
		}
	}
}
