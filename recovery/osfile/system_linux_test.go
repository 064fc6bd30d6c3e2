package osfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// TestOpenDoesNotWaitForAPipe checks that OpenFile refuses a pipe, and does not wait for a process that
// writes to it.
func TestOpenDoesNotWaitForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	if _, _, err := OpenFile(path); err == nil {
		t.Error("a pipe was opened")
	}
	if _, err := NewDraft(path, DraftOptions{}); err == nil {
		t.Error("a draft may replace a pipe")
	}
}

// TestNoPermission tests files that the process may not open. If the process is root, the test first
// makes its thread act as another user on files.
func TestNoPermission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, errors.Join(os.WriteFile(path, nil, 0), os.Chmod(dir, 0o555), os.Chmod(filepath.Dir(dir), 0o755)))
	defer os.Chmod(dir, 0o755) // so that a user who is not root can remove it
	if os.Getuid() == 0 {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		must(t, unix.Setfsuid(65534))
		defer unix.Setfsuid(0)
	}
	if _, _, err := OpenFile(path); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to read: %v", err)
	}
	if _, err := NewDraft(path, DraftOptions{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to replace: %v", err)
	}
	if _, err := NewDraft(filepath.Join(dir, "new"), DraftOptions{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("to create: %v", err)
	}
}

func TestResident(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	must(t, err)
	defer f.Close()
	const size = 1<<20 + 64
	must(t, writeZeros(f, size, zeroStep))
	m, err := Map(f, size, false)
	must(t, err)
	defer m.Unmap()
	must(t, m.AdviseRandom())
	n := int64(0)
	for tries := 0; n < size && tries < 10; tries++ { // the system may drop a page again
		must(t, m.Populate(true, nil))
		n, err = m.Resident()
		must(t, err)
	}
	if n != size {
		t.Errorf("%d of %d bytes", n, size)
	}
	m.Release()
	if m.Data[size-1] != 0 {
		t.Error("not zero after it was released")
	}
}

// rss returns how many KiB of a file's mapping with the given rights are in the page table.
func rss(t *testing.T, path, rights string) string { return ofMapping(t, path, rights, "Rss") }

// ofMapping returns the named number from /proc/self/smaps for a file's mapping with the given rights.
func ofMapping(t *testing.T, path, rights, name string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("NOT TESTED: the kernel has no numbers of mappings: ", err)
	}
	head := regexp.MustCompile(`(?m)^[0-9a-f]+-[0-9a-f]+ ` + rights + ` .* ` + regexp.QuoteMeta(path) + `$`)
	at := head.FindIndex(text)
	if at == nil {
		t.Fatalf("%s is not mapped %s", path, rights)
	}
	_, text, _ = bytes.Cut(text[at[1]:], []byte("\n"+name+":"))
	return string(bytes.Fields(text)[0])
}

// TestLargePages checks that every mapping of a file on tmpfs has large pages from beginning to end. A
// file that is too large, or whose allocation was cancelled, must take no memory.
func TestLargePages(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "mmapfilter")
	if err != nil {
		t.Skip("NOT TESTED: there is no tmpfs: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d, err := NewDraft(filepath.Join(dir, "a"), DraftOptions{})
	must(t, err)
	t.Cleanup(func() { d.Discard() })
	cancelled, cancel := context.WithCancelCause(context.Background())
	why := errors.New("no longer needed")
	cancel(why)
	if err := d.Allocate(cancelled, 100*largePage); !errors.Is(err, why) || allocated(t, d.file) > largePage/64 {
		t.Errorf("cancelled: %v, %d bytes", err, allocated(t, d.file))
	}
	var st unix.Statfs_t
	must(t, unix.Fstatfs(int(d.file.Fd()), &st))
	room := int64(st.Bavail) * int64(st.Bsize)
	if err := d.Allocate(context.Background(), 2*room); st.Blocks > 0 && (!errors.Is(err, unix.ENOSPC) || allocated(t, d.file) > largePage/64) {
		t.Errorf("too large: %v, %d bytes", err, allocated(t, d.file))
	}
	const size = 3*largePage + 5*4096
	draft := func() *Draft {
		d := mustDraft(t, filepath.Join(dir, "a"), size)
		t.Cleanup(func() { d.Discard() })
		return d
	}
	d = draft()
	if at := recovery.Address(d.Data); at%largePage != 0 {
		t.Fatalf("mapped to %#x", at)
	}
	if err := unix.Madvise(d.Data[:3*largePage], unix.MADV_COLLAPSE); err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Skip("NOT TESTED: the kernel makes no large pages: ", err)
	}
	d = draft()
	const want = "6144" // KiB
	check := func(m *Mapping, rights string) {
		t.Helper()
		must(t, m.Populate(false, nil))
		if got := ofMapping(t, d.file.Name(), rights, "ShmemPmdMapped"); got != want {
			t.Errorf("%s KiB of the mapping %s are in large pages, not %s", got, rights, want)
		}
		for i, b := range m.Data {
			if b != 0 {
				t.Fatalf("byte %d of a new file is %d", i, b)
			}
		}
	}
	check(&d.Mapping, "rw-s")
	m, err := Map(d.file, size, false)
	must(t, err)
	check(m, "r--s")
	if text, err := os.ReadFile("/proc/self/maps"); bytes.Contains(text, []byte("/dev/zero")) {
		t.Errorf("reserved addresses count as memory: %v\n%s", err, text)
	}
	sum := byte(0)
	if fault := Catch(m.around, func() { sum += m.around[len(m.around)-1] }); fault == nil {
		t.Error("the addresses after a mapping can be read: ", sum)
	}
	if err := m.Unmap(); err != nil || m.Data != nil || m.around != nil {
		t.Errorf("%v; %d and %d bytes are mapped", err, len(m.Data), len(m.around))
	}
	if m.Unmap() != nil {
		t.Error("a second Unmap fails")
	}
}

