package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// system returns what a guard has of the system unless it is tested. interval is the commit interval.
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

// create makes an empty filter. It takes the place of one that is damaged or of another time; one that
// a program has open stays, and that is an error.
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

// verify reads the whole filter and compares it with its checksums. It has some if it was closed, not
// if its process died.
func verify(path string) error {
	_, err := mmapfilter.Verify(context.Background(), path)
	if errors.Is(err, mmapfilter.ErrCorrupt) {
		return err
	}
	return nil // an error is one of Open, too, or of a file that is not at rest
}
