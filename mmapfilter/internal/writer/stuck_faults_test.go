//go:build faults

package writer

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestStuck covers K2: if a checkpoint fails because hashes cannot be kept, this is reported, and no
// other begins by itself. The next checkpoint that an operation asks for must clear the failure.
func TestStuck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.mmf")
	shape.CreateKeeping(t, path, 100)
	k := mustBegin(t, path, -1)
	errFails, reported := errors.New("it fails"), []error(nil)
	k.OnError = func(err error) { reported = append(reported, err) }
	k.insert(t)
	t.Cleanup(func() { fault.Hook = nil })
	fault.Hook = func(call string) error {
		if call == "write" {
			k.ask(due{room: wal.MinBytes}) // while the checkpoint is under way
			return errFails
		}
		return nil
	}
	k.ask(due{room: wal.MinBytes})
	k.group.Wait()
	if !errors.Is(k.Writer.Protocol().Stuck(), errFails) || len(reported) != 1 || !errors.Is(reported[0], errFails) || k.Writer.Err() != nil || k.mu.checkpointing {
		t.Errorf("stuck %v, reported %v, failed %v, checkpointing %t", k.Writer.Protocol().Stuck(), reported, k.Writer.Err(), k.mu.checkpointing)
	}
	fault.Hook = nil
	k.ask(due{room: wal.MinBytes})
	k.group.Wait()
	if k.Writer.Protocol().Stuck() != nil || len(reported) != 1 || k.Writer.State().Checkpoints == 0 {
		t.Errorf("stuck %v, reported %v, %d checkpoints", k.Writer.Protocol().Stuck(), reported, k.Writer.State().Checkpoints)
	}
}
