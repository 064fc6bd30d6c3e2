package recovery_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A droppingVolume has a sync that fails. After that, pages that the sync has dropped leave the cache,
// and come back with what the disk has.
type droppingVolume struct {
	*osfile.Files
	failAt  int    // the number of the sync of the filter file that fails, or 0
	failLog bool   // whether the syncs of the log fail
	atNames func() // is called before the names are synced, if not nil
	cut     bool   // whether the sync of the filter file that fails cuts the file short, too

	// When the sync of the filter file failed: whether the newest superblock in the cache was live, and
	// the epoch.
	live bool
	was  uint64
}

var errSync = errors.New("input/output error")

func (v *droppingVolume) Filter() recovery.File { return &droppingFilter{v.Files.Filter(), v} }

func (v *droppingVolume) CreateLog(bytes int64) (recovery.File, error) {
	log, err := v.Files.CreateLog(bytes)
	return &droppingLog{log, v}, err
}

func (v *droppingVolume) SyncNames() error {
	if v.atNames != nil {
		v.atNames()
	}
	return v.Files.SyncNames()
}

type droppingFilter struct {
	recovery.File
	volume *droppingVolume
}

// Sync fails, or syncs the whole file. If it fails, the page with the epoch leaves the cache.
func (f *droppingFilter) Sync() error {
	v := f.volume
	if v.failAt--; v.failAt != 0 {
		return f.File.Sync()
	}
	_, sb, _, err := layout.Newest(recovery.Bytes(f.Words()[:layout.WordRuntime]))
	v.live, v.was = err == nil && sb.State() == layout.Live, v.epoch()
	f.File.Store(layout.WordRuntime+layout.RuntimeEpoch, 1000)
	if v.cut {
		return errors.Join(errSync, os.Truncate(v.Files.Path(), layout.OffRuntime))
	}
	return errSync
}

type droppingLog struct {
	recovery.File
	volume *droppingVolume
}

func (l *droppingLog) Sync() error {
	if l.volume.failLog {
		return errSync
	}
	return l.File.Sync()
}

// openDropping opens a file for writing. It returns no writer if a sync fails.
func openDropping(t *testing.T, path string, failAt int) (*recovery.Writer, *droppingVolume, *recovery.Recovery) {
	t.Helper()
	needsWriters(t)
	files, err := osfile.OpenFiles(path)
	must(t, err)
	v := &droppingVolume{Files: files, failAt: failAt}
	w, r, err := recovery.NewWriter(v)
	if err != nil && !errors.Is(err, errSync) {
		t.Error(err)
	}
	return w, v, r
}

func (v *droppingVolume) epoch() uint64 {
	return v.Files.Filter().Words()[layout.WordRuntime+layout.RuntimeEpoch]
}

