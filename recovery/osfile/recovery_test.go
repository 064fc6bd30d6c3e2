package osfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/wal"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// put writes a file.
func put(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}

// needsWriters skips a test where no file can be opened for writing.
func needsWriters(t *testing.T) {
	t.Helper()
	if err := CanWrite(); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
}

// mustDraft returns a draft of so many bytes.
func mustDraft(t *testing.T, path string, size int) *Draft {
	t.Helper()
	d, err := NewDraft(path, DraftOptions{})
	if err == nil {
		err = d.Allocate(context.Background(), int64(size))
	}
	must(t, err)
	return d
}

// TestDraftPublish checks that a draft replaces the old file when it is published, and not before, that
// the new file has the permissions of the old one, and that a link to the old file leads to it.
func TestDraftPublish(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a"), filepath.Join(dir, "link")
	put(t, path, []byte("old"))
	err := os.Symlink("a", link)
	if err == nil {
		_, err = os.Readlink(link) // Wine reports success, but makes no link
	}
	if err != nil {
		os.Remove(link)
		link = path
	}
	d := mustDraft(t, link, 5000)
	if !bytes.Equal(d.Data, make([]byte, 5000)) {
		t.Error("a new draft is not all zeros")
	}
	copy(d.Data, "new")
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Fatalf("%q, %v before it is published", got, err)
	}
	must(t, d.Publish())
	got, err := os.ReadFile(path)
	if err != nil || len(got) != 5000 || string(got[:3]) != "new" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info, err)
	}
	if list := names(t, dir); link != path && list != "a link" {
		t.Errorf("left %s", list)
	}
	if to, err := os.Readlink(link); link != path && to != "a" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if d, err = NewDraft(path, DraftOptions{}); err != nil { // the lock of the old file is gone with it
		t.Fatal(err)
	}
	d.Discard()
}

func TestDraftDiscard(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	put(t, path, []byte("old"))
	for _, allocate := range []bool{false, true} {
		d, err := NewDraft(path, DraftOptions{})
		must(t, err)
		if allocate {
			must(t, d.Allocate(context.Background(), 1<<20))
		}
		s, err := d.Scratch()
		must(t, err)
		if _, err := s.WriteAt([]byte("hashes"), 100); err != nil {
			t.Fatal(err)
		}
		must(t, s.Close())
		must(t, d.Discard())
		if list := names(t, dir); list != "a" {
			t.Errorf("left %s", list)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func TestDraftLocksTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	put(t, path, []byte("old"))
	first, err := NewDraft(path, DraftOptions{})
	must(t, err)
	if _, err := NewDraft(path, DraftOptions{}); !errors.Is(err, recovery.ErrLocked) {
		t.Errorf("a second draft: %v", err)
	}
	must(t, first.Discard())
	second, err := NewDraft(path, DraftOptions{})
	if err != nil {
		t.Fatalf("after the first is gone: %v", err)
	}
	second.Discard()
}

// TestDraftLocksWhatAppears checks that Publish does not replace a file that appeared under the name
// after the draft was created, if this file has a writer.
func TestDraftLocksWhatAppears(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	d := mustDraft(t, path, 4096)
	put(t, path, []byte("mine"))
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer writer.Close()
	must(t, lock(writer))
	if err := d.Publish(); !errors.Is(err, recovery.ErrLocked) {
		t.Errorf("published: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "mine" || names(t, dir) != "a" {
		t.Errorf("%q, %v, left %s", got, err, names(t, dir))
	}
}

// TestLockIsOnTheFileOfThatName checks that, if a file is replaced between the open and the lock, the
// new file is locked.
func TestLockIsOnTheFileOfThatName(t *testing.T) {
	if !Replaces {
		t.Skip("nobody can replace an open file here")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	replace := func() {
		next := filepath.Join(dir, "next")
		put(t, next, nil)
		must(t, os.Rename(next, path))
	}
	replace()
	defer func(old func()) { beforeLock = old }(beforeLock)
	times := 0
	beforeLock = func() {
		if times++; times <= 3 {
			replace()
		}
	}
	d := &Draft{path: path}
	must(t, d.lockOld())
	defer d.release()
	locked, err := d.old.Stat()
	must(t, err)
	if now, err := os.Stat(path); err != nil || !os.SameFile(locked, now) || times != 4 {
		t.Errorf("locked %v, but the name has %v, %v, after %d times", locked, now, err, times)
	}
}

// TestCatch cuts a mapped file short, and loads from the part that is gone.
func TestCatch(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	must(t, err)
	defer f.Close()
	const size = 1 << 20
	must(t, writeZeros(f, size, zeroStep))
	m, err := Map(f, size, false)
	must(t, err)
	defer m.Unmap()
	load := func(i int) func() {
		return func() {
			if m.Data[i] != 0 {
				t.Error("not zero")
			}
		}
	}
	if fault := Catch(m.Data, load(size-1)); fault != nil {
		t.Fatal(fault)
	}
	if err := f.Truncate(8192); err != nil {
		t.Skipf("this system keeps a mapped file from being cut short: %v", err)
	}
	if fault := Catch(m.Data, load(100)); fault != nil {
		t.Errorf("in what is left: %v", fault)
	}
	if fault := Catch(m.Data, load(size-5000)); fault == nil || fault.Offset != size-5000 {
		t.Errorf("in what is gone: %v", fault)
	}
	if err := m.Populate(false, nil); err == nil {
		t.Error("what is gone was populated")
	} else if fault := new(FaultError); !errors.As(err, &fault) {
		t.Errorf("populate: %v", err)
	}
	for name, f := range map[string]func(){
		"a nil pointer": func() { _ = *(*int)(nil) },
		"a panic":       func() { panic("mine") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken for a fault of the file", name)
				}
			}()
			Catch(m.Data, f)
		}()
	}
}

func TestWords(t *testing.T) {
	w := []uint64{1, 2, 0x0807060504030201}
	b := recovery.Bytes(w)
	if len(b) != 24 || b[0] != 1 || b[8] != 2 || b[16] != 1 || b[23] != 8 {
		t.Errorf("%x", b)
	}
	if v := recovery.Words(b); len(v) != 3 || &v[0] != &w[0] {
		t.Error("Words does not return the same memory")
	}
	for _, bad := range [][]byte{b[:23], b[1:17]} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("Words accepts bytes that are not whole, aligned words")
				}
			}()
			recovery.Words(bad)
		}()
	}
}

