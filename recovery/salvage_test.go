package recovery_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// newHistorian opens a file for writing.
func newHistorian(t *testing.T, path string) *historian {
	return &historian{mustWriter(t, path), t, nil}
}

// must ends the test if there is an error.
func (h *historian) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *historian) checkpoint() { h.t.Helper(); h.must(h.Writer.Checkpoint(wal.MinBytes)) }

// edit changes the bytes of a file.
func edit(t *testing.T, path string, change func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	must(t, err)
}

// loseSuperblock damages the newest superblock.
func loseSuperblock(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(data []byte) []byte {
		slot, _, _, err := layout.Newest(data[:layout.OffRuntime])
		must(t, err)
		data[slot*layout.SuperblockBytes+3000] ^= 1
		return data
	})
}

// cutFile cuts a filter file short in its lines.
func cutFile(t *testing.T, path string) {
	t.Helper()
	edit(t, path, func(data []byte) []byte { return data[:layout.OffRegion+64] })
}

// contents returns the names and contents of the files in a directory.
func contents(t *testing.T, dir string) (all string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		var data []byte
		if err == nil {
			data, err = os.ReadFile(filepath.Join(dir, e.Name()))
		}
		all += e.Name() + " " + string(data)
	}
	must(t, err)
	return all
}

// salvaged returns what Salvage finds, and the number of its operations. These must be the first ones of
// the history and, if counters is set, match the counters of the superblock.
func (h *historian) salvaged(path string, counters bool) (*osfile.Remains, int, error) {
	h.t.Helper()
	r, err := osfile.Salvage(path)
	if err != nil {
		return nil, 0, err
	}
	defer r.Kept.File.Close()
	left, err := operationsOf(&r.Kept)
	if err != nil || len(left) > len(h.all) || !slices.Equal(left, h.all[:len(left)]) {
		h.t.Fatalf("%d operations of %d are left, or wrong ones: %v", len(left), len(h.all), err)
	}
	if n := r.Superblock.UserSeq() + r.Superblock.Operation(); counters && n != uint64(len(left)) {
		h.t.Errorf("%d operations are left, but the counters say %d", len(left), n)
	}
	return r, len(left), nil
}

// historyOf creates a filter, clean or sealed. Its next writer runs do, and then dies. synced is the
// number of operations that were synced.
func historyOf(t *testing.T, sealed bool, do func(h *historian)) (h *historian, path string, synced int) {
	t.Helper()
	path = newKeeping(t, false)
	h = newHistorian(t, path)
	h.do(40)
	h.sync()
	if sealed {
		sb, err := h.BeginSeal()
		h.must(err)
		h.must(h.Seal(sb, nil))
	} else {
		h.must(h.Clean())
	}
	h.must(h.Begin(wal.MinBytes))
	do(h)
	seq, operations, _ := h.Durable()
	synced = int(seq + operations)
	h.must(h.Abandon())
	return h, path, synced
}

// copyOf returns the path of a copy of a filter and the files beside it.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(path))))
	return filepath.Join(dir, filepath.Base(path))
}

// histories lists what a writer did before it died.
var histories = map[string]func(h *historian){
	"no sync":           func(h *historian) { h.do(30) },
	"a sync":            func(h *historian) { h.do(100); h.sync() },
	"more after a sync": func(h *historian) { h.do(100); h.sync(); h.do(30) },
	"checkpoints": func(h *historian) {
		for range 5 {
			h.do(300)
			h.sync()
			h.checkpoint()
		}
		h.do(70)
		h.sync()
		h.do(30)
	},
	"no sync since a checkpoint": func(h *historian) { h.do(600); h.sync(); h.checkpoint(); h.do(30) },
	"nothing since a checkpoint": func(h *historian) { h.do(600); h.sync(); h.checkpoint() },
	"a checkpoint under way": func(h *historian) {
		h.do(300)
		h.sync()
		h.checkpoint()
		h.do(300)
		h.sync()
		h.BeginCheckpoint()
		h.do(50)
		h.sync()
		h.do(20)
	},
	"hashes that no superblock counts": func(h *historian) {
		h.do(700)
		h.sync()
		h.BeginCheckpoint()
		h.must(h.KeepAll())
		h.do(50)
		h.sync()
	},
	"a larger log, under way": func(h *historian) {
		h.do(300)
		h.sync()
		h.must(h.GrowLog(2 * wal.MinBytes))
		h.BeginCheckpoint()
		h.do(50)
		h.sync()
		h.do(20)
	},
	"a larger log": func(h *historian) {
		h.do(300)
		h.sync()
		h.must(h.Writer.Checkpoint(2 * wal.MinBytes))
		h.do(50)
		h.sync()
		h.do(20)
	},
}

