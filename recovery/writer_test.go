package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// mustWriter opens a file for writing, with a log.
func mustWriter(t *testing.T, path string) *Writer {
	t.Helper()
	v, err := OpenFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := NewWriter(v)
	if err == nil {
		err = w.Begin(wal.MinBytes)
	}
	if err != nil {
		v.Close()
		t.Fatal(err)
	}
	return w
}

// close closes the files, as a writer that dies does: a live file stays live.
func (w *Writer) close() error { return w.Detach()() }

// checkpoint makes a checkpoint, with a log of so many bytes.
func (w *Writer) checkpoint(logBytes int64) error {
	if size, _ := w.LogBytes(); size != logBytes {
		if err := w.GrowLog(logBytes); err != nil {
			return err
		}
	}
	w.BeginCheckpoint()
	return w.EndCheckpoint()
}

// store appends an operation that stores a word's own value to it.
func (w *Writer) store(word uint64) {
	w.Append([]wal.Store{{Word: word, Value: w.Words()[word]}}, 0, layout.Insert, 0)
}

// TestRecordOfAWordThatIsNone covers L3: a record with the right check may store to any word
// of the stash and the region, from the first to the last. If it stores elsewhere, the file is
// left as it is.
func TestRecordOfAWordThatIsNone(t *testing.T) {
	_, head := openGolden(t)
	end := uint64(layout.OffRegion+head.Geometry.RegionBytes) / 8
	for _, c := range []struct {
		word uint64
		ok   bool
	}{
		{layout.WordStash - 1, false}, {layout.WordStash, true}, {end - 1, true}, {end, false},
	} {
		f, _ := openGolden(t)
		w := mustWriter(t, f.Name())
		w.store(layout.WordStash)
		w.store(c.word)
		w.store(layout.WordStash)
		if err := w.close(); err != nil { // which leaves it live
			t.Fatal(err)
		}
		v, err := OpenFiles(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		before := v.Filter().Words()[layout.WordRuntime]
		_, r, err := NewWriter(v)
		e := new(layout.CorruptError)
		switch {
		case c.ok && (err != nil || !r.Recovered || r.Records != 3):
			t.Errorf("word %d of %d: %+v, %v", c.word, end, r, err)
		case !c.ok && (!errors.As(err, &e) || e.Region != layout.RegionLog || e.Rule[:3] != "L3:"):
			t.Errorf("word %d of %d: %v", c.word, end, err)
		case !c.ok && v.Filter().Words()[layout.WordRuntime] != before:
			t.Errorf("word %d of %d: the recovery has begun", c.word, end)
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLogAheadOfTheFile covers L2 for a reader. The file is an older copy, and its log is
// ahead of the newest superblock. The reader looks for the log beside the file itself, and
// finds it under either of its names, and behind a link.
func TestLogAheadOfTheFile(t *testing.T) {
	f, _ := openGolden(t)
	path := f.Name()
	older, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWriter(t, path)
	w.store(layout.WordStash)
	if err := errors.Join(w.close(), os.WriteFile(path, older, 0o600)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		link = path
	}
	check := func(want bool) {
		t.Helper()
		for _, path := range []string{path, link} {
			f, _, err := OpenFile(path)
			if err == nil {
				f.Close()
			}
			e := new(layout.CorruptError)
			if found := errors.As(err, &e) && e.Region == layout.RegionSuperblock && e.Rule[:3] == "L2:"; found != want || err != nil && !found {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	check(true)
	log, next := path+CurrentLog.String(), path+NextLog.String()
	if err := os.Rename(log, next); err != nil {
		t.Fatal(err)
	}
	check(true)
	if err := os.Remove(next); err != nil {
		t.Fatal(err)
	}
	check(false)
}

// TestOpenWhileAWriterBegins checks that OpenFile reads the file again if a writer begins
// between its reading of the superblock and of the log. The log is then ahead of the
// superblock.
func TestOpenWhileAWriterBegins(t *testing.T) {
	golden, _ := openGolden(t)
	defer func(old func()) { afterHead = old }(afterHead)
	looks := 0
	var w *Writer
	afterHead = func() {
		if looks++; looks == 1 {
			w = mustWriter(t, golden.Name())
			w.store(layout.WordStash)
		}
	}
	f, head, err := OpenFile(golden.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if head.Superblock.State() != layout.Live || looks != 2 {
		t.Errorf("%v after %d looks", head.Superblock.State(), looks)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}
