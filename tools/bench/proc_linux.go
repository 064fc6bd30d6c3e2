package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
	"golang.org/x/sys/unix"
)

// procFile reads a file of /proc/PID. Pid 0 is this process.
func procFile(pid int, name string) (string, error) {
	process := "self"
	if pid != 0 {
		process = fmt.Sprint(pid)
	}
	data, err := os.ReadFile(filepath.Join("/proc", process, name))
	return string(data), err
}

// mapped returns the memory use of the mappings of a process whose names match accepts. If
// match is nil, it returns the use of the whole process, from smaps_rollup.
func mapped(pid int, match func(name string) bool) (machine.MapUse, error) {
	file := "smaps"
	if match == nil {
		file, match = "smaps_rollup", func(string) bool { return true }
	}
	text, err := procFile(pid, file)
	if err != nil {
		return machine.MapUse{}, err
	}
	return machine.ParseSmaps(strings.NewReader(text), match)
}

// status returns a field of /proc/PID/status in bytes.
func status(pid int, field string) (int64, error) {
	text, err := procFile(pid, "status")
	if err != nil {
		return 0, err
	}
	return machine.FindField(text, field)
}

// pageReads counts the faults of a process, and the bytes that it made the kernel read.
type pageReads struct {
	minor, major int64
	bytes        int64 // from disks, by its own faults and calls
}

func readsSoFar() (r pageReads, err error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return r, os.NewSyscallError("getrusage", err)
	}
	r.minor, r.major = usage.Minflt, usage.Majflt
	text, err := procFile(0, "io")
	if err != nil {
		return r, err
	}
	r.bytes, err = machine.FindField(text, "read_bytes")
	return r, err
}

func (r pageReads) since(before pageReads) pageReads {
	return pageReads{r.minor - before.minor, r.major - before.major, r.bytes - before.bytes}
}

// needDisk reports whether the files are on a disk; otherwise they cannot be dropped from
// memory. A short run goes on without one.
func (s *session) needDisk() (bool, error) {
	kind := machine.FileSystem(s.temp)
	if kind != "tmpfs" && kind != "ramfs" {
		return true, nil
	}
	why := fmt.Sprintf("files on %s are in memory always; -dir names a directory on a disk", kind)
	if !s.short {
		return false, errors.New(why)
	}
	s.printf("\nNOT MEASURED: %s\n", why)
	return false, nil
}

// readAhead returns how much the kernel reads ahead on the device of a path.
func readAhead(path string) string {
	text, err := os.ReadFile("/sys/class/bdi/" + machine.MountOf(path).Device + "/read_ahead_kb")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text)) + " KiB"
}

// deviceBytes returns how many bytes the device of a path has read and written for all processes, or -1
// if the kernel does not say.
func deviceBytes(path string) (read, written int64) {
	text, err := os.ReadFile("/sys/dev/block/" + machine.MountOf(path).Device + "/stat")
	var n [7]int64
	if err != nil {
		return -1, -1
	}
	if _, err := fmt.Sscan(string(text), &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6]); err != nil {
		return -1, -1
	}
	return 512 * n[2], 512 * n[6]
}
