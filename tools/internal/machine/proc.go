package machine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A MapUse is what /proc/PID/smaps says about a mapping, or smaps_rollup about a whole process,
// in bytes. Each of n processes that map a page has 1/n of it in Pss.
type MapUse struct {
	Rss, Pss int64
	Large    int64 // part of Rss mapped in large pages, 2 MiB on most machines
}

func (u *MapUse) add(name string, n int64) {
	switch name {
	case "Rss":
		u.Rss += n
	case "Pss":
		u.Pss += n
	case "AnonHugePages", "FilePmdMapped", "ShmemPmdMapped":
		u.Large += n
	}
}

// ParseSmaps sums up the mappings of an smaps file whose names match accepts. The name of a
// mapping is a path for a file, and may be empty.
func ParseSmaps(r io.Reader, match func(name string) bool) (sum MapUse, err error) {
	counts := false
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name, value, ok := kernelField(line)
		if !ok {
			if isMapping(line) {
				counts = match(mappingName(line))
			}
			continue
		}
		if counts {
			sum.add(name, value)
		}
	}
	return sum, lines.Err()
}

// isMapping reports whether a line of smaps begins a mapping: "from-to flags …".
func isMapping(line string) bool {
	addresses, _, _ := strings.Cut(line, " ")
	from, to, ok := strings.Cut(addresses, "-")
	if !ok {
		return false
	}
	_, err1 := strconv.ParseUint(from, 16, 64)
	_, err2 := strconv.ParseUint(to, 16, 64)
	return err1 == nil && err2 == nil
}

// mappingName returns the text after address, flags, offset, device and inode; it may contain
// spaces.
func mappingName(line string) string {
	for range 5 {
		_, rest, ok := strings.Cut(line, " ")
		if !ok {
			return ""
		}
		line = strings.TrimLeft(rest, " ")
	}
	return line
}

// kernelField splits a line such as "Rss:  12 kB" or "read_bytes: 12". It converts a value in kB
// to bytes.
func kernelField(line string) (name string, value int64, ok bool) {
	name, text, ok := strings.Cut(line, ":")
	if !ok || name == "" || strings.Contains(name, " ") {
		return "", 0, false
	}
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 2 {
		return "", 0, false
	}
	value, err := strconv.ParseInt(fields[0], 10, 64)
	switch {
	case err != nil:
		return "", 0, false
	case len(fields) == 2 && fields[1] != "kB":
		return "", 0, false
	case len(fields) == 2:
		value *= 1024
	}
	return name, value, true
}

// FindField returns the value of a field in a file of the kernel.
func FindField(text, field string) (int64, error) {
	for line := range strings.Lines(text) {
		if name, value, ok := kernelField(strings.TrimRight(line, "\n")); ok && name == field {
			return value, nil
		}
	}
	return 0, fmt.Errorf("the kernel says nothing of %s", field)
}

// Pages says in which page sizes the system maps the part of a file that this process has
// touched. It returns "" if the system does not say.
func Pages(path string) string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return ""
	}
	defer f.Close()
	use, err := ParseSmaps(f, func(name string) bool { return name == path })
	if err != nil || use.Rss == 0 {
		return ""
	}
	return use.pages()
}

func (u MapUse) pages() string {
	if u.Large == 0 {
		return fmt.Sprintf("all in pages of %d KiB", os.Getpagesize()>>10)
	}
	return fmt.Sprintf("%.0f %% in large pages", 100*float64(u.Large)/float64(u.Rss))
}