// TestOpenRefuses covers paths that are not regular files. Package layout tests the content
// of files.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := OpenFile(dir); err == nil {
		t.Error("a directory was opened")
	}
	if _, err := NewDraft(dir, DraftOptions{}); err == nil {
		t.Error("a draft may replace a directory")
	}
	var pathError *fs.PathError
	if _, _, err := OpenFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := NewDraft(filepath.Join(dir, "no", "such"), DraftOptions{}); !errors.As(err, &pathError) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
	if list := names(t, dir); list != "" {
		t.Errorf("left %s", list)
	}
	empty := filepath.Join(dir, "empty")
	put(t, empty, nil)
	var e *layout.CorruptError
	if _, _, err := OpenFile(empty); !errors.As(err, &e) || e.Region != layout.RegionFile || e.Offset != 0 {
		t.Errorf("an empty file: %v", err)
	}
}

// TestOpenWhileAWriterBegins checks that OpenFile reads the file again if a writer begins after OpenFile
// has read the superblock and before it reads the log. The log is then ahead of the superblock.
func TestOpenWhileAWriterBegins(t *testing.T) {
	needsWriters(t)
	path, _ := golden(t, "compact-seed.mmf")
	defer func(old func()) { afterHead = old }(afterHead)
	looks := 0
	var w *recovery.Writer
	afterHead = func() {
		if looks++; looks == 1 {
			v, err := OpenFiles(path)
			if err == nil {
				w, _, err = recovery.NewWriter(v)
			}
			if err == nil {
				err = w.Begin(wal.MinBytes)
			}
			must(t, err)
			w.Append([]wal.Store{{Word: layout.WordStash, Value: w.Words()[layout.WordStash]}}, 0, layout.Insert, 0)
		}
	}
	f, head, err := OpenFile(path)
	must(t, err)
	defer f.Close()
	if head.Superblock.State() != layout.Live || looks != 2 {
		t.Errorf("%v after %d looks", head.Superblock.State(), looks)
	}
	if err := w.Detach()(); err != nil {
		t.Error(err)
	}
}

// golden writes a copy of a golden image, and returns the path of the copy and the image.
func golden(t *testing.T, name string) (path string, image []byte) {
	t.Helper()
	image, err := os.ReadFile("../../testdata/" + name)
	must(t, err)
	path = filepath.Join(t.TempDir(), "a")
	put(t, path, image)
	return path, image
}

