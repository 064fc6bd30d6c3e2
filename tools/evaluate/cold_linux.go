package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// coldPages builds a file, and returns how many of its pages one lookup of an absent key brings
// into memory, starting with none. If the file cannot be dropped from memory, why says so.
//
// It asks the kernel which pages are in memory. Major faults would be too few: a fault that a
// signal interrupts restarts once the page is there, and counts as minor.
func (c *config) coldPages(s structure) (pages float64, why string, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(c.out, &fs); err != nil {
		return 0, "", &os.PathError{Op: "statfs", Path: c.out, Err: err}
	}
	if fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC {
		return 0, "the output is not on a disk", nil
	}
	o, _, keys, err := s.options(c.extent.cold)
	if err != nil {
		return 0, "", err
	}
	path := filepath.Join(c.out, "cold.mmf")
	f, err := mmapfilter.Build(c.ctx, path, o, c.sequence(0, keys))
	if err != nil {
		return 0, "", err
	}
	err = f.Close()
	for done := 0; done < c.extent.misses && err == nil; done += coldBlock {
		if err = c.ctx.Err(); err == nil {
			var read float64
			read, err = c.readCold(path, uint64(done))
			pages += read / float64(c.extent.misses)
		}
	}
	return pages, "", errors.Join(err, os.Remove(path))
}

// readCold drops a file from memory, looks up absent keys, and returns how many pages that
// brought into memory. Pages read by opening the file and by a first lookup do not count.
func (c *config) readCold(path string, first uint64) (pages float64, err error) {
	err = drop(path)
	if err != nil {
		return 0, err
	}
	f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyRandom})
	if err != nil {
		return 0, err
	}
	m := &mapped{path: path, reader: f}
	m.Contains(c.key(firstAbsent - 1))
	before, err := residentPages(path)
	if err == nil && before > coldMost {
		err = fmt.Errorf("%d pages of %s stay in memory", before, path)
	}
	for i := range uint64(coldBlock) {
		m.Contains(c.key(firstAbsent + first + i))
	}
	after, failed := residentPages(path)
	return float64(after - before), errors.Join(err, failed, f.Close())
}

// coldMost bounds how many pages of a cold file may be in memory: opening it reads its head,
// and the kernel reads ahead.
const coldMost = 256

// drop syncs a file to disk, and drops it from the page cache.
func drop(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// residentPages returns how many pages of a file are in memory.
func residentPages(path string) (int64, error) {
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	m, err := recovery.Map(f, head.Size, false)
	if err != nil {
		return 0, err
	}
	bytes, err := m.Resident()
	return bytes / int64(os.Getpagesize()), errors.Join(err, m.Unmap())
}
