//go:build faults && linux

package osfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// recordCalls returns the system calls that f makes, with consecutive writes as one write.
func recordCalls(t *testing.T, f func() error) []string {
	t.Helper()
	var calls []string
	fault.Hook = func(call string) error {
		calls = append(calls, call)
		return nil
	}
	defer func() { fault.Hook = nil }()
	must(t, f())
	return slices.CompactFunc(calls, func(a, b string) bool { return a == "write" && b == "write" })
}

func mustCall(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, not\n%q", what, got, want)
	}
}

// newGoldenFiles opens a copy of a golden image for writing.
func newGoldenFiles(t *testing.T) *Files {
	t.Helper()
	path, _ := golden(t, "compact-seed.mmf")
	return mustFiles(t, path)
}

// publishWith publishes a draft of 5000 bytes over a file. Meanwhile each call first calls hook, which
// may return an error for it.
func publishWith(t *testing.T, path string, hook func(call string) error) error {
	t.Helper()
	d := mustDraft(t, path, 5000)
	fault.Hook = hook
	defer func() { fault.Hook = nil }()
	err := d.Publish()
	if info, err := os.Stat(path); err != nil || info.Size() != 5000 {
		t.Errorf("the file has %v, %v", info, err)
	}
	return err
}

// TestOrderOfPublish checks that the size and content of a new file are durable before it gets its name,
// and that its name is durable before Publish marks the old file and returns. The test checks the calls,
// because their order makes no difference on the disk unless the power fails.
//
//	go test -tags faults ./recovery/osfile -run Order -v
func TestOrderOfPublish(t *testing.T) {
	for name, c := range map[string]struct {
		old    string
		mark   []string
		hashes bool // whether the replaced file has kept hashes
		DraftOptions
	}{
		"a new file":              {"", nil, false, DraftOptions{}},
		"in place of another one": {os.DevNull, nil, false, DraftOptions{}},
		"in place of a filter":    {"../../testdata/compact-seed.mmf", []string{"write"}, false, DraftOptions{}},
		"… with hashes":           {"../../testdata/compact-seed.mmf", []string{"write"}, true, DraftOptions{}},
		"one that must be new":    {"", nil, false, DraftOptions{New: true}},
	} {
		path := filepath.Join(t.TempDir(), "a")
		if c.old != "" {
			old, err := os.ReadFile(c.old)
			must(t, err)
			put(t, path, old)
		}
		var move, drop []string
		if c.hashes {
			put(t, path+".hashes", nil)
			move, drop = []string{"rename"}, []string{"remove"} // to NAME.hashes.new, and of this file
		}
		d, err := NewDraft(path, c.DraftOptions)
		if err == nil {
			err = d.Allocate(context.Background(), 5000)
		}
		must(t, err)
		d.Data[4999] = 1
		calls := recordCalls(t, d.Publish)
		mustCall(t, name, calls, slices.Concat([]string{
			"msync", "fsync", // content and size
		}, move, []string{
			"rename",
			"remove", "remove", // the logs of the replaced file
		}, drop, []string{
			"syncdir", // the name and the removal of the logs
		}, c.mark)...) // K4: the old file can no longer get its name back
	}
}

// TestOrderOfFiles checks that the functions of Files make durable what a [recovery.Volume] must make
// durable. The crash explorer does not use Files, but a volume of its own.
func TestOrderOfFiles(t *testing.T) {
	v := newGoldenFiles(t)
	var log recovery.File
	calls := recordCalls(t, func() (err error) {
		log, err = v.CreateLog(wal.MinBytes)
		return err
	})
	mustCall(t, "CreateLog", calls, "fallocate", "write", "fsync", "syncdir")
	mustCall(t, "sync of a log", recordCalls(t, log.Sync), "fdatasync")
	mustCall(t, "KeepLog", recordCalls(t, v.KeepLog), "rename", "syncdir")
	mustCall(t, "RemoveLogs", recordCalls(t, v.RemoveLogs), "remove", "remove", "syncdir")
	mustCall(t, "sync of the filter", recordCalls(t, v.Filter().Sync), "msync", "fsync")
	must(t, log.Close())
}

