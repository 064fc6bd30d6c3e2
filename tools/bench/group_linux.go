package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// A memoryGroup is a control group, of version 1 or 2, with a memory limit.
type memoryGroup struct {
	path    string
	version int
}

// newMemoryGroup makes a group below the group of this process, whose limits apply too. In
// version 2, a group with processes cannot have groups below it, so the new group is beside it.
func newMemoryGroup(limit int64) (*memoryGroup, error) {
	var failed error
	for _, parent := range groupParents() {
		g := &memoryGroup{filepath.Join(parent.path, fmt.Sprintf("mmapfilter-measure-%d", os.Getpid())), parent.version}
		if err := os.Mkdir(g.path, 0o755); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		err := g.limit(limit)
		if err == nil {
			return g, nil
		}
		failed = errors.Join(failed, err, g.remove())
	}
	if failed == nil {
		failed = errors.New("no control groups of memory are mounted")
	}
	return nil, failed
}

// groupParents returns the groups in which the new group may be made.
func groupParents() (parents []memoryGroup) {
	for _, own := range ownGroups() {
		parents = append(parents, own)
		if own.version == 2 {
			parents = append(parents, memoryGroup{filepath.Dir(own.path), 2})
		}
	}
	return parents
}

// ownGroups returns the groups of this process that control memory.
func ownGroups() (groups []memoryGroup) {
	text, err := procFile(0, "cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for _, m := range machine.Mounts() {
			v1 := m.Kind == "cgroup" && hasWord(fields[1], "memory") && hasWord(m.Options, "memory")
			v2 := m.Kind == "cgroup2" && fields[0] == "0" && fields[1] == ""
			below, err := filepath.Rel(m.Root, fields[2])
			if !v1 && !v2 || err != nil || strings.HasPrefix(below, "..") {
				continue
			}
			g := memoryGroup{filepath.Join(m.Point, below), 1}
			if v2 {
				g.version = 2
			}
			groups = append(groups, g)
		}
	}
	return groups
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

func (g *memoryGroup) file(name string) string { return filepath.Join(g.path, name) }

func (g *memoryGroup) write(name string, value int64) error {
	return os.WriteFile(g.file(name), strconv.AppendInt(nil, value, 10), 0)
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

// add moves a process into the group. Memory that it used before counts elsewhere.
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
