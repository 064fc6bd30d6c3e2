package mmapfilter

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A keepingLife is a filter that keeps its hashes on a disk that fills up.
type keepingLife struct {
	*smallDisk
	*Filter
	open OpenOptions
	n    uint64 // number of keys: the first n numbers

	mu       sync.Mutex
	reported []error // errors passed to OnError
}

func (d *smallDisk) keepingLife(opts Options, require bool) *keepingLife {
	d.Helper()
	f, err := Create(d.path(), &opts)
	must(d, err)
	must(d, f.Close())
	l := &keepingLife{smallDisk: d}
	l.open = OpenOptions{CommitInterval: -1, RequireHashes: require, OnError: func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reported = append(l.reported, err)
	}}
	l.reopen()
	l.insertUpTo(1000)
	return l
}

func (l *keepingLife) reopen() {
	l.Helper()
	var err error
	if l.Filter, err = Open(l.path(), &l.open); err != nil {
		l.Fatal(err)
	}
	l.check()
}

// check checks that the filter has the keys of all inserts that returned nil, and no others.
func (l *keepingLife) check() {
	l.Helper()
	mustHave(l, l.Filter, 0, l.n)
	if l.Len() != l.n {
		l.Fatalf("%d items, not %d", l.Len(), l.n)
	}
}

// insertUpTo inserts keys until there are n. After a failed growth, it allows another one at once.
func (l *keepingLife) insertUpTo(n uint64) {
	l.Helper()
	for failures := 0; l.n < n; {
		err := l.insertMore(n)
		if failures++; err != nil && (!errors.Is(err, l.full) && !errors.Is(err, ErrFull) || failures > 100) {
			l.Fatalf("with room: %v", err)
		}
		l.Filter.growth.auto.Lock()
		l.Filter.growth.auto.failedTime = time.Time{}
		l.Filter.growth.auto.Unlock()
	}
}

// insertMore inserts keys until there are n or an insert fails.
func (l *keepingLife) insertMore(n uint64) error {
	for key := range numbers(l.n, n) {
		if err := l.Insert(key); err != nil {
			return err
		}
		l.n++
	}
	return nil
}

// insertUntilFull inserts keys until an insert fails, and checks and returns the error.
func (l *keepingLife) insertUntilFull() error {
	l.Helper()
	err := l.insertMore(1 << 20)
	l.mustEnd("Insert", err)
	if errors.Is(err, ErrFailed) || l.Err() != nil {
		l.Fatalf("the filter has failed: %v, %v", err, l.Err())
	}
	l.check()
	awaitGrowth(l.Filter)
	if !strings.Contains(l.Stats().GrowthErr, l.full.Error()) {
		l.Errorf("an insert says %v; Stats: %q", err, l.Stats().GrowthErr)
	}
	l.awaitReport(1)
	return err
}

// awaitReport waits until OnError has been called at least n times, the last time because the disk is
// full.
func (l *keepingLife) awaitReport(n int) {
	l.Helper()
	eventually(l.T, "OnError says why", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.reported) >= n && errors.Is(l.reported[len(l.reported)-1], l.full)
	})
}

// restart closes the filter and opens it again, on a full disk and then on one with room.
func (l *keepingLife) restart() {
	l.Helper()
	refused := func(what string, err error) bool {
		l.Helper()
		if err != nil && !errors.Is(err, l.full) {
			l.Errorf("%s on a full disk: %v", what, err)
		}
		return err != nil
	}
	refused("Close", l.Close())
	unmapDeleted(l.T, l.dir)
	r, err := OpenReadOnly(l.path(), &l.open)
	if !refused("OpenReadOnly", err) {
		mustHave(l, r, 0, l.n)
		r.Close()
	} else if !errors.Is(err, ErrNeedsRecovery) {
		l.Errorf("OpenReadOnly on a full disk: %v", err)
	}
	if f, err := Open(l.path(), &l.open); !refused("Open", err) {
		mustHave(l, f, 0, l.n)
		refused("Close", f.Close())
	}
	l.free()
	l.reopen()
}

// goOn inserts keys up to n, now that there is room, and closes the filter. If a checkpoint could not
// keep the hashes, the call of Checkpoint tries again: without a CommitInterval, perhaps nothing else
// does.
func (l *keepingLife) goOn(n uint64) {
	l.Helper()
	l.insertUpTo(n)
	awaitGrowth(l.Filter)
	must(l, l.Checkpoint(l.Context()))
	l.check()
	if s := l.Stats(); s.GrowthErr != "" || s.Grows && s.Capacity < n {
		l.Errorf("with room: %+v", s)
	}
	if err := l.Close(); err != nil {
		l.Error(err)
	}
	if r, err := Verify(l.Context(), l.path()); err != nil || r.Items != l.n || r.Hashes != l.n {
		l.Errorf("%+v, %v", r, err)
	}
	mustLeave(l, l.path(), 2)
}

