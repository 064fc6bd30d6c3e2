package writer_test

import (
	"context"
	"errors"
	"flag"
	"runtime/debug"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

var (
	crashStates = flag.Uint64("states", 100_000, "about how many crash states TestExplore checks")
	crashSeed   = flag.Uint64("seed", 1, "seed of the first trace of TestExplore; with the seed of a violation, that comes first")
)

// crashWriter is a writer for the crash explorer.
type crashWriter struct{ *writer.Writer }

func (w crashWriter) Insert(hash uint64) error { return w.counted(w.Writer.Insert(hash)) }

func (w crashWriter) InsertUnique(hash uint64) (added bool, err error) {
	added, err = w.Writer.InsertUnique(hash)
	return added, w.counted(err)
}

// counted counts an insert that found no room as an operation, because it is not tried again.
func (w crashWriter) counted(err error) error {
	if errors.Is(err, writer.ErrFull) {
		return errors.Join(err, w.CountFull())
	}
	return err
}

func (w crashWriter) Sync(setSeq bool, seq uint64) error {
	if !setSeq {
		return w.Writer.Sync()
	}
	return w.SyncAt(func(uint64) uint64 { return seq })
}

func (w crashWriter) Seal() error          { return w.Writer.Seal(context.Background()) }
func (w crashWriter) LSN() uint64          { return w.Protocol().LSN() }
func (w crashWriter) Length() uint64       { return w.Protocol().Length() }
func (w crashWriter) History() layout.Kept { return w.Protocol().History() }
func (w crashWriter) Newest(first uint64, words []uint64) {
	if stash := w.Stash(); first < layout.WordRegion {
		n := copy(words, stash[first-layout.WordStash:])
		first, words = first+uint64(n), words[n:]
	}
	for i := range words {
		words[i] = w.Word(first + uint64(i))
	}
}

func (w crashWriter) Durable() (userSeq, operations, lsn uint64) {
	return w.Protocol().Durable()
}

// crashVerify verifies a file in memory.
func crashVerify(words []uint64) error {
	data := recovery.Bytes(words)
	_, sb, g, err := layout.Newest(data[:layout.OffRuntime])
	if err != nil {
		return err
	}
	head := &osfile.Head{Superblock: sb, Geometry: g, Size: int64(len(data))}
	copy(head.Raw[:], data)
	r, err := build.Verify(context.Background(), "", head, data, func(done, total int64) {})
	if err != nil {
		return err
	}
	if len(r.Damage) > 0 {
		return r.Damage[0]
	}
	return nil
}

// crashSystem returns a System whose log has the smallest size at first, so that it is often full and
// grows.
func crashSystem() crashsim.System {
	return crashsim.System{
		Open: func(vol recovery.Volume) (crashsim.Writer, *recovery.Recovery, error) {
			w, r, err := writer.Open(vol, writer.LogSize{First: wal.MinBytes, Most: 2 * wal.MinBytes})
			return crashWriter{w}, r, err
		},
		Full: writer.ErrFull,
		Replace: func(w, next crashsim.Writer, during func()) error {
			old, new := w.(crashWriter).Writer, next.(crashWriter).Writer
			tap := writer.NewTap(nil)
			if err := old.Quiet(tap, func() error { return nil }); err != nil {
				return err
			}
			defer old.Untap()
			new.CountFrom(tap)
			during()
			catchUp := func(most int) error {
				for tap.Len() > 0 {
					hashes, ops, err := tap.Take(nil, nil, 100)
					if err == nil {
						_, err = new.Replay(hashes, ops)
					}
					if err != nil {
						return err
					}
				}
				if most > 0 {
					during() // so that some operations are left for the pause
				}
				return nil
			}
			// The new file has another history: it was filled by inserts.
			return old.Replace(new, false, catchUp, func(*writer.Writer) {})
		},
		Verify: crashVerify,
	}
}

// TestExplore crashes a writer, and the recoveries after it, at random stores and syncs of
// random traces. Package crashsim says what it checks, and testdata/mistakes has mistakes that
// it must find.
func TestExplore(t *testing.T) {
	states := *crashStates
	if testing.Short() {
		states = min(states, 5000)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // the live heap is large, so this is enough for the garbage of many recoveries
	e := crashsim.Explorer{System: crashSystem(), Seed: *crashSeed, States: states}
	if err := e.Prepare(); err != nil {
		t.Fatal(err) // a failure without a crash
	}
	stats, violation := e.Run()
	t.Logf("%s; seed %d", stats, *crashSeed)
	if violation != nil {
		t.Fatalf("%v\nto see it again: go test ./mmapfilter/internal/writer -run 'TestExplore$' -seed %d", violation, violation.Trace.Seed)
	}
}

// TestExploreAll crashes a writer at every store and sync of every short trace, and recoveries of the
// shortest traces at every store and sync, too. The gate tries longer traces.
func TestExploreAll(t *testing.T) {
	t.Parallel() // this test uses little more than one processor
	defer debug.SetGCPercent(debug.SetGCPercent(800))
	e := crashsim.Exhaustive{System: crashSystem(), Operations: 3, Nested: 1}
	if *writer.Full {
		e.Operations, e.Nested = 4, 2
	}
	if testing.Short() {
		e.Operations, e.Nested = 2, 0
	}
	stats, violation := e.Run()
	t.Log(stats)
	if violation != nil {
		t.Fatalf("%v\nto see it again: go test ./mmapfilter/internal/writer -run 'TestExploreAll$' -full", violation)
	}
	if *writer.Full && stats.States < 1_000_000 { // README names this number
		t.Errorf("only %d crash states", stats.States)
	}
}