// TestLogThatFallsBack: the last segment of a log is only in the cache, since its sync has failed. Once
// the recovery has read the log, the page of the segment leaves the cache, or the header of a larger
// log that has only this segment. The recovery must not replay what is there instead, and not a log
// without a header, which the next recovery would not find.
func TestLogThatFallsBack(t *testing.T) {
	for _, name := range []recovery.LogName{recovery.CurrentLog, recovery.NextLog} {
		f, _ := openGolden(t)
		w, v, _ := openDropping(t, f.Name(), 0)
		must(t, w.Begin(wal.MinBytes))
		w.Append([]wal.Store{{Word: ofBlock(1, 0), Value: 1}}, 0, layout.Insert, 0)
		durable := w.EndSegment(false, 0)
		must(t, w.Harden(durable))
		onDisk := slices.Clone(w.Log().Words())
		if name == recovery.NextLog {
			must(t, w.GrowLog(2*wal.MinBytes))
			w.BeginCheckpoint()
		}
		for word := range uint64(4) {
			w.Append([]wal.Store{{Word: ofBlock(2, word), Value: 2}}, 0, layout.Insert, 0)
		}
		v.failLog = true
		last := w.EndSegment(false, 0)
		if err := w.Harden(last); !errors.Is(err, errSync) {
			t.Fatal(err)
		}
		want := slices.Clone(w.Words()[layout.WordStash:])
		must(t, w.Abandon())

		files, err := osfile.OpenFiles(f.Name())
		must(t, err)
		log, err := os.OpenFile(f.Name()+name.String(), os.O_RDWR, 0)
		must(t, err)
		defer log.Close()
		page, fallen := uint64(0), make([]uint64, wal.FirstWord)
		if name == recovery.CurrentLog {
			page = last.Start() / wal.PageWords * wal.PageWords
			fallen = onDisk[page : page+wal.PageWords]
		}
		_, r, err := recovery.NewWriter(&droppingVolume{Files: files, atNames: func() {
			_, err := log.WriteAt(recovery.Bytes(fallen), int64(page)*8)
			must(t, err)
		}})
		must(t, err)
		defer files.Close()
		if lsn := durable.Commit().LSN; r.LSN != lsn {
			t.Errorf("%s: the recovery ends at LSN %d, not %d", name, r.LSN, lsn)
		}
		if !slices.Equal(files.Filter().Words()[layout.WordStash:], want) {
			t.Errorf("%s: the recovery has replayed what the log does not have", name)
		}
	}
}

// TestEpochAfterFailedSync fails each sync of the filter file in each call that has one. If the file
// stays live, the epoch must then be odd, whichever part was to be synced, since readers may find
// earlier lines. If the disk may have a file at rest, an odd epoch would stay odd: then it must be as
// it was, even if the page with the epoch leaves the cache. The next open must make the epoch even.
func TestEpochAfterFailedSync(t *testing.T) {
	for _, call := range []string{"recover", "begin", "checkpoint", "clean"} {
		failed := 0
		for failAt := 1; ; failAt++ {
			f, _ := openGolden(t)
			w, v, _ := openDropping(t, f.Name(), 0)
			if call != "begin" {
				must(t, w.Begin(wal.MinBytes))
				w.StoreSame(layout.WordRegion)
				must(t, w.Harden(w.EndSegment(false, 0)))
			}
			v.failAt = failAt
			var err error
			switch call {
			case "recover":
				must(t, w.Abandon())
				if w, v, _ = openDropping(t, f.Name(), failAt); w == nil {
					err = errSync
				}
			case "begin":
				err = w.Begin(wal.MinBytes)
			case "checkpoint":
				err = w.Checkpoint(wal.MinBytes)
			default:
				err = w.Clean()
			}
			if err == nil {
				must(t, w.Abandon())
				break
			}
			failed++
			odd := v.live && call != "begin"
			if after := v.epoch(); after|1 != v.was|1 || after&1 != 0 != odd {
				t.Errorf("%s, sync %d, live %t: the epoch was %d and is %d", call, failAt, v.live, v.was, after)
			}
			must(t, v.Files.Close())
			w, v, _ = openDropping(t, f.Name(), 0)
			if after := v.epoch(); after&1 != 0 {
				t.Errorf("%s, sync %d: after the recovery, the epoch is %d", call, failAt, after)
			}
			must(t, w.Abandon())
		}
		if failed < 2 {
			t.Errorf("%s: %d syncs", call, failed)
		}
	}
}

// TestFaultAfterFailedSync: after a failed sync, the store of the epoch is a fault. The writer must fail
// with the error of the sync, and release its locks.
func TestFaultAfterFailedSync(t *testing.T) {
	f, _ := openGolden(t)
	w, v, _ := openDropping(t, f.Name(), 0)
	must(t, w.Begin(wal.MinBytes))
	v.failAt, v.cut = 1, true
	w.BeginCheckpoint()
	for range 2 {
		if err := w.Catch(w.EndCheckpoint); !errors.Is(err, errSync) {
			t.Error(err)
		}
	}
	must(t, w.Abandon())
}
