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

	// Of the sync of the filter file that has failed: whether it was for the lines, too, and the epoch
	// before it.
	lines bool
	was   uint64
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

func (f *droppingFilter) Sync() error { return f.sync(true) }

func (f *droppingFilter) SyncRange(word, words uint64) error {
	return f.sync(word+words > layout.WordStash)
}

// sync fails, or syncs the whole file. If it fails, the page with the epoch leaves the cache.
func (f *droppingFilter) sync(lines bool) error {
	v := f.volume
	if v.failAt--; v.failAt != 0 {
		return f.File.Sync()
	}
	v.lines, v.was = lines, v.epoch()
	f.File.Store(layout.WordRuntime+layout.RuntimeEpoch, 1000)
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

// TestLogThatFallsBack: the last segment of a log is only in the cache, since its sync has failed. Its
// page leaves the cache once the recovery has read the log. The recovery must not replay what is there
// instead.
func TestLogThatFallsBack(t *testing.T) {
	f, _ := openGolden(t)
	w, v, _ := openDropping(t, f.Name(), 0)
	must(t, w.Begin(wal.MinBytes))
	w.Append([]wal.Store{{Word: ofBlock(1, 0), Value: 1}}, 0, layout.Insert, 0)
	durable := w.EndSegment(false, 0)
	must(t, w.Harden(durable))
	onDisk := slices.Clone(w.Log().Words())
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
	log, err := os.OpenFile(f.Name()+recovery.CurrentLog.String(), os.O_RDWR, 0)
	must(t, err)
	defer log.Close()
	page := last.Start() / wal.PageWords * wal.PageWords
	_, r, err := recovery.NewWriter(&droppingVolume{Files: files, atNames: func() {
		_, err := log.WriteAt(recovery.Bytes(onDisk[page:page+wal.PageWords]), int64(page)*8)
		must(t, err)
	}})
	must(t, err)
	defer files.Close()
	if lsn := durable.Commit().LSN; r.LSN != lsn {
		t.Errorf("the recovery ends at LSN %d, not %d", r.LSN, lsn)
	}
	if !slices.Equal(files.Filter().Words()[layout.WordStash:], want) {
		t.Error("the recovery has replayed what the log does not have")
	}
}

// TestEpochAfterFailedSync fails each sync of the filter file in each call that has one. If the sync was
// for the lines of a live file, the epoch must then be odd, since readers may find earlier lines. Any
// other sync must not change the epoch, even if the page with the epoch leaves the cache: beside a clean
// superblock, an odd epoch would stay odd. The next open must make the epoch even again.
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
			want := v.was
			if v.lines && call != "begin" {
				want |= 1
			}
			if after := v.epoch(); after != want {
				t.Errorf("%s, sync %d, of the lines: %t: the epoch was %d and is %d", call, failAt, v.lines, v.was, after)
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