// TestSalvageWithTheLog: if NAME.hashes and the log are intact, Salvage finds all operations, whatever
// happened to the filter file.
func TestSalvageWithTheLog(t *testing.T) {
	for name, do := range histories {
		for _, sealed := range []bool{false, true} {
			h, from, _ := historyOf(t, sealed, do)
			for damage, hurt := range map[string]func(t *testing.T, path string){
				"nothing":            func(*testing.T, string) {},
				"the superblock":     loseSuperblock,
				"the file is cut":    cutFile,
				"superblock and cut": func(t *testing.T, path string) { loseSuperblock(t, path); cutFile(t, path) },
			} {
				path := copyOf(t, from)
				hurt(t, path)
				before := contents(t, filepath.Dir(path))
				r, left, err := h.salvaged(path, true)
				if contents(t, filepath.Dir(path)) != before {
					t.Errorf("%s: Salvage changed the files", name)
				}
				if err != nil || left != len(h.all) || r.Lost != 0 || r.LogLost {
					t.Errorf("%s, sealed %t, damaged %s: %d operations of %d, %+v, %v", name, sealed, damage, left, len(h.all), r, err)
				}
			}
		}
	}
}

// TestSalvageWithoutTheLog: if the log is missing or only a part of it is left, Salvage finds the
// operations in NAME.hashes and in this part. If a synced operation is missing, Salvage says so, even
// if the superblock with the salt of the log is lost. If this superblock is intact, Salvage also says so
// for an operation that was not synced.
func TestSalvageWithoutTheLog(t *testing.T) {
	for name, do := range histories {
		h, from, synced := historyOf(t, false, do)
		for _, lost := range []bool{false, true} {
			for damage, hurt := range map[string]func(t *testing.T, log string){
				"missing": func(t *testing.T, log string) { os.Remove(log) },
				"empty":   func(t *testing.T, log string) { edit(t, log, func([]byte) []byte { return nil }) },
				"zero":    func(t *testing.T, log string) { edit(t, log, func(d []byte) []byte { clear(d); return d }) },
				"cut": func(t *testing.T, log string) {
					edit(t, log, func(d []byte) []byte { return d[:max(len(d)/2/4096*4096, wal.MinBytes)] })
				},
				"cut off its pages": func(t *testing.T, log string) { edit(t, log, func(d []byte) []byte { return d[:len(d)-100] }) },
			} {
				path := copyOf(t, from)
				for _, n := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
					if _, err := os.Stat(path + n.String()); err == nil {
						hurt(t, path+n.String())
					}
				}
				if lost {
					loseSuperblock(t, path)
				}
				r, left, err := h.salvaged(path, false)
				if err != nil && !errors.Is(err, layout.ErrCorrupt) {
					t.Errorf("%s, the log is %s: %v", name, damage, err)
				}
				if err == nil && r.Lost == 0 && !r.LogLost && (left < synced || left < len(h.all) && !lost) {
					t.Errorf("%s, the log is %s, superblock lost %t: %d operations, of %d synced ones and %d in all: %+v", name, damage, lost, left, synced, len(h.all), r)
				}
			}
		}
	}
}