// TestOrderOfBegin checks that the log, its name and the superblock with its salt are durable before the
// first operation is logged, and that the log then durably has its final name. On a clean close, the
// writer must store the superblock to one slot, then to the others, and then remove the log.
func TestOrderOfBegin(t *testing.T) {
	v := newGoldenFiles(t)
	w, _, err := recovery.NewWriter(v)
	must(t, err)
	filter := []string{"msync", "fsync"}
	part := filter // to sync a part of the filter
	if runtime.GOOS == "linux" {
		part = []string{"msync"}
	}
	log := []string{"fdatasync"}
	create := []string{"fallocate", "write", "fsync", "syncdir"}
	keep := []string{"rename", "syncdir"}
	remove := []string{"remove", "remove", "syncdir"}

	calls := recordCalls(t, func() error { return w.Begin(wal.MinBytes) })
	mustCall(t, "Begin", calls, slices.Concat(
		filter, // the whole file, including the superblock that counted
		create,
		log,  // its header
		part, // a slot, with the checksum of its former content cleared
		part, // the live superblock, in this slot
		keep)...)
	calls = recordCalls(t, func() error { return checkpoint(w, wal.MinBytes) })
	mustCall(t, "a checkpoint", calls, slices.Concat(
		log,  // its header
		part, // the region
		part, // the superblock, in a slot whose content on the disk is known
	)...)
	calls = recordCalls(t, func() error { return checkpoint(w, 2*wal.MinBytes) })
	mustCall(t, "a checkpoint with a larger log", calls, slices.Concat(create, log, part, part, part, keep)...)
	mustCall(t, "Clean", recordCalls(t, w.Clean), slices.Concat(
		filter, // the region
		part,   // a slot, with its checksum cleared
		part,   // the clean superblock, in this slot
		part,   // and in all other slots
		remove)...)
	must(t, w.Begin(wal.MinBytes))
	seal := func() error {
		sb, err := w.BeginSeal()
		return errors.Join(err, w.Seal(sb, nil))
	}
	mustCall(t, "Seal", recordCalls(t, seal), slices.Concat(filter, part, part, remove)...)
}

// TestPublishTellsOfALogThatStays checks that, if a log or the hashes of the replaced file cannot be
// removed, the new file is in place and the error says why.
func TestPublishTellsOfALogThatStays(t *testing.T) {
	for n := 1; n <= 3; n++ { // the log under either of its names, or the hashes
		path, _ := golden(t, "compact-seed.mmf")
		put(t, path+".hashes", nil)
		removes := 0
		err := publishWith(t, path, func(call string) error {
			if call == "remove" {
				if removes++; removes == n {
					return syscall.EIO
				}
			}
			return nil
		})
		if !errors.Is(err, syscall.EIO) || removes != 3 {
			t.Errorf("remove %d of %d fails: %v", n, removes, err)
		}
	}
}

// TestPublishTellsOfAMissingMark covers K4: if the old file cannot be marked, the new file is in place
// and the error says why. If the directory cannot be synced, the old file is still marked.
func TestPublishTellsOfAMissingMark(t *testing.T) {
	for call, marked := range map[string]bool{"write": false, "syncdir": true} {
		f, _ := openGolden(t)
		err := publishWith(t, f.Name(), func(c string) error {
			if c == call {
				return syscall.EIO
			}
			return nil
		})
		epoch := make([]uint64, 1)
		_, readErr := f.ReadAt(recovery.Bytes(epoch), layout.OffRuntime+8*layout.RuntimeEpoch)
		if !errors.Is(err, syscall.EIO) || !errors.As(err, new(*CompleteError)) {
			t.Errorf("%s fails: %v", call, err)
		}
		if readErr != nil || (epoch[0] == layout.Superseded) != marked {
			t.Errorf("%s fails: the epoch of the old file is %d, %v", call, epoch[0], readErr)
		}
	}
}

// TestPublisherHasTheLock checks that a new file is locked from before it gets its name until the logs
// of the old file are gone and the old file is marked. A writer that opened it before that would create
// a log that Publish removes, or insert keys that readers of the old file do not find.
func TestPublisherHasTheLock(t *testing.T) {
	path, image := golden(t, "compact-seed.mmf")
	put(t, path+".hashes", nil)
	d := mustDraft(t, path, len(image))
	copy(d.Data, image)
	seen := map[string]int{}
	fault.Hook = func(call string) error {
		if call != "remove" && call != "syncdir" && call != "write" {
			return nil
		}
		seen[call]++
		hook := fault.Hook
		fault.Hook = nil
		defer func() { fault.Hook = hook }()
		v, err := OpenFiles(d.path)
		if err == nil {
			v.Close()
		}
		if !errors.Is(err, recovery.ErrLocked) {
			t.Errorf("at %s, a writer opens the new file: %v", call, err)
		}
		return nil
	}
	err := d.Publish()
	fault.Hook = nil
	if err != nil || seen["remove"] != 3 || seen["syncdir"] != 1 || seen["write"] != 1 {
		t.Errorf("%v, after %v", err, seen)
	}
	mustFiles(t, path)
}

// checkpoint makes a checkpoint, with a log of so many bytes.
func checkpoint(w *recovery.Writer, logBytes int64) error {
	err := w.GrowLog(logBytes)
	w.BeginCheckpoint()
	return errors.Join(err, w.EndCheckpoint())
}
