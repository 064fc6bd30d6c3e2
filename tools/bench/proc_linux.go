package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// mapped returns the memory use of those mappings of a process for whose names match returns true. If
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

// readsSoFar returns what this process has read.
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
	var errs [2]error
	r.calls, errs[0] = machine.FindField(text, "syscr")
	r.bytes, errs[1] = machine.FindField(text, "read_bytes")
	return r, errors.Join(errs[:]...)
}

// needDisk reports whether the files are on a disk; otherwise they cannot be dropped from
// memory. A short run goes on without one.
func (s *session) needDisk() (bool, error) {
	kind := machine.FileSystem(s.temp)
	if kind != "tmpfs" && kind != "ramfs" {
		return true, nil
	}
	why := fmt.Sprintf("files on %s are always in memory: let -dir name a directory on a disk", kind)
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

// deviceWrites returns how many bytes the device of a path has written for all processes, or -1 if the
// kernel does not say.
func deviceWrites(path string) int64 {
	text, err := os.ReadFile("/sys/dev/block/" + machine.MountOf(path).Device + "/stat")
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
