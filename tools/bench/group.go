package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A memoryGroup is a control group, of version 1 or 2, with a memory limit.
type memoryGroup struct {
	path    string
	version int
}

// newMemoryGroup makes a group below the group of this process, whose limits apply too. In
// version 2, a group with processes cannot have groups below it, so the new group is beside it.
func newMemoryGroup(limit int64) (*memoryGroup, error) {
	failed := errors.New("cannot create a control group that limits memory")
	for _, parent := range groupParents() {
		g := &memoryGroup{filepath.Join(parent.path, fmt.Sprintf("mmapfilter-measure-%d", os.Getpid())), parent.version}
		err := os.Mkdir(g.path, 0o755)
		if err == nil {
			if err = g.limit(limit); err == nil {
				return g, nil
			}
			err = errors.Join(err, g.remove())
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// groupParents returns the groups in which the new group may be made. In a container the group of this
// process may be at the root.
func groupParents() (parents []memoryGroup) {
	const root = "/sys/fs/cgroup"
	text, _ := procFile("self/cgroup")
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			parents = append(parents, memoryGroup{filepath.Join(root, fields[2]), 2}, memoryGroup{filepath.Join(root, filepath.Dir(fields[2])), 2})
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			parents = append(parents, memoryGroup{filepath.Join(root, "memory", fields[2]), 1}, memoryGroup{filepath.Join(root, "memory"), 1})
		}
	}
	return parents
}

func (g *memoryGroup) file(name string) string { return filepath.Join(g.path, name) }

// write writes to a file of the group, which exists if the folder is a control group.
func (g *memoryGroup) write(name string, value int64) error {
	f, err := os.OpenFile(g.file(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(strconv.AppendInt(nil, value, 10))
	return errors.Join(err, f.Close())
}

// limit limits memory, including the page cache, and allows no swap.
func (g *memoryGroup) limit(bytes int64) error {
	if g.version == 1 {
		if err := g.write("memory.limit_in_bytes", bytes); err != nil {
			return err
		}
		g.write("memory.memsw.limit_in_bytes", bytes) // missing without swap
		return nil
	}
	if err := g.write("memory.max", bytes); err != nil { // missing without the controller
		return err
	}
	g.write("memory.swap.max", 0)
	return nil
}

// add moves a process into the group. Memory that it used before is charged to its old group.
func (g *memoryGroup) add(pid int) error { return g.write("cgroup.procs", int64(pid)) }

// kills returns how many processes of the group died for lack of memory.
func (g *memoryGroup) kills() int64 {
	name := "memory.oom_control"
	if g.version == 2 {
		name = "memory.events"
	}
	text, err := os.ReadFile(g.file(name))
	if err != nil {
		return 0
	}
	return countOf(string(text), "oom_kill")
}

// countOf returns the number in a line "name number".
func countOf(text, name string) int64 {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n
		}
	}
	return 0
}

// remove removes the group. A process that has just ended may stay in it for a moment, so remove
// retries.
func (g *memoryGroup) remove() error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := syscall.Rmdir(g.path)
		if err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		if wait > time.Second {
			return fmt.Errorf("remove %s: %w", g.path, err)
		}
		time.Sleep(wait)
	}
}

func (g *memoryGroup) String() string {
	return fmt.Sprintf("a control group of version %d", g.version)
}
