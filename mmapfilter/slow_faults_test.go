//go:build faults

package mmapfilter

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestRebuildOnSlowDisk has every sync take longer than those of a calm disk: a rebuild ends
// nonetheless.
func TestRebuildOnSlowDisk(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 10_000, KeepHashes: true})
	defer f.Close()
	mustInsert(t, f, 0, 1000)
	patience = time.Second
	fault.Hook = func(call string) error {
		if strings.Contains(call, "sync") {
			time.Sleep(12 * time.Millisecond)
		}
		return nil
	}
	t.Cleanup(func() { patience, fault.Hook = 10*time.Second, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // thousands of tries would take longer
	defer cancel()
	if err := f.Rebuild(ctx, nil); err != nil {
		t.Fatal(err)
	}
	mustHave(t, f, 0, 1000)
}
