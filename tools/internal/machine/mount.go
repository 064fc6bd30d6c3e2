package machine

import (
	"bufio"
	"os"
	"strings"
)

// A Mount is a file system, and its device.
type Mount struct{ Kind, Device string }

// MountOf returns the mount that a path is on, or none if the system does not say.
func MountOf(path string) (found Mount) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Mount{}
	}
	defer f.Close()
	longest := -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mounted, source, ok := strings.Cut(lines.Text(), " - ")
		fields, of := strings.Fields(mounted), strings.Fields(source)
		if !ok || len(fields) < 5 || len(of) < 1 {
			continue
		}
		point := strings.TrimSuffix(fields[4], "/")
		if (path == point || strings.HasPrefix(path, point+"/")) && len(point) >= longest {
			longest, found = len(point), Mount{of[0], fields[2]}
		}
	}
	return found
}

// FileSystem names the kind of file system that a path is on, or returns "" if unknown.
func FileSystem(path string) string { return MountOf(path).Kind }
