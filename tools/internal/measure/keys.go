package measure

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// keyNumbers yields n keys of 8 bytes.
func keyNumbers(n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := range n {
			binary.LittleEndian.PutUint64(key[:], i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

// absentKeys makes random keys of 16 bytes, none of which is in a filter of keys of 8 bytes. It
// shares no cache line with what other goroutines write, because sharing one slows even a loop
// that only computes.
type absentKeys struct {
	_   cpu.CacheLinePad
	rng rand.PCG
	key [16]byte
	_   cpu.CacheLinePad
}

func newAbsentKeys(seed uint64) *absentKeys { return &absentKeys{rng: *rand.NewPCG(seed, 16)} }

// next returns a key that is valid until the next call.
func (k *absentKeys) next() []byte {
	binary.LittleEndian.PutUint64(k.key[:8], k.rng.Uint64())
	binary.LittleEndian.PutUint64(k.key[8:], k.rng.Uint64())
	return k.key[:]
}

// filterOf returns options for a filter of about this many bytes.
func filterOf(opts mmapfilter.Options, bytes int64) (mmapfilter.Options, error) {
	opts.Capacity = 1 << 30 // large enough that the fixed parts do not matter
	plan, err := opts.Plan()
	if err != nil {
		return opts, err
	}
	opts.Capacity = uint64(float64(bytes) * 8 / plan.BitsPerKey)
	if opts.Capacity == 0 {
		return opts, fmt.Errorf("a filter of %d bytes holds nothing", bytes)
	}
	return opts, nil
}

// build builds a filter of about this many bytes that holds a share of its capacity, closes it
// and returns its path.
func (s *session) build(name string, opts mmapfilter.Options, bytes int64, share float64) (path string, err error) {
	if opts, err = filterOf(opts, bytes); err != nil {
		return "", err
	}
	path = s.path(name)
	keys := uint64(share * float64(opts.Capacity))
	s.note("building a filter of %s from %s keys", figures.ExactSize(bytes), figures.Grouped(int64(keys)))
	begun := time.Now()
	f, err := mmapfilter.Build(s.ctx, path, &opts, keyNumbers(keys))
	if err != nil {
		return "", err
	}
	s.note("built in %s", figures.Brief(time.Since(begun)))
	return path, f.Close()
}

// given returns the path of the filter that -file names, or builds one.
func (s *session) given(opts mmapfilter.Options) (path string, err error) {
	if s.file != "" {
		return s.file, nil
	}
	return s.build("filter.mmf", opts, int64(s.bytes), 1)
}
