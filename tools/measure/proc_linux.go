package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"golang.org/x/sys/unix"
)

// procFile reads a file of /proc/PID; pid 0 is this process.
func procFile(pid int, name string) (string, error) {
	process := "self"
	if pid != 0 {
		process = fmt.Sprint(pid)
	}
	data, err := os.ReadFile(filepath.Join("/proc", process, name))
	return string(data), err
}

// mapped gives what the mappings of a process use whose names are accepted. With
// match nil it is all of the process, by smaps_rollup.
func mapped(pid int, match func(name string) bool) (mapUse, error) {
	file := "smaps"
	if match == nil {
		file, match = "smaps_rollup", func(string) bool { return true }
	}
	text, err := procFile(pid, file)
	if err != nil {
		return mapUse{}, err
	}
	return parseSmaps(strings.NewReader(text), match)
}

// status gives a field of /proc/PID/status in bytes.
func status(pid int, field string) (int64, error) {
	text, err := procFile(pid, "status")
	if err != nil {
		return 0, err
	}
	return findField(text, field)
}

// reads is what a process has made the kernel read, and its faults.
type reads struct {
	minor, major int64
	bytes        int64 // from disks, by its own faults and calls
}

func readsSoFar() (r reads, err error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return r, os.NewSyscallError("getrusage", err)
	}
	r.minor, r.major = usage.Minflt, usage.Majflt
	text, err := procFile(0, "io")
	if err != nil {
		return r, err
	}
	r.bytes, err = findField(text, "read_bytes")
	return r, err
}

func (r reads) since(before reads) reads {
	return reads{r.minor - before.minor, r.major - before.major, r.bytes - before.bytes}
}

// threadTime is what processors have given this thread.
func threadTime() time.Duration {
	var t unix.Timespec // getrusage is a tick of the scheduler behind, up to 4 ms
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// dropCache writes a file to its disk and drops it from the page cache. Pages
// that someone has mapped stay.
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

// machine describes the processor, the kernel and the memory.
func machine() (processor string, cores int, kernel, memory string) {
	processor, cores, kernel, _ = otherMachine()
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				processor = strings.TrimSpace(value)
				break
			}
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	}
	memory = "memory unknown"
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if n, err := findField(string(text), "MemTotal"); err == nil {
			memory = figures.Mebibytes(n) + " of memory"
		}
		switch limit := memoryLimit(); {
		case limit > 0:
			memory += ", limited to " + figures.Mebibytes(limit)
		default:
			memory += ", no limit"
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if load, _, ok := strings.Cut(string(text), " "); ok {
			memory += "; load before " + load
		}
	}
	return processor, cores, kernel, memory
}

// A mountPoint is a line of /proc/self/mountinfo.
type mountPoint struct {
	root, point, kind, device, options string
}

func mountPoints() (points []mountPoint) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mounted, source, ok := strings.Cut(lines.Text(), " - ")
		fields, of := strings.Fields(mounted), strings.Fields(source)
		if ok && len(fields) > 4 && len(of) > 2 {
			points = append(points, mountPoint{fields[3], fields[4], of[0], fields[2], of[2]})
		}
	}
	return points
}

// mountOf is the one that a path is on.
func mountOf(path string) (found mountPoint) {
	longest := -1
	for _, m := range mountPoints() {
		point := strings.TrimSuffix(m.point, "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= longest {
			longest, found = len(point), m
		}
	}
	return found
}

func fileSystem(path string) string { return mountOf(path).kind }

// needDisk reports whether files are on a disk, without which nothing of them can
// be dropped from memory. A short run goes on without.
func (s *session) needDisk() (bool, error) {
	kind := fileSystem(s.temp)
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

// readAhead is how much the kernel reads ahead on the device of a path, as it
// says it.
func readAhead(path string) string {
	text, err := os.ReadFile("/sys/class/bdi/" + mountOf(path).device + "/read_ahead_kb")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text)) + " KiB"
}

// diskReads is how many bytes the device of a path has read, for whomever; -1
// where the kernel does not say.
func diskReads(path string) int64 {
	text, err := os.ReadFile("/sys/dev/block/" + mountOf(path).device + "/stat")
	var requests, merged, sectors int64
	if err != nil {
		return -1
	}
	if _, err := fmt.Sscan(string(text), &requests, &merged, &sectors); err != nil {
		return -1
	}
	return 512 * sectors
}
