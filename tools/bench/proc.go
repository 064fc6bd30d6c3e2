package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procFile reads a file below /proc.
func procFile(format string, args ...any) (string, error) {
	data, err := os.ReadFile("/proc/" + fmt.Sprintf(format, args...))
	return string(data), err
}

// textOf returns the value of the first line "name: value" of a text, or "" if there is none.
func textOf(text, name string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// field returns the number in the first line "name: number" of a text. It converts a number of kB
// to bytes.
func field(text, name string) (int64, error) {
	number, isKB := strings.CutSuffix(textOf(text, name), " kB")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the kernel does not report %s", name)
	}
	if isKB {
		n <<= 10
	}
	return n, nil
}

// status returns a field of the status of a process.
func status(pid int, name string) (int64, error) {
	text, err := procFile("%d/status", pid)
	if err != nil {
		return 0, err
	}
	return field(text, name)
}

// peakMemory returns the most memory that this process has used so far.
func peakMemory() (bytes int64, err error) { return status(os.Getpid(), "VmHWM") }

// A mapUse is the memory of mappings, in bytes. Each of n processes that map a page has 1/n of it in
// pss. large is the part of rss in large pages, 2 MiB on most machines.
type mapUse struct{ rss, pss, large int64 }

// mapped returns the memory of those mappings of a process whose names match accepts. If match is
// nil, it returns the memory of the whole process.
func mapped(pid int, match func(name string) bool) (mapUse, error) {
	file := "smaps"
	if match == nil {
		file, match = "smaps_rollup", func(string) bool { return true }
	}
	text, err := procFile("%d/%s", pid, file)
	return parseSmaps(text, match), err
}

// parseSmaps sums up those mappings in an smaps file whose names match accepts. Each mapping begins
// with a line "from-to flags offset device inode name". A name that is not a path is passed as "".
func parseSmaps(text string, match func(name string) bool) (sum mapUse) {
	counts := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if !strings.HasSuffix(fields[0], ":") {
			at := strings.IndexByte(line+"/", '/')
			counts = match(strings.TrimSuffix(line[at:], "\n"))
			continue
		}
		if !counts {
			continue
		}
		bytes, _ := strconv.ParseInt(fields[1], 10, 64)
		bytes <<= 10
		switch fields[0] {
		case "Rss:":
			sum.rss += bytes
		case "Pss:":
			sum.pss += bytes
		case "AnonHugePages:", "FilePmdMapped:", "ShmemPmdMapped:":
			sum.large += bytes
		}
	}
	return sum
}

// pagesOf says in which page sizes this process maps the part of a file that it has touched, or "" if it
// maps none.
func pagesOf(path string) string {
	use, err := mapped(os.Getpid(), func(name string) bool { return name == path })
	switch {
	case err != nil || use.rss == 0:
		return ""
	case use.large == 0:
		return fmt.Sprintf("all in pages of %d KiB", os.Getpagesize()>>10)
	}
	return fmt.Sprintf("%.0f %% in large pages", 100*float64(use.large)/float64(use.rss))
}

// A mount is a file system, and its device.
type mount struct{ kind, device string }

// mountOf returns the mount that a path is on, or none if the system does not say.
func mountOf(path string) (found mount) {
	text, _ := procFile("self/mountinfo")
	longest := -1
	for line := range strings.Lines(text) {
		mounted, source, ok := strings.Cut(line, " - ")
		fields, of := strings.Fields(mounted), strings.Fields(source)
		if !ok || len(fields) < 5 || len(of) < 1 {
			continue
		}
		point := strings.TrimSuffix(fields[4], "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= longest {
			longest, found = len(point), mount{of[0], fields[2]}
		}
	}
	return found
}

// onDisk reports whether a path is on a disk. On other file systems, files are always in memory.
func onDisk(path string) bool {
	kind := mountOf(path).kind
	return kind != "tmpfs" && kind != "ramfs"
}

// dropCache writes a file to its disk and drops it from the page cache. Mapped pages stay.
func dropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err == nil {
		err = os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	return errors.Join(err, f.Close())
}

// pageReads counts read calls and page faults of a process, and the bytes that the process made the
// system read from disks.
type pageReads struct{ calls, minor, major, bytes int64 }

func (r pageReads) since(before pageReads) pageReads {
	return pageReads{r.calls - before.calls, r.minor - before.minor, r.major - before.major, r.bytes - before.bytes}
}

// readsSoFar returns what this process has read.
func readsSoFar() (r pageReads, err error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return r, os.NewSyscallError("getrusage", err)
	}
	r.minor, r.major = usage.Minflt, usage.Majflt
	text, err := procFile("self/io")
	if err != nil {
		return r, err
	}
	var errs [2]error
	r.calls, errs[0] = field(text, "syscr")
	r.bytes, errs[1] = field(text, "read_bytes")
	return r, errors.Join(errs[:]...)
}

// readAhead returns how much the kernel reads ahead on the device of a path.
func readAhead(path string) string {
	text, err := os.ReadFile("/sys/class/bdi/" + mountOf(path).device + "/read_ahead_kb")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text)) + " KiB"
}

// deviceWrites returns how many bytes the device of a path has written for all processes, or -1 if the
// kernel does not say.
func deviceWrites(path string) int64 {
	text, err := os.ReadFile("/sys/dev/block/" + mountOf(path).device + "/stat")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseInt(fields[6], 10, 64)
	if err != nil {
		return -1
	}
	return 512 * sectors
}

// processorTime returns the processor time of a process so far, in steps of 10 ms.
func processorTime(pid int) (time.Duration, error) {
	text, err := procFile("%d/stat", pid)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}
