package mmapfilter

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
)

// SetStats describe a set. For a closed one only Len, Cap and State are set. The JSON form leaves out
// the seed.
type SetStats struct {
	Len           uint64  `json:"keys"`     // see Set.Len
	Cap           uint64  `json:"capacity"` // keys that the set was sized for
	Shards        int     `json:"shards"`
	Opened        int     `json:"opened"`     // shards that are open
	Failed        int     `json:"failed"`     // shards that are limited by an error; see Set.Err
	FileBytes     int64   `json:"file_bytes"` // of all shards, when the manifest was written
	BitsPerKey    float64 `json:"bits_per_key"`
	TargetRate    float64 `json:"target_rate"`    // false-positive rate asked for
	EstimatedRate float64 `json:"estimated_rate"` // that of the open shards on average; see Stats
	HighestRate   float64 `json:"highest_rate"`   // that of the open shard with the highest
	ResidentBytes int64   `json:"resident_bytes"` // of the open shards; -1 if unknown
	State         string  `json:"state"`          // "open"; "closed" after Close; "waiting" with OpenOptions.WaitForFile
	Swaps         uint64  `json:"swaps"`          // see Set.Swaps
	Plan          string  `json:"plan"`           // that the shards were built by; 32 hex digits
	Seed          uint64  `json:"-"`
	Normalisation string  `json:"normalisation"` // see Options.Normalisation
}

// Stats describes the set. It opens no shard; see [Set.OpenAll].
func (s *Set) Stats() SetStats {
	st := s.state.Load()
	if st == nil {
		state := "waiting"
		if s.life.Err() != nil { // not s.mu: a Refresh may hold it for long
			state = "closed"
		}
		return SetStats{Len: s.Len(), Cap: s.Cap(), State: state}
	}
	m := st.manifest
	stats := SetStats{
		Len: s.Len(), Cap: m.Capacity, Shards: len(st.shards), TargetRate: m.Rate, State: "open",
		Swaps: s.Swaps(), Plan: m.Plan, Seed: uint64(m.Seed), Normalisation: m.Normalisation,
	}
	for i, sh := range st.shards {
		stats.FileBytes += m.Shards[i].Bytes
		if sh.failure() != nil {
			stats.Failed++
		}
		f := sh.opened()
		if f == nil {
			continue
		}
		one := f.Stats()
		stats.Opened++
		stats.EstimatedRate += one.EstimatedRate
		stats.HighestRate = max(stats.HighestRate, one.EstimatedRate)
		if stats.ResidentBytes += one.ResidentBytes; one.ResidentBytes < 0 {
			stats.ResidentBytes = -1
		}
	}
	if stats.Opened > 0 {
		stats.EstimatedRate /= float64(stats.Opened)
	}
	if stats.Len > 0 {
		stats.BitsPerKey = float64(stats.FileBytes) * 8 / float64(stats.Len)
	}
	return stats
}

// A SetReport says what [VerifySet] checked and found.
type SetReport struct {
	Shards    int
	FileBytes int64
	Items     uint64        // of the shards without errors
	Errors    []*ShardError // at most one a shard, in their order
}

// VerifySet is [Verify] for all shards of a set, several at a time. It also checks that each is the
// file that the manifest names. progress, if not nil, is called from one goroutine at a time with the
// bytes of the shards that are done, and the total. If something is wrong, the error is about the
// manifest, or the first entry of Errors.
func VerifySet(ctx context.Context, path string, progress func(done, total int64)) (SetReport, error) {
	r, err := verifySet(ctx, path, progress)
	if err != nil {
		return r, about("verify", path, err)
	}
	return r, nil
}

func verifySet(ctx context.Context, path string, progress func(done, total int64)) (r SetReport, err error) {
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
	err = build.Parallel(ctx, runtime.GOMAXPROCS(0), len(st.shards), nil, func(_, i int) error {
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
		if done += st.manifest.Shards[i].Bytes; progress != nil {
			progress(done, total)
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

func (sh *setShard) verify(ctx context.Context) (Report, error) {
	f, err := sh.check(OpenReadOnly(sh.path, &OpenOptions{NoRecover: true}))
	if err != nil {
		return Report{}, err
	}
	f.Close()
	return Verify(ctx, sh.path)
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
