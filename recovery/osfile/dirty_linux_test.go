package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// dirty returns how many pages of a file are in the cache and not on the disk.
func dirty(t *testing.T, f *os.File) uint64 {
	st := cached(t, f)
	return st.Dirty + st.Writeback
}

func cached(t *testing.T, f *os.File) (st unix.Cachestat_t) {
	t.Helper()
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &st, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		t.Skip("NOT TESTED: this kernel does not tell which pages are dirty: ", err)
	}
	must(t, err)
	return st
}

// TestBeginSync checks that BeginSync makes the system write the dirty pages of a file. The system may
// write them before, so the test tries several times, and passes once BeginSync finds dirty pages.
func TestBeginSync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, nil)
	f, err := openHashes(path, os.O_RDWR)
	must(t, err)
	defer f.Close()
	file := f.(hashFile).File
	words := make([]uint64, 1<<16)
	known := false
	for range 20 {
		must(t, f.WritePages(0, words))
		before := cached(t, file).Dirty
		known = known || before > 0
		BeginSync(f)
		after := cached(t, file).Dirty
		must(t, f.Sync())
		if dirty(t, file) > 0 {
			t.Skip("NOT TESTED: this file system writes nothing to a disk")
		}
		if before > 0 && after == 0 {
			return
		}
	}
	if !known {
		t.Skip("NOT TESTED: this file system does not say which pages are dirty") // such as overlayfs
	}
	t.Error("nothing is being written")
}

// TestSyncsLeaveNothingDirty checks that a sync leaves no dirty page of the file. The system may write a
// page before the sync, so the test stores several times, and at least one store must leave a dirty
// page.
func TestSyncsLeaveNothingDirty(t *testing.T) {
	golden, _ := golden(t, "compact-seed.mmf")
	v := mustFiles(t, golden)
	created, err := v.CreateLog(wal.MinBytes)
	must(t, err)
	defer created.Close()
	log, filter := created.(logFile), v.filter
	if n := dirty(t, log.file); n != 0 {
		t.Errorf("%d pages of a new log are not on the disk", n)
	}
	for name, file := range map[string]struct {
		recovery.File
		os *os.File
	}{"the log": {log, log.file}, "the filter": {filter, filter.file}} {
		seen := uint64(0)
		for round := range uint64(10) {
			for word := uint64(0); word < uint64(len(file.Words())); word += wal.PageWords {
				file.Store(word, file.Words()[word]+round)
			}
			seen += dirty(t, file.os)
			must(t, file.Sync())
			if n := dirty(t, file.os); n != 0 {
				t.Fatalf("%d pages of %s are not on the disk after a sync", n, name)
			}
		}
		if seen == 0 {
			t.Skipf("NOT TESTED: no page of %s is dirty after a store, on this file system", name)
		}
	}

	path := filepath.Join(t.TempDir(), "a")
	d := mustDraft(t, path, 1<<20)
	for i := range d.Data {
		d.Data[i] = byte(i)
	}
	must(t, d.Publish())
	published, err := os.Open(path)
	must(t, err)
	defer published.Close()
	if n := dirty(t, published); n != 0 {
		t.Errorf("%d pages of a published file are not on the disk", n)
	}
}
