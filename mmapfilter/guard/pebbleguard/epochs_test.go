package pebbleguard

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestReplayed covers G2: the log is taken to have the keys that a filter lacks only if it has the
// entry of every epoch after the filter's up to the last one in the store.
func TestReplayed(t *testing.T) {
	entry := func(file, number, previous uint64) logged {
		return logged{file: file, epoch: epoch{number, previous}, keys: []byte{1, byte('0' + number)}}
	}
	for _, c := range []struct {
		name  string
		at    uint64 // the position of the filter
		first uint64 // the first file that is read
		last  epoch  // in the store
		log   []logged
		keys  string // that the filter must get; "gone" if nobody knows
	}{
		{"nothing", 5, 0, epoch{}, nil, ""},
		{"the next", 5, 0, epoch{6, 5}, []logged{entry(0, 6, 5)}, "6"},
		{"a chain", 5, 0, epoch{9, 7}, []logged{entry(0, 7, 4), entry(0, 9, 7)}, "79"},
		{"one is missing", 5, 0, epoch{9, 7}, []logged{entry(0, 9, 7)}, "gone"},
		{"one is missing in between", 5, 0, epoch{10, 8}, []logged{entry(0, 7, 5), entry(0, 10, 8)}, "gone"},
		{"one is missing at the end", 5, 0, epoch{7, 6}, []logged{entry(0, 6, 5)}, "gone"},
		{"one is in a file that is not read", 5, 2, epoch{7, 6}, []logged{entry(1, 6, 5), entry(2, 7, 6)}, "gone"},
		{"the filter is ahead", 9, 0, epoch{7, 6}, []logged{entry(0, 6, 5), entry(0, 7, 6)}, ""},
		{"damaged", 5, 0, decodeEpoch([]byte("x")), nil, "gone"},
	} {
		s := &loggedStore{epochs: epochs{last: c.last, log: c.log}}
		s.first.Store(c.first)
		var keys []byte
		for key, err := range s.Since(c.at) {
			if err != nil && err != guard.ErrGone {
				t.Errorf("%s: %v", c.name, err)
			}
			keys = slices.Concat(keys, key)
			if err != nil {
				keys = append(keys, "gone"...)
			}
		}
		if string(keys) != c.keys {
			t.Errorf("%s: after epoch %d, Since yields %q instead of %q", c.name, c.at, keys, c.keys)
		}
	}
}
