package bboltguard

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

func TestJoinKey(t *testing.T) {
	long := bytes.Repeat([]byte{0}, 300)
	paths := [][][]byte{nil, {[]byte("a")}, {[]byte("b")}, {[]byte("a"), []byte("b")}, {[]byte("ab")}, {{0}}, {{0}, {1}}, {long}, {long, long}}
	seen := map[string]bool{}
	for _, path := range paths {
		for _, key := range [][]byte{{}, {0}, {0, 1}, []byte("a"), []byte("b"), []byte("\x01a\x00b"), long} {
			joined := JoinKey(key, path...)
			if seen[string(joined)] {
				t.Errorf("%q in %q has the joined key of another key", key, path)
			}
			seen[string(joined)] = true
			gotKey, gotPath := SplitKey(joined)
			if !bytes.Equal(gotKey, key) || !slices.EqualFunc(gotPath, path, bytes.Equal) {
				t.Errorf("%q in %q became %q in %q", key, path, gotKey, gotPath)
			}
		}
	}
	for _, bad := range []string{"", "\x05a", "\x80", "\x01a", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		if key, path := SplitKey([]byte(bad)); key != nil || path != nil {
			t.Errorf("%q became %q in %q", bad, key, path)
		}
	}
}

// TestCoversBuckets uses a filter that is only for some buckets.
func TestCoversBuckets(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		g := guardtest.Quiet(deletes)
		g.CoversVersion = "bucket b"
		g.Covers = func(joined []byte) bool {
			_, path := SplitKey(joined)
			return len(path) == 1 && string(path[0]) == "b"
		}
		d := open(t, nil, g)
		update(t, d, func(b *Bucket) error {
			other, err := b.tx.CreateBucket([]byte("other"))
			must(t, err)
			return errors.Join(put("k")(other), b.tx.MoveBucket([]byte("other"), nil, b), put("a")(b))
		})
		guardtest.MustKnow(t, d, "b/a", true)
		guardtest.MustKnow(t, d, "b/z", false)
		before := d.GuardStats().Lookups
		if v, err := d.Get("b/other/z"); v != nil || err != nil || d.GuardStats().Lookups != before {
			t.Errorf("the filter was asked: %v", err)
		}
		if n := guardtest.MustKeep(t, d); n == 0 || d.GuardStats().Keys != 1 {
			t.Errorf("%d keys; %+v", n, d.GuardStats())
		}
	})
}