// autoGrow covers K5 and K2: however much of the disk is free, at some time an insert fails because
// there is no room for NAME.hashes, or for a rebuild. Nothing is lost, and the filter goes on when there
// is room again.
func (d *smallDisk) autoGrow() {
	d.keepWhileFull(Options{Capacity: 4000, AutoGrow: true}, false, "keep the hashes: ", "cannot grow (K5): ", "tmp-rebuild")
}

// requireHashes covers K2 in the same way, for a filter that does not grow, but must not lose its
// hashes.
func (d *smallDisk) requireHashes() {
	d.keepWhileFull(Options{Capacity: 300_000, KeepHashes: true}, true, "keep the hashes: ")
}

// keepWhileFull lets filters fill disks. Each of the causes must make some insert fail.
func (d *smallDisk) keepWhileFull(opts Options, require bool, causes ...string) {
	var failed []string
	for round := range int64(8) {
		l := d.keepingLife(opts, require)
		d.fill(50_000 * round)
		failed = append(failed, l.insertUntilFull().Error())
		if round%2 == 0 {
			d.free()
		} else {
			l.restart()
		}
		l.goOn(l.n + 20_000)
		d.remove()
	}
	all := strings.Join(failed, "\n")
	for _, cause := range causes {
		if !strings.Contains(all, cause) {
			d.Errorf("%q is not among the causes:\n%s", cause, all)
		}
	}
}

// loseHashes covers K2: a filter that need not keep its hashes goes on without them.
func (d *smallDisk) loseHashes() {
	l := d.keepingLife(Options{Capacity: 60_000, KeepHashes: true}, false)
	d.fill(0)
	must(d, l.insertMore(50_000))
	if s := l.Stats(); !strings.Contains(s.GrowthErr, d.full.Error()) {
		d.Errorf("GrowthErr: %q", s.GrowthErr)
	}
	d.free()
	l.check()
	if err := l.Rebuild(l.Context(), nil); !errors.Is(err, ErrNoHashes) || !errors.Is(err, d.full) {
		d.Errorf("Rebuild: %v", err)
	}
	must(d, l.Close())
	l.reopen()
	if err := l.Rebuild(l.Context(), nil); !errors.Is(err, ErrNoHashes) {
		d.Errorf("Rebuild: %v", err)
	}
	l.Close()
}

// rebuild covers K3 and K2, with less and less of the disk free. A Rebuild that returns nil has replaced
// the file. There may be no room for the hashes of the operations that came meanwhile; then a later
// checkpoint keeps them. A Rebuild that fails leaves the old file.
func (d *smallDisk) rebuild() {
	l := d.keepingLife(Options{Capacity: 100_000, KeepHashes: true}, true)
	must(d, l.Close())
	l.open.LogBytes = 256 << 10 // less than the hashes
	l.reopen()
	l.insertUpTo(40_000)
	const more = 1000 // so that the new file needs more room than the old one
	keys := func(yield func([]byte, error) bool) {
		for key := range numbers(0, l.n+more) {
			if !yield(key, nil) {
				return
			}
		}
		// More than a page of hashes, but so few that they are kept last, after the checkpoints.
		mustInsert(d, l.Filter, 1<<32, 1<<32+250)
		mustDelete(d, l.Filter, 1<<32, 1<<32+250)
	}
	opts := &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return keys, nil }}
	late := 0
	for leave, failed := int64(64<<10), false; !failed; leave -= 2048 {
		must(d, l.Rebuild(l.Context(), nil)) // makes the history short
		d.fill(sizeOf(d, d.path()+".hashes") + leave)
		before := l.Stats().Rebuilds
		err := l.Rebuild(l.Context(), opts)
		s := l.Stats()
		switch failed = err != nil; {
		case failed:
			d.mustEnd("Rebuild", err)
		case s.GrowthErr != "":
			late++
			l.awaitReport(late)
		}
		if failed == (s.Rebuilds > before) {
			d.Errorf("%d bytes left: Rebuild: %v, and the file was replaced %d times", leave, err, s.Rebuilds-before)
		}
		d.free()
		if !failed {
			l.n += more
		}
		must(d, l.Checkpoint(l.Context()))
		if s := l.Stats(); s.GrowthErr != "" {
			d.Errorf("with room: %q", s.GrowthErr)
		}
		l.check()
	}
	if late == 0 && d.full == unix.EFBIG { // on a full disk, the replaced file makes room
		d.Error("there was always room for the checkpoint after a Rebuild that returned nil")
	}
	must(d, l.Close())
}

// remove removes the files of a filter.
func (d *smallDisk) remove() {
	d.Helper()
	list, _ := filepath.Glob(d.path() + "*")
	for _, path := range list {
		must(d, os.Remove(path))
	}
}
