package writer

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A storingVolume calls made before it returns a new log, and storing before every store to such a log,
// if they are not nil.
type storingVolume struct {
	recovery.Volume
	storing func(log recovery.File)
	made    func()
}

type storingLog struct {
	recovery.File
	volume *storingVolume
}

func (v *storingVolume) CreateLog(bytes int64) (recovery.File, error) {
	log, err := v.Volume.CreateLog(bytes)
	if v.made != nil {
		v.made()
	}
	return storingLog{log, v}, err
}

func (l storingLog) Store(word, value uint64) {
	if l.volume.storing != nil {
		l.volume.storing(l.File)
	}
	l.File.Store(word, value)
}

// TestGrowthSparesTheLogInUse checks that, if an even larger log is asked for while a checkpoint moves
// to a larger log, it is not created in the place of that log.
func TestGrowthSparesTheLogInUse(t *testing.T) {
	inner := small.Volume(t, 100)
	v := &storingVolume{Volume: inner}
	w, _, err := Open(v, LogSize{First: wal.MinBytes, Most: 4 * wal.MinBytes})
	must(t, err)
	rng := seeded(t, 2)
	keys := []uint64{rng.Uint64(), rng.Uint64()}
	must(t, w.Insert(keys[0]))
	must(t, w.Grow())
	grown := make(chan error, 1)
	var asked atomic.Bool
	v.storing = func(log recovery.File) {
		if len(log.Words())*8 != 4*wal.MinBytes || !asked.CompareAndSwap(false, true) {
			return
		}
		go func() { grown <- w.protocol.GrowLog(8 * wal.MinBytes) }()
		for !waitsForLock("recovery.(*Writer).GrowLog") && len(grown) == 0 {
			runtime.Gosched()
		}
	}
	must(t, w.Checkpoint())
	if err := <-grown; err != nil || !asked.Load() {
		t.Fatal(err)
	}
	must(t, w.Insert(keys[1]))
	must(t, w.Sync())
	// The process dies.
	again, r, err := Open(inner, LogSize{})
	if err != nil || r.Length != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, h := range keys {
		if !again.Contains(h) {
			t.Error("a synced key is lost")
		}
	}
}

// TestFaultReleasesLocks checks that every call returns after a fault in the log, wherever the fault
// comes.
func TestFaultReleasesLocks(t *testing.T) {
	for name, do := range map[string]func(*Writer) error{
		"Checkpoint": (*Writer).Checkpoint,
		"Sync":       (*Writer).Sync,
		"nextHalf":   func(w *Writer) error { w.most = 1 << 20; return w.nextHalf() },
	} {
		t.Run(name, func(t *testing.T) {
			v := &storingVolume{Volume: small.Volume(t, 100)}
			w := mustWriter(t, v, wal.MinBytes)
			must(t, w.Insert(1))
			v.storing = func(recovery.File) { panic("a fault") }
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the call has met no fault")
					}
					w.Fail(errors.New("a fault"))
				}()
				do(w)
			}()
			w.most = 100
			for _, do := range []func() error{
				func() error { return w.Insert(2) }, w.Checkpoint, w.Clean,
			} {
				if err := do(); !errors.Is(err, recovery.ErrFailed) {
					t.Errorf("%v", err)
				}
			}
			w.State()
		})
	}
}

// ended returns a Work that ignores what operations ask for.
func ended() *Work {
	k := new(Work)
	k.mu.closed = true
	return k
}

// TestBatchEndsAfterACommit checks that a batch can end with ErrFull right after its first keys were
// committed because the log was full.
func TestBatchEndsAfterACommit(t *testing.T) {
	w := mustWriter(t, small.Volume(t, 5000), wal.MinBytes)
	w.Work = ended()
	rng := seeded(t, 1)
	inserted := uint64(0)
	for !w.protocol.Live() || !w.protocol.Room(w.most) || w.protocol.Room(w.most+1) {
		must(t, w.Insert(rng.Uint64()))
		if inserted++; inserted > 10_000 {
			t.Fatal("the half never has room for exactly one operation")
		}
	}
	w.Limit = inserted + 1
	done := 0
	if err := w.DoAll(layout.Insert, []uint64{rng.Uint64(), rng.Uint64()}, false, &done, nil); !errors.Is(err, ErrFull) || done != 1 {
		t.Fatalf("%d keys, %v", done, err)
	}
}