// openGolden opens a copy of a golden image that the test may change.
func openGolden(t *testing.T) (f *os.File, head *Head) {
	t.Helper()
	path, _ := golden(t, "compact-seed.mmf")
	f, head, err := OpenFile(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, head
}

// mustFiles opens a file for writing.
func mustFiles(t *testing.T, path string) *Files {
	t.Helper()
	v, err := OpenFiles(path)
	must(t, err)
	t.Cleanup(func() { v.Close() })
	return v
}

// TestReadWords checks that ReadWords returns a snapshot or an error.
func TestReadWords(t *testing.T) {
	change := func(t *testing.T, f *os.File, off int64) {
		w, err := os.OpenFile(f.Name(), os.O_RDWR, 0)
		must(t, err)
		defer w.Close()
		if _, err := w.WriteAt([]byte{77}, off); err != nil {
			t.Fatal(err)
		}
	}
	f, head := openGolden(t)
	var last, total int64
	words, err := ReadWords(f, head, func(done, of int64) { last, total = done, of })
	if err != nil || last != total || int64(len(words))*8 != total {
		t.Fatalf("%d of %d bytes, %d words, %v", last, total, len(words), err)
	}
	for name, off := range map[string]int64{"superblock": 4096 + 16, "counters of removals": layout.OffRuntime + 8} {
		f, head := openGolden(t)
		if _, err := ReadWords(f, head, func(int64, int64) { change(t, f, off) }); !errors.Is(err, recovery.ErrChanging) {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	f, head = openGolden(t)
	if err := os.Truncate(f.Name(), 50_000); err != nil {
		t.Skip("NOT TESTED: this system cannot cut an open file short: ", err)
	}
	var e *layout.CorruptError
	if _, err := ReadWords(f, head, nil); !errors.As(err, &e) || e.Region != layout.RegionFile || e.Offset != 50_000 {
		t.Errorf("cut short: %v", err)
	}
}

// TestPublishMarksTheOldFile covers K4: Publish marks an old filter file that has lost its last name as
// superseded, and changes nothing else in it. A file that has another name, or is not a filter of a
// known version, stays as it is.
func TestPublishMarksTheOldFile(t *testing.T) {
	needsWriters(t)
	_, image := golden(t, "compact-seed.mmf")
	superseded := bytes.Clone(image)
	copy(superseded[layout.OffRuntime+8*layout.RuntimeEpoch:], recovery.Bytes([]uint64{layout.Superseded}))
	newer := bytes.Clone(image)
	for slot := range layout.SuperblockSlots {
		sb := newer[slot*layout.SuperblockBytes:][:layout.SuperblockBytes]
		sb[8] = 99 // the version
		binary.LittleEndian.PutUint32(sb[layout.SuperblockBytes-4:], crc32.Checksum(sb[:layout.SuperblockBytes-4], crc32.MakeTable(crc32.Castagnoli)))
	}
	first := bytes.Clone(image)
	clear(first[:layout.SuperblockBytes]) // the first superblock is lost
	firstSuperseded := bytes.Clone(superseded)
	clear(firstSuperseded[:layout.SuperblockBytes])
	for name, c := range map[string]struct {
		old, want []byte
		linked    bool
	}{
		"a filter":                       {image, superseded, false},
		"a filter that has another name": {image, image, true},
		"a filter, damaged":              {first, firstSuperseded, false},
		"a filter, cut short":            {image[:layout.OffStash], superseded[:layout.OffStash], false},
		"the head of a filter":           {image[:layout.OffStash-1], image[:layout.OffStash-1], false},
		"a filter of a later version":    {newer, newer, false},
		"no filter":                      {make([]byte, 100_000), make([]byte, 100_000), false},
		"an empty file":                  {nil, nil, false},
	} {
		path := filepath.Join(t.TempDir(), "a")
		put(t, path, c.old)
		if c.linked {
			if err := os.Link(path, path+".backup"); err != nil {
				t.Skip("NOT TESTED: this system has no hard links: ", err)
			}
		}
		reader, err := os.Open(path)
		must(t, err)
		defer reader.Close()
		d := mustDraft(t, path, len(image))
		copy(d.Data, image)
		must(t, d.Publish())
		got, err := io.ReadAll(reader)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: the old file has %d bytes, which are wrong: %v", name, len(got), err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%s: the new file has %d bytes, which are wrong: %v", name, len(got), err)
		}
	}
}
