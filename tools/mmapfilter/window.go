package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The default size and rate of a filter of uniq --window. It grows to its size by itself.
const (
	windowCapacity = 100_000
	windowRate     = 5e-6
)

// A window makes a filter of uniq forget the lines that were added longer ago than length.
type window struct {
	filter *mmapfilter.Filter
	path   string
	length time.Duration // 0 if nothing is ever forgotten
	last   time.Time     // when lines were forgotten; zero if they never were
}

// leastWindow is the shortest window. A line is forgotten up to 3 seconds late: it is committed up to a
// second after it was printed, its time is exact to a second, and lines are forgotten once a second at
// most. That would be too large a part of a shorter window.
const leastWindow = 10 * time.Second

// Lines are forgotten windowSteps times in a window, so each at most one step late. More steps would
// cost more: each reads all hashes that the filter keeps.
const windowSteps = 16

// The file of the hashes grows with every insert and delete, and only a rebuild makes it small
// again: 9 bytes a line. Deletes that wait need one at once, since their lines would not pass
// again. With these numbers there is a rebuild in every other window, since a line adds 18 bytes
// before it is forgotten.
const (
	hashesPerLine = 45 // bytes
	hashesAnyway  = 1 << 20
)

// forget forgets old lines, if it is time. It measures by the time of day, since a monotonic clock may
// stand still while the machine sleeps.
func (w *window) forget(ctx context.Context) error {
	if w.length == 0 {
		return nil
	}
	now := clock().Round(0)
	if since := now.Sub(w.last); since >= 0 && since < max(w.length/windowSteps, time.Second) {
		return nil
	}
	w.last = now
	if _, err := w.filter.ExpireBefore(ctx, now.Add(-w.length)); err != nil {
		return err
	}
	if w.filter.Stats().Waiting > 0 {
		return w.filter.Rebuild(ctx, nil)
	}
	info, err := os.Stat(hashesOf(w.path))
	if err != nil || info.Size() < hashesAnyway+hashesPerLine*int64(w.filter.Len()) {
		return nil // ExpireBefore reports lost hashes
	}
	return w.filter.Rebuild(ctx, nil)
}

// lacksHashes says that a filter cannot be used with --window.
func lacksHashes(path string, err error) error {
	return &fileError{path, errors.New(whatOfHashes(path, err) + ", and --window needs the hashes; choose another file")}
}
