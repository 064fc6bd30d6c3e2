package machine

import (
	"bufio"
	"os"
	"strings"
)

// A Mount is a line of /proc/self/mountinfo.
type Mount struct {
	Root, Point, Kind, Device, Options string
}

// Mounts returns all mounts, or none if the system does not say.
func Mounts() (points []Mount) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mounted, source, ok := strings.Cut(lines.Text(), " - ")
		fields, of := strings.Fields(mounted), strings.Fields(source)
		if ok && len(fields) > 4 && len(of) > 2 {
			points = append(points, Mount{fields[3], fields[4], of[0], fields[2], of[2]})
		}
	}
	return points
}

// MountOf returns the mount that a path is on.
func MountOf(path string) (found Mount) {
	longest := -1
	for _, m := range Mounts() {
		point := strings.TrimSuffix(m.Point, "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= longest {
			longest, found = len(point), m
		}
	}
	return found
}

// FileSystem names the kind of file system that a path is on, or returns "" if unknown.
func FileSystem(path string) string { return MountOf(path).Kind }