// TestGrowthDuringACheckpoint checks that a larger log is asked for even during a checkpoint, since
// there is a checkpoint nearly all the time if the region is large. But none may be asked for while the
// log moves to a larger one.
func TestGrowthDuringACheckpoint(t *testing.T) {
	w, _, err := Open(small.Volume(t, 5000), LogSize{First: wal.MinBytes, Most: 16 * wal.MinBytes})
	must(t, err)
	asked := 0
	w.Work = ended()
	rng := seeded(t, 4)
	fill := func() {
		t.Helper()
		for size, used := int64(2), int64(0); used < size/2; size, used = w.protocol.LogUse() {
			must(t, w.Insert(rng.Uint64()))
			if w.mu.due.largerLog {
				asked++
			}
		}
	}
	must(t, w.Insert(rng.Uint64()))
	must(t, w.BeginCheckpoint())
	if fill(); asked != 1 {
		t.Errorf("asked %d times during a checkpoint", asked)
	}
	must(t, w.protocol.GrowLog(4*wal.MinBytes))
	must(t, w.EndCheckpoint())
	must(t, w.BeginCheckpoint())
	if fill(); asked != 1 || !w.protocol.Moving() {
		t.Errorf("asked %d times while the log moves", asked)
	}
	must(t, w.EndCheckpoint())
	must(t, w.BeginCheckpoint())
	if fill(); asked != 2 {
		t.Errorf("asked %d times after the log has moved", asked)
	}
}

// TestSlowCommit checks that, if a commit takes long, each operation waits a little once half of the
// segment is full, so that none finds it full and has to wait for the whole commit.
func TestSlowCommit(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 200_000), 256<<20)
	asked := 0
	w.Work = ended()
	rng := seeded(t, 5)
	fill := func(words int) (waits int) {
		t.Helper()
		for p := w.overlay.Load(); p == nil || p.Active().Len() < words; p = w.overlay.Load() {
			must(t, w.Insert(rng.Uint64()))
			if w.mu.due.commit {
				asked++
			}
		}
		return w.mu.waits
	}
	if n := fill(MaxWords / 2); n > 0 {
		t.Errorf("%d waits before half of the segment is full", n)
	}
	if n := fill(MaxWords * 5 / 8); n < 10 || asked == 0 {
		t.Errorf("%d waits when five eighths are full, and %d commits asked for", n, asked)
	}
}

// TestCommitInTheLastPart checks that a commit is asked for when the segment is large, even if a
// checkpoint is due, too.
func TestCommitInTheLastPart(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 200_000), 4<<20)
	w.Work = ended()
	rng := seeded(t, 6)
	for p := w.overlay.Load(); p == nil || p.Active().Len() < segmentWords; p = w.overlay.Load() {
		if w.mu.due.commit {
			t.Fatal("a commit is asked for early")
		}
		w.mu.pace = pace{} // the last part would make it sleep
		must(t, w.Insert(rng.Uint64()))
	}
	if d := w.mu.due; !d.commit || d.room == 0 {
		t.Errorf("in the end, %+v is due", d)
	}
}

// TestPaysOnce checks that an operation does not sleep for waits that become due while it sleeps.
func TestPaysOnce(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 100), 1<<20)
	owe := func() (waits int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mu.pace.owed = paceLongest
		return w.mu.waits
	}
	owe()
	done := make(chan error)
	go func() { done <- w.Insert(1) }()
	for owe() == 0 { // until the insert sleeps
		runtime.Gosched()
	}
	must(t, <-done)
	if waits := owe(); waits != 1 {
		t.Errorf("the insert sleeps %d times", waits)
	}
}
