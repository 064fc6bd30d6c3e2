package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	page "github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
	"github.com/zeebo/xxh3"
)

// Each golden file, with its log, is as a dead writer left it: the file has the keys of a checkpoint;
// the log has a commit that deleted every fourth key, the beginning of another checkpoint and, in the
// other half of the log, uncommitted operations, of which the last is torn.
const (
	goldenLive    = "halves.mmf"  // in testdata/live, of Packed
	goldenKept    = "kept.mmf"    // of Compact: keeps its hashes; some log records store no word
	goldenCompact = "compact.mmf" // of Compact; some log records store all words of a line
)

const (
	goldenLiveKeys = 460 // "key 0" and so on; those divisible by 4 are deleted
	goldenLiveLate = 20  // "late 0" and so on; the last of them is torn
)

// TestGoldenLive makes the files of a dead writer, compares them with the golden files, and recovers the
// golden files: the format of the log has not changed.
//
//	go test ./mmapfilter -run TestGoldenLive -update
func TestGoldenLive(t *testing.T) {
	filter, log, _ := makeGoldenLive(t, packed12, 130, false)
	keptFilter, keptLog, kept := makeGoldenLive(t, compact7, 9, true)
	compactFilter, compactLog, _ := makeGoldenLive(t, compact7, 9, false)
	dir := t.TempDir()
	for name, made := range map[string][]byte{
		goldenLive: filter, goldenLive + ".stash": log,
		goldenKept: keptFilter, goldenKept + ".stash": keptLog, goldenKept + ".hashes": kept,
		goldenCompact: compactFilter, goldenCompact + ".stash": compactLog,
	} {
		path := filepath.Join("..", "testdata", "live", name)
		golden, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && *update {
			golden, err = made, os.WriteFile(path, made, 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), golden, 0o644)
		}
		must(t, err)
		if !bytes.Equal(golden, made) {
			t.Errorf("%s is not what the code writes now", path)
		}
	}
	for kind, logged := range map[layout.Kind][2][]byte{layout.Packed: {filter, log}, layout.Compact: {compactFilter, compactLog}} {
		if words, most := longestRecord(t, logged[0], logged[1]), layout.BlockWords; (words == most) != (kind == layout.Compact) {
			t.Errorf("%s: the longest record stores to %d words", kind, words)
		}
	}
	recoverGolden(t, filepath.Join(dir, goldenLive))
	recoverGolden(t, filepath.Join(dir, goldenKept))
	recoverGolden(t, filepath.Join(dir, goldenCompact))
	if r, err := Verify(context.Background(), filepath.Join(dir, goldenKept)); err != nil || r.Hashes != r.Items-1 || r.LeftOut != 1 || r.Waiting != 1 {
		t.Errorf("with hashes: %+v, %v", r, err)
	}
}

// longestRecord returns the largest number of words that a record of a log stores to.
func longestRecord(t *testing.T, filter, log []byte) (longest int) {
	_, sb, _, err := layout.Newest(filter[:layout.OffRuntime])
	must(t, err)
	words := recovery.Words(log)
	if _, err := wal.Scan(words, words, sb, 0, func(r *wal.Record) { longest = max(longest, bits.OnesCount8(r.Words)) }); err != nil {
		t.Fatal(err)
	}
	return longest
}

// recoverGolden opens a golden file and checks its keys.
func recoverGolden(t *testing.T, path string) {
	f, err := Open(path, nil)
	must(t, err)
	defer f.Close()
	for i := range goldenLiveKeys {
		if key := fmt.Sprintf("key %d", i); i%4 != 0 && !f.ContainsString(key) {
			t.Errorf("%q is lost", key)
		}
	}
	for i := range goldenLiveLate - 1 {
		if key := fmt.Sprintf("late %d", i); !f.ContainsString(key) {
			t.Errorf("%q is lost", key)
		}
	}
	want := Recovery{
		Recovered: true, UserSeq: 4711, Operations: goldenLiveLate - 1, Generation: 3,
		LSN: f.Stats().Recovery.LSN, Records: f.Stats().Recovery.Records, LogBytes: f.Stats().Recovery.LogBytes,
		Torn: f.Stats().Recovery.Torn, Length: goldenLiveKeys/4*3 + goldenLiveLate - 1,
	}
	if r := f.Stats().Recovery; r != want || r.Records < goldenLiveKeys/4 || f.Len() != want.Length {
		t.Errorf("recovered %+v, %d keys", r, f.Len())
	}
}

// A goldenVolume has the random numbers that the golden files were made with.
type goldenVolume struct {
	*crashsim.Volume
	random rand.PCG
}

func (v *goldenVolume) Random() uint64 { return v.random.Uint64() }

func makeGoldenLive(t *testing.T, s shape, lines uint64, keep bool) (filter, log, kept []byte) {
	g := s.Geometry(t, lines)
	vol := &goldenVolume{Volume: crashsim.NewVolume(g, 1, layout.PageBytes, keep, nil)}
	vol.random.Seed(1, 1)
	w, _, err := writer.Open(vol, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
	must(t, err)
	do := func(err error) {
		must(t, err)
	}
	seed := w.Protocol().Superblock().Seed()
	hash := func(format string, i int) uint64 { return xxh3.HashStringSeed(fmt.Sprintf(format, i), seed) }
	for i := range goldenLiveKeys {
		do(w.Insert(hash("key %d", i)))
	}
	do(w.Checkpoint())
	for i := 0; i < goldenLiveKeys; i += 4 {
		_, err := w.Delete(hash("key %d", i))
		do(err)
	}
	if keep { // this InsertUnique leaves its key out, so the next delete waits
		_, err := w.InsertUnique(hash("key %d", 1))
		do(err)
		_, err = w.Delete(hash("key %d", 2))
		do(err)
	}
	do(w.SyncAt(func(uint64) uint64 { return 4711 }))
	do(w.BeginCheckpoint())
	for i := range goldenLiveLate {
		do(w.Insert(hash("late %d", i)))
	}
	stash, err := vol.OpenLog(recovery.CurrentLog)
	do(err)
	words := stash.Words()
	_, used := w.Protocol().LogBytes()
	words[used/8-1] ^= 1 << 9 // the checksum of the last record
	if keep {
		f, err := vol.OpenHashes(recovery.CurrentHashes)
		do(err)
		n, err := f.Pages()
		do(err)
		for i := range n {
			var p page.Page
			do(f.ReadPages(i, p[:]))
			kept = append(kept, recovery.Bytes(p[:])...)
		}
	}
	return bytes.Clone(recovery.Bytes(vol.Filter().Words())), bytes.Clone(recovery.Bytes(words)), kept
}
