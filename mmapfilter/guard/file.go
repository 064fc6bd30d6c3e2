package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// system returns the hooks that a guard uses outside of tests. mode is Options.Mode. chosen says that
// the caller has chosen the path; then a file that no guard has created is left alone. The filter does
// not sync by itself; the guard calls Sync.
func system(life context.Context, mode fs.FileMode, chosen bool) *guarded.Hooks {
	open := func(path string) (guarded.Filter, error) {
		if err := mayUse(path, chosen); err != nil {
			return nil, err
		}
		if err := narrow(path, mode); err != nil {
			return nil, err
		}
		if err := verify(path); err != nil {
			return nil, err
		}
		f, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1, Checked: true})
		if err != nil {
			return nil, err
		}
		return guarded.Of(f), nil
	}
	return &guarded.Hooks{
		Create: func(path string, o *mmapfilter.Options) (guarded.Filter, error) {
			if err := mayUse(path, chosen); err != nil {
				return nil, err
			}
			if err := create(life, path, o); err != nil {
				return nil, err
			}
			return open(path)
		},
		Open:   open,
		Random: rand.Uint64,
	}
}

// ErrExpires says that the keys of the filter at [Options.Path] expire
// (mmapfilter.Options.ExpireAfter), so the filter would hide keys that the store has. The guard then
// has no filter.
var ErrExpires = errors.New("the keys of the filter expire")

// mayUse returns nil if the guard may use the file at path or replace it. Otherwise it returns
// ErrExpires; or a ForeignError if the caller has chosen the path and the file is not known to be a
// guard's filter.
func mayUse(path string, chosen bool) error {
	f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{NoRecover: true, ServeUnrecovered: true})
	if err != nil {
		info, missing := os.Stat(path)
		if !chosen || errors.Is(missing, fs.ErrNotExist) || missing == nil && info.Mode().IsRegular() && info.Size() == 0 {
			return nil // opening the filter will say what is wrong with it
		}
		return fmt.Errorf("%w (%w)", &mmapfilter.ForeignError{Path: path, Is: "which may belong to another program"}, err)
	}
	defer f.Close()
	if chosen && !ofGuard(guarded.Of(f)) {
		return &mmapfilter.ForeignError{Path: path, Is: "a filter that no guard has created"}
	}
	if guarded.Expires(f) {
		return fmt.Errorf("%s: %w", path, ErrExpires)
	}
	return nil
}

// narrow removes from the filter, and from a log that a dead process has left, the permissions that
// mode lacks. A mode of 0 removes none.
func narrow(path string, mode fs.FileMode) error {
	for _, p := range []string{path, path + ".stash", path + ".stash.new"} {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if has := info.Mode().Perm(); mode != 0 && has&^mode != 0 {
			if err := os.Chmod(p, has&mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// create creates an empty filter. It replaces the file at the path, which may be damaged or stale. If a
// program has that file open for writing, the file stays, and create returns an error.
func create(ctx context.Context, path string, o *mmapfilter.Options) error {
	f, err := mmapfilter.Build(ctx, path, o, func(func([]byte, error) bool) {})
	if err != nil {
		return err
	}
	return f.Close()
}

func openReadOnly(path string) (guarded.Filter, error) {
	if err := mayUse(path, false); err != nil {
		return nil, err
	}
	if err := verify(path); err != nil {
		return nil, err
	}
	f, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return nil, err
	}
	return guarded.Of(f), nil
}

// verify compares the whole filter with its checksums. A filter has checksums if it was closed, but
// not if its process died.
func verify(path string) error {
	_, err := mmapfilter.Verify(context.Background(), path)
	if errors.Is(err, mmapfilter.ErrCorrupt) {
		return err
	}
	return nil // opening the file returns any other error, too, except that it is not at rest
}
