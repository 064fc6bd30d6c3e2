package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// system returns the hooks that a guard has outside of tests. interval is the commit interval.
func system(life context.Context, interval time.Duration) *guarded.Hooks {
	open := func(path string) (guarded.Filter, error) {
		if err := verify(path); err != nil {
			return nil, err
		}
		return mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: interval, Checked: true})
	}
	return &guarded.Hooks{
		Create: func(path string, o *mmapfilter.Options) (guarded.Filter, error) {
			if err := create(life, path, o); err != nil {
				return nil, err
			}
			return open(path)
		},
		Open:   open,
		Random: rand.Uint64,
	}
}

// create makes an empty filter. It replaces the file at the path, which may be damaged or stale. If a
// program has that file open for writing, it stays, and create returns an error.
func create(ctx context.Context, path string, o *mmapfilter.Options) error {
	f, err := mmapfilter.Build(ctx, path, o, func(func([]byte, error) bool) {})
	if err != nil {
		return err
	}
	return f.Close()
}

func openReadOnly(path string) (*mmapfilter.Filter, error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	return mmapfilter.OpenReadOnly(path, nil)
}

// verify compares the whole filter with its checksums. A filter has some if it was closed, but not if
// its process died.
func verify(path string) error {
	_, err := mmapfilter.Verify(context.Background(), path)
	if errors.Is(err, mmapfilter.ErrCorrupt) {
		return err
	}
	return nil // Open returns other errors, too, or the file is not at rest
}