func TestIsSince(t *testing.T) {
	for release, want := range map[string]bool{
		"6.2.0": true, "6.2": true, "6.18.44-fc-v595": true, "7.0-rc1": true, "10.1": true,
		"6.1.0-13-amd64": false, "5.15.0-1": false, "": false, "linux": false, "6": false,
	} {
		if got := isSince(release, 6, 2); got != want {
			t.Errorf("%q: %t", release, got)
		}
	}
}

// TestFaultsOfBothMappings checks that a fault in either mapping, for loads or stores, is reported with
// its offset in the file.
func TestFaultsOfBothMappings(t *testing.T) {
	path, _ := golden(t, "compact-clean.mmf")
	v := mustFiles(t, path)
	must(t, os.Truncate(path, layout.OffRegion))
	for name, touch := range map[string]func(){
		"load":  func() { v.Filter().Store(0, v.Filter().Words()[layout.WordRegion]) },
		"store": func() { v.Filter().Store(layout.WordRegion, 1) },
	} {
		var failed error
		fault := v.Catch(touch, func(err error) { failed = err })
		if fault == nil || fault.(*FaultError).Offset != layout.OffRegion || failed != fault {
			t.Errorf("%s: %v, %v", name, fault, failed)
		}
	}
	must(t, v.Close())
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || bytes.Contains(maps, []byte(path)) {
		t.Errorf("mapped after Close: %v", err)
	}
}

// TestSyncedPagesLeaveThePageTable checks that, if delaysRmap is set, each sync removes the pages of the
// log and of the region that were stored to from the page table. Pages that lookups load from must stay.
func TestSyncedPagesLeaveThePageTable(t *testing.T) {
	defer func(is bool) { delaysRmap = is }(delaysRmap)
	for _, delaysRmap = range []bool{true, false} {
		t.Run(fmt.Sprintf("delaysRmap=%t", delaysRmap), func(t *testing.T) { testSyncedPages(t, delaysRmap) })
	}
}

func testSyncedPages(t *testing.T, leave bool) {
	check := func(what, before, after string) {
		t.Helper()
		if leave {
			before = "0"
		}
		if after != before {
			t.Errorf("%s KiB of %s after a sync, want %s", after, what, before)
		}
	}
	dir, err := filepath.EvalSymlinks(t.TempDir()) // smaps has names without links
	must(t, err)
	const size = 64 << 10
	f, err := os.Create(filepath.Join(dir, "log"))
	if err == nil {
		err = writeZeros(f, size, zeroStep)
	}
	must(t, err)
	log, err := mapLog(f, size)
	must(t, err)
	defer log.Close()
	for i := range log.Words() {
		log.Store(uint64(i), 1)
	}
	if used := rss(t, f.Name(), "rw-s"); used != "64" {
		t.Errorf("%s KiB of a log of 64 KiB are in the page table", used)
	}
	must(t, log.Sync())
	check("the log", "64", rss(t, f.Name(), "rw-s"))

	_, image := golden(t, "compact-clean.mmf")
	path := filepath.Join(dir, "a")
	put(t, path, image)
	v := mustFiles(t, path)
	words := v.Filter().Words()
	v.Filter().Store(layout.WordRegion, words[layout.WordRegion])
	loads, stores := rss(t, path, "r--s"), rss(t, path, "rw-s")
	if loads == "0" || stores == "0" {
		t.Error("no page of the region is in the page table")
	}
	must(t, v.Filter().Sync())
	check("the region", stores, rss(t, path, "rw-s"))
	if left := rss(t, path, "r--s"); left != loads {
		t.Errorf("%s KiB of the pages that lookups load from after a sync, %s before", left, loads)
	}
	for i, word := range words {
		if i < len(image)/8 && word != binary.LittleEndian.Uint64(image[8*i:]) {
			t.Fatalf("word %d has changed", i)
		}
	}
}
