//go:build faults

package mmapfilter

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestSyncsOfTheFirstMutation covers W7: opening for writing writes and creates nothing,
// whatever the state of the file; the first change costs a few syncs, and later ones none.
//
//	go test -tags faults ./mmapfilter -run SyncsOfTheFirst -v
func TestSyncsOfTheFirstMutation(t *testing.T) {
	const most = 10
	var calls []string
	fault.Hook = func(call string) error {
		calls = append(calls, call)
		return nil
	}
	t.Cleanup(func() { fault.Hook = nil })
	syncs := func() (n int) {
		for _, call := range calls {
			if strings.Contains(call, "sync") {
				n++
			}
		}
		return n
	}
	f, path := mustBuild(t, &Options{Capacity: 100_000}, numbers(0, 1000))
	f.Close()
	created, clean := mustCreate(t, &Options{Capacity: 100_000})
	created.Close()
	for state, path := range map[string]string{"sealed": path, "clean": clean} {
		for round := range 2 {
			t.Run(fmt.Sprintf("%s/%d", state, round), func(t *testing.T) {
				calls = nil
				f := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
				f.Contains([]byte("a key"))
				if list, _ := filepath.Glob(path + "*"); len(calls) != 0 || len(list) != 1 {
					t.Errorf("opening: %q; it left %q", calls, list)
				}
				for i := range 3 {
					calls = nil
					must(t, f.Insert([]byte("a key")))
					n := syncs()
					if i == 0 {
						t.Logf("the first mutation: %d syncs", n)
					}
					if i == 0 && (n == 0 || n > most) || i > 0 && len(calls) != 0 {
						t.Errorf("mutation %d: %d syncs: %q", i+1, n, calls)
					}
				}
				calls = nil
				must(t, f.Sync())
				if len(calls) != 1 || calls[0] != "fdatasync" && calls[0] != "fsync" {
					t.Errorf("a commit: %q", calls)
				}
				calls = nil
				must(t, f.Close())
				t.Logf("closing: %d syncs", syncs())
			})
		}
	}
	calls = nil
	g, err := Open(path, &OpenOptions{CommitInterval: -1})
	must(t, err)
	if err := g.Close(); err != nil || len(calls) != 0 {
		t.Errorf("opening and closing without a mutation: %q, %v", calls, err)
	}
}