// TestSalvageWithADamagedLog flips one bit of the log at a time, while the superblock and the lines are
// damaged, too. Salvage must report each lost operation, except the last one if it was not synced,
// because this one may have been incomplete.
func TestSalvageWithADamagedLog(t *testing.T) {
	for name, do := range histories {
		h, path, synced := historyOf(t, false, do)
		loseSuperblock(t, path)
		cutFile(t, path)
		for _, n := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
			log := path + n.String()
			whole, err := os.ReadFile(log)
			if err != nil {
				continue
			}
			for at := 0; at < len(whole); at += 8 { // the words at the head of each page, and some others
				if at%4096 >= 200 && at%1160 != 0 || *(*[8]byte)(whole[at:]) == [8]byte{} {
					continue
				}
				bad := slices.Clone(whole)
				bad[at+at/8%8] ^= 1
				h.must(os.WriteFile(log, bad, 0o600))
				r, left, err := h.salvaged(path, false)
				if err != nil && !errors.Is(err, layout.ErrCorrupt) {
					t.Fatal(err)
				}
				if err == nil && r.Lost == 0 && !r.LogLost && (left < synced || left < len(h.all)-1) {
					t.Errorf("%s, byte %d of NAME%s: %d operations, of %d synced ones and %d in all: %+v", name, at, n, left, synced, len(h.all), r)
				}
			}
			h.must(os.WriteFile(log, whole, 0o600))
		}
	}
}

// TestSalvageWithAnotherLog: Salvage refuses a log that does not continue NAME.hashes, also one of this
// filter. It does not take an older log of the filter for the lost one.
func TestSalvageWithAnotherLog(t *testing.T) {
	checkpoints := histories["checkpoints"]
	older := func(t *testing.T, damage func(t *testing.T, path string)) (h *historian, path string) {
		var log []byte
		h, path, _ = historyOf(t, false, func(h *historian) {
			h.do(100)
			h.sync()
			var err error
			log, err = os.ReadFile(h.Volume().(*osfile.Files).Path() + recovery.CurrentLog.String())
			h.must(err)
			checkpoints(h)
		})
		damage(t, path)
		edit(t, path+recovery.CurrentLog.String(), func([]byte) []byte { return log })
		return h, path
	}
	for _, damage := range []func(t *testing.T, path string){cutFile, loseSuperblock} {
		h, path := older(t, damage)
		if r, left, err := h.salvaged(path, false); err != nil || !r.LogLost || left == len(h.all) {
			t.Errorf("an older log: %d operations of %d, %+v, %v", left, len(h.all), r, err)
		}
		h, path, _ = historyOf(t, false, checkpoints)
		damage(t, path)
		edit(t, path+recovery.CurrentLog.String(), func(log []byte) []byte {
			for _, header := range wal.Headers(recovery.Words(log)) {
				header.UUID[0]++
				wal.PutHeader(func(i, v uint64) { recovery.Words(log)[i] = v }, header)
			}
			return log
		})
		if r, _, err := h.salvaged(path, false); !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("the log of another filter: %+v, %v", r, err)
		}
	}
	var file, kept []byte
	h, path, _ := historyOf(t, false, func(h *historian) {
		h.do(100)
		h.sync()
		h.checkpoint()
		var err, err2 error
		name := h.Volume().(*osfile.Files).Path()
		file, err = os.ReadFile(name)
		kept, err2 = os.ReadFile(name + ".hashes")
		h.must(errors.Join(err, err2))
		checkpoints(h)
	})
	edit(t, path, func([]byte) []byte { return file })
	edit(t, path+".hashes", func([]byte) []byte { return kept })
	if r, left, err := h.salvaged(path, false); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("the log is ahead of the file and NAME.hashes: %d operations, %+v, %v", left, r, err)
	}
}

// TestSalvageWithTheLogOfACopy: Salvage accepts the log of a copy that has had the same operations, and
// refuses that of a copy that has had others.
func TestSalvageWithTheLogOfACopy(t *testing.T) {
	for _, c := range []struct {
		same bool
		does int // operations of the copy
		left int
	}{{true, 4, 4}, {true, 2, 3}, {false, 4, 0}} {
		path := newKeeping(t, false)
		twin := copyOf(t, path)
		h, other := newHistorian(t, path), newHistorian(t, twin)
		h.do(3)
		h.sync()
		h.checkpoint()
		h.do(2)
		h.sync()
		if !c.same {
			other.all = make([]hashes.Entry, 1) // so that the copy has other operations
		}
		other.do(c.does)
		other.sync()
		h.must(errors.Join(h.Abandon(), other.Abandon(), os.Rename(twin+".stash", path+".stash")))
		if _, left, err := h.salvaged(path, false); left != c.left || c.same && err != nil || !c.same && !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("%+v: %d operations, %v", c, left, err)
		}
	}
}
