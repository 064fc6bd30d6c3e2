package recovery_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// needsWriters skips a test where no file can be opened for writing.
func needsWriters(t *testing.T) {
	t.Helper()
	if err := osfile.CanWrite(); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
}

// mustWriter opens a file for writing, with a log.
func mustWriter(t *testing.T, path string) *recovery.Writer {
	t.Helper()
	needsWriters(t)
	v, err := osfile.OpenFiles(path)
	must(t, err)
	w, _, err := recovery.NewWriter(v)
	if err == nil {
		err = w.Begin(wal.MinBytes)
	}
	if err != nil {
		v.Close()
		t.Fatal(err)
	}
	return w
}

// TestRecordOfAWordThatIsNone covers L3: a record may store to any word of the stash and the region,
// from the first to the last. If a record stores elsewhere, the recovery changes nothing in the file.
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
		w.StoreSame(layout.WordStash)
		w.StoreSame(c.word)
		w.StoreSame(layout.WordStash)
		if err := w.Abandon(); err != nil { // which leaves it live
			t.Fatal(err)
		}
		v, err := osfile.OpenFiles(f.Name())
		must(t, err)
		before := v.Filter().Words()[layout.WordRuntime]
		_, r, err := recovery.NewWriter(v)
		e := new(layout.CorruptError)
		switch {
		case c.ok && (err != nil || !r.Recovered || r.Records != 3):
			t.Errorf("word %d of %d: %+v, %v", c.word, end, r, err)
		case !c.ok && (!errors.As(err, &e) || e.Region != layout.RegionLog || e.Rule != "L3"):
			t.Errorf("word %d of %d: %v", c.word, end, err)
		case !c.ok && v.Filter().Words()[layout.WordRuntime] != before:
			t.Errorf("word %d of %d: the recovery changed the file", c.word, end)
		}
		must(t, v.Close())
	}
}

// TestLogAheadOfTheFile covers L2 for a reader. The file is an older copy, and the log is ahead of its
// newest superblock. The reader must find the log under either of its names, also if it opens the file
// by a link.
func TestLogAheadOfTheFile(t *testing.T) {
	f, _ := openGolden(t)
	path := f.Name()
	older, err := os.ReadFile(path)
	must(t, err)
	w := mustWriter(t, path)
	w.StoreSame(layout.WordStash)
	must(t, errors.Join(w.Abandon(), os.WriteFile(path, older, 0o600)))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		link = path
	}
	check := func(want bool) {
		t.Helper()
		for _, path := range []string{path, link} {
			f, _, err := osfile.OpenFile(path)
			if err == nil {
				f.Close()
			}
			e := new(layout.CorruptError)
			if found := errors.As(err, &e) && e.Region == layout.RegionSuperblock && e.Rule == "L2"; found != want || err != nil && !found {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	check(true)
	log, next := path+recovery.CurrentLog.String(), path+recovery.NextLog.String()
	must(t, os.Rename(log, next))
	check(true)
	must(t, os.Remove(next))
	check(false)
}

// openGolden opens a copy of a golden image that the test may change.
func openGolden(t *testing.T) (f *os.File, head *osfile.Head) {
	t.Helper()
	image, err := os.ReadFile("../testdata/compact-seed.mmf")
	must(t, err)
	path := filepath.Join(t.TempDir(), "a")
	must(t, os.WriteFile(path, image, 0o600))
	f, head, err = osfile.OpenFile(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, head
}
