package sets

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Report says what [Verify] checked and found.
type Report struct {
	Shards    int
	FileBytes int64
	Items     uint64        // of the shards without errors
	Errors    []*ShardError // at most one a shard, in their order
}

// Verify is [mmapfilter.Verify] for all shards of a set, several at a time. It also checks that each
// shard is the file that the manifest names. It calls progress, if there is one, from one goroutine at
// a time with the number of bytes in the shards that are done, and the total number. If something is
// wrong, the error is about the manifest, or it is the first entry of Errors.
func Verify(ctx context.Context, path string, progress ...func(done, total int64)) (Report, error) {
	r, err := verify(ctx, path, progress)
	if err != nil {
		return r, about("verify", path, err)
	}
	return r, nil
}

func verify(ctx context.Context, path string, progress []func(done, total int64)) (r Report, err error) {
	s, err := newSet(path, nil)
	if err != nil {
		return r, err
	}
	st, err := s.read(nil)
	if err != nil {
		return r, err
	}
	var total int64
	for _, shard := range st.manifest.Shards {
		total += shard.Bytes
	}
	var mu sync.Mutex
	var done int64
	failed := make([]*ShardError, len(st.shards))
	err = build.Parallel(ctx, runtime.GOMAXPROCS(0), len(st.shards), nil, func(ctx context.Context, _, i int) error {
		report, err := st.shards[i].verify(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		mu.Lock()
		defer mu.Unlock()
		r.FileBytes += report.FileBytes
		if err != nil {
			failed[i] = &ShardError{i, st.shards[i].path, err}
		} else {
			r.Items += report.Items
		}
		done += st.manifest.Shards[i].Bytes
		for _, report := range progress {
			if report != nil {
				report(done, total)
			}
		}
		return nil
	})
	r.Shards = len(st.shards)
	for _, e := range failed {
		if e != nil {
			r.Errors = append(r.Errors, e)
		}
	}
	if err == nil && len(r.Errors) > 0 {
		err = r.Errors[0]
	}
	return r, err
}

func (sh *setShard) verify(ctx context.Context) (mmapfilter.Report, error) {
	f, head, err := osfile.OpenFile(sh.path)
	if err == nil {
		err = errors.Join(sh.fits(head.Superblock), f.Close())
	}
	if err != nil {
		return mmapfilter.Report{}, about("open", sh.path, err)
	}
	return mmapfilter.Verify(ctx, sh.path)
}

// IsSet reports whether the file at path begins as a manifest does, not as a filter.
func IsSet(path string) (bool, error) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false, err // before it is opened: opening a pipe would wait for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var first [1]byte
	if n, err := f.Read(first[:]); n == 0 {
		return false, errors.Join(err)
	}
	return first[0] == '{', nil
}
