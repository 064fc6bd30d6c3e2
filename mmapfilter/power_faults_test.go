//go:build faults && linux

package mmapfilter

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A names records the changes of names in a directory. As in package crashsim, the first n changes since
// the last sync of the directory survive a power loss, for any n. The content of every file survives,
// even if the file has lost its name.
type names struct {
	testing.TB
	dir, files string // files has a link to every file
	mu         sync.Mutex
	states     []map[string]string // the names since the last sync, and their files
	synced     bool                // the last call was a sync
}

func namesOf(tb testing.TB, dir string) *names {
	return &names{TB: tb, dir: dir, files: memoryDir(tb)}
}

// before records the names before a call.
func (n *names) before(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	list, err := os.ReadDir(n.dir)
	must(n, err)
	now := map[string]string{}
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			continue // a build has just removed the file
		}
		file := filepath.Join(n.files, fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino))
		if err := os.Link(filepath.Join(n.dir, e.Name()), file); err != nil && !os.IsExist(err) {
			n.Error(err)
		}
		now[e.Name()] = file
	}
	if n.synced {
		n.states = nil
	}
	if last := len(n.states) - 1; last < 0 || !maps.Equal(n.states[last], now) {
		n.states = append(n.states, now)
	}
	n.synced = call == "syncdir"
}

// cut returns copies of the directory as a power loss may leave it now, except for one with all changes.
func (n *names) cut() (dirs []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, state := range n.states[:len(n.states)-1] {
		dir := n.TempDir()
		for name, file := range state {
			must(n, copyOver(filepath.Join(dir, name), file))
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// TestPowerCutsOfReplace covers K3, K8 and C2: if the power fails at a call of a rebuild, any number of
// the last changes of names may be lost. The name must then have the old or the new file, with every
// operation, its hashes, and the history before the rebuild.
func TestPowerCutsOfReplace(t *testing.T) {
	r := newReplaceRun(t)
	n := namesOf(t, filepath.Dir(r.path))
	lost := map[string]bool{}
	look := func(call string) {
		for i, dir := range n.cut() {
			lost[strings.Join(slices.Sorted(maps.Keys(n.states[i])), " ")] = true
			r.kills = append(r.kills, replaceKill{fmt.Sprintf("power loss before %s, with %d new names", call, i), filepath.Join(dir, filepath.Base(r.path)), slices.Collect(maps.Keys(r.in)), r.operations})
		}
	}
	r.watch(func(call string) error {
		if r.idle() {
			r.each()
		}
		look(call)
		return nil
	})
	watched := fault.Hook
	fault.Hook = func(call string) error {
		n.before(call) // also at the calls of an operation
		return watched(call)
	}
	must(t, r.f.Rebuild(context.Background(), nil))
	n.before("the end")
	look("the end")
	fault.Hook = nil
	for _, k := range r.kills {
		r.check(k)
	}
	if len(lost) < 4 {
		t.Errorf("only %v", slices.Collect(maps.Keys(lost)))
	}
	t.Logf("%d power losses, %v", len(r.kills), slices.Collect(maps.Keys(lost)))
}
