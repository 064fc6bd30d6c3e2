package writer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// volumeLogs is a recovery.LogReader for the logs of a volume.
type volumeLogs struct{ *tabletest.Volume }

func (v volumeLogs) ReadLog(name recovery.LogName) ([]uint64, error) {
	log, err := v.OpenLog(name)
	if err != nil {
		return nil, err
	}
	return log.Words(), nil
}

// A testCopy is a copy of a volume.
type testCopy struct {
	*recovery.Copy
	to []uint64
}

func beginCopy(t *testing.T, v *tabletest.Volume) testCopy {
	t.Helper()
	to := make([]uint64, len(v.File.Mem))
	c, err := recovery.NewCopy(v.File.Mem, to, volumeLogs{v})
	must(t, err)
	return testCopy{c, to}
}

// end copies the rest in one step, so that the log is not read before End.
func (c testCopy) end() (layout.Superblock, error) {
	if more, err := c.Step(1 << 40); more || err != nil {
		return layout.Superblock{}, errors.Join(err, errors.New("there is more"))
	}
	return c.End()
}

// copyOfLive returns a writer that has committed an item, and a copy of its file that has begun.
func copyOfLive(t *testing.T) (*tabletest.Volume, *Writer, testCopy) {
	t.Helper()
	v := small.Volume(t, 100)
	w := mustWriter(t, v, 0)
	insertAndSync(t, w, 1)
	return v, w, beginCopy(t, v)
}

func insertAndSync(t *testing.T, w *Writer, hashes ...uint64) {
	t.Helper()
	for _, h := range hashes {
		must(t, w.Insert(h*layout.MixFirst))
		must(t, w.Sync())
	}
}

// TestCopyOfGenerations checks that a copy has all operations of two checkpoints and a commit. A copy
// that has not read a generation before the writer overwrites it must fail, even while the superblock
// names a generation that the copy knows.
func TestCopyOfGenerations(t *testing.T) {
	for name, reads := range map[string]bool{"reading": true, "asleep": false} {
		t.Run(name, func(t *testing.T) {
			v, w, c := copyOfLive(t)
			step := func() {
				if reads {
					if _, err := c.Step(8); err != nil {
						t.Fatal(err)
					}
				}
			}
			insertAndSync(t, w, 2, 3)
			step()
			must(t, w.Checkpoint())
			insertAndSync(t, w, 4, 5)
			step()
			must(t, w.BeginCheckpoint())
			insertAndSync(t, w, 6, 7, 8)
			sb, err := c.end()
			if !reads {
				if !errors.Is(err, recovery.ErrChanging) {
					t.Errorf("the copy lacks operations, and ended with %v", err)
				}
				return
			}
			if err != nil || sb.Length() != 8 || !slices.Equal(c.to[layout.WordStash:], v.File.Mem[layout.WordStash:]) {
				t.Errorf("%d items, %v, or the words differ", sb.Length(), err)
			}
		})
	}
}

// TestCopyOfOtherTimes checks that a copy fails if the writer has closed the file meanwhile, whether or
// not another writer opens it after that.
func TestCopyOfOtherTimes(t *testing.T) {
	for name, again := range map[string]func(*testing.T, *tabletest.Volume){
		"closed":                        func(*testing.T, *tabletest.Volume) {},
		"opened again":                  func(t *testing.T, v *tabletest.Volume) { insertAndSync(t, mustWriter(t, v, 0), 3) },
		"opened, written to and closed": func(t *testing.T, v *tabletest.Volume) { closeAfter(t, mustWriter(t, v, 0), 3) },
	} {
		t.Run(name, func(t *testing.T) {
			v, w, c := copyOfLive(t)
			closeAfter(t, w, 2)
			again(t, v)
			if _, err := c.end(); !errors.Is(err, recovery.ErrChanging) {
				t.Errorf("of a live file: %v", err)
			}
		})
		if name == "closed" {
			continue
		}
		t.Run("at rest, "+name, func(t *testing.T) {
			v := small.Volume(t, 100)
			closeAfter(t, mustWriter(t, v, 0), 1)
			c := beginCopy(t, v)
			again(t, v)
			if _, err := c.end(); !errors.Is(err, recovery.ErrChanging) {
				t.Errorf("of a file at rest: %v", err)
			}
		})
	}
}

func closeAfter(t *testing.T, w *Writer, hash uint64) {
	t.Helper()
	insertAndSync(t, w, hash)
	must(t, w.Clean())
}

// TestCopyBesideRecovery ends copies at each store of a recovery. The log has operations that were never
// committed. Each copy must have the committed items or fail.
func TestCopyBesideRecovery(t *testing.T) {
	v, w, _ := copyOfLive(t)
	var copies []testCopy
	for range 2000 {
		copies = append(copies, beginCopy(t, v))
	}
	want := slices.Clone(v.File.Mem[layout.WordStash:])
	for i := range uint64(5) { // in the log, but in no commit
		must(t, w.Insert((i+2)*layout.MixFirst))
	}
	ended, refused := 0, 0
	v.File.Stored = func() {
		if ended == len(copies) {
			return
		}
		if v.File.Mem[layout.WordRuntime+layout.RuntimeEpoch]&1 != 0 {
			if _, err := recovery.NewCopy(v.File.Mem, copies[ended].to, volumeLogs{v}); !errors.Is(err, recovery.ErrChanging) {
				t.Errorf("a copy begins while the epoch is odd: %v", err)
			}
		}
		c := copies[ended]
		ended++
		switch sb, err := c.end(); {
		case err != nil:
			refused++
			if !errors.Is(err, recovery.ErrChanging) {
				t.Error(err)
			}
		case sb.Length() != 1 || !slices.Equal(c.to[layout.WordStash:], want):
			t.Errorf("after %d stores, a copy has %d items, or other words", ended, sb.Length())
		}
	}
	if _, _, err := recovery.NewWriter(v); err != nil {
		t.Fatal(err)
	}
	if refused == 0 || ended < 100 {
		t.Errorf("%d copies, %d of them refused", ended, refused)
	}
}

// TestCopiesBesideWriter makes copies while a goroutine inserts and deletes, in memory where the race
// detector sees all loads and stores. Each copy must have as many items as its superblock says.
func TestCopiesBesideWriter(t *testing.T) {
	v := small.Volume(t, 400)
	w := mustWriter(t, v, 2*wal.MinBytes)
	insertAndSync(t, w, 1)
	var stop atomic.Bool
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for i := uint64(2); !stop.Load(); i++ {
			err := w.Insert(i * layout.MixFirst)
			if err == nil && i > 200 {
				_, err = w.Delete((i - 200) * layout.MixFirst)
			}
			if err == nil && i%64 == 0 {
				err = w.Sync()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	g := w.protocol.Geometry()
	for whole, vain := 0, 0; whole < 40; {
		to := make([]uint64, len(v.File.Mem))
		c, err := recovery.NewCopy(v.File.Mem, to, volumeLogs{v})
		for more := err == nil; more; {
			more, err = c.Step(64)
		}
		var sb layout.Superblock
		if err == nil {
			sb, err = c.End()
		}
		if errors.Is(err, recovery.ErrChanging) {
			if vain++; vain == 400 { // the machine is busy
				stop.Store(true)
			}
			continue
		}
		if err == nil {
			err = build.SealCopy(context.Background(), 1, recovery.Bytes(to), g, &sb)
		}
		if err != nil {
			t.Error(err)
			break
		}
		whole++
	}
	stop.Store(true)
	wait.Wait()
}
