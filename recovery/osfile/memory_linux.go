package osfile

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// MemoryLimit returns how many bytes of memory this process may have, its part of the page cache
// included: those of the machine, or the limit of a control group that the process is in.
func MemoryLimit() int64 {
	limit := groupLimit()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		limit = min(limit, int64(info.Totalram)*int64(info.Unit))
	}
	return limit
}

// groupLimit is found once: a limit seldom changes, and opening a file must not take long.
var groupLimit = sync.OnceValue(func() int64 {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return limitOf(os.DirFS("/sys/fs/cgroup"), string(groups))
})

// limitOf returns the least memory limit of the control groups in which /proc/self/cgroup says that a
// process is, and of the groups above them. In a container, the paths may be those of the machine: then
// the file system begins with the group of the container.
func limitOf(files fs.FS, groups string) int64 {
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		root, name := ".", "memory.max" // version 2
		if strings.Contains(","+fields[1]+",", ",memory,") {
			root, name = "memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, err := fs.ReadFile(files, path.Join(root, group, name))
			if n, e := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && e == nil { // not "max"
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
