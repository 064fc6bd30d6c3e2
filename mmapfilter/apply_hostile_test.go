package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/changes"
)

// TestApplyHugeCounts: changes of more items than any filter can have are refused, without an overflow,
// before the first of them is done.
func TestApplyHugeCounts(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 10)
	replica, at, _ := mustSnapshot(t, f)
	path := replica.open.Load().path
	must(t, replica.Close())
	r := mustOpen(t, path, nil)
	for _, times := range []int64{3, -3, 1 << 40, 1 << 62, math.MaxInt64, -1 << 62, -math.MaxInt64} {
		var b bytes.Buffer
		from := layout.Position{Number: at.Number, Chain: at.Chain}
		w, err := changes.NewWriter(&b, changes.Header{Descent: at.Descent, From: from, To: layout.Position{Number: at.Number + 5, Chain: 1}})
		must(t, err)
		must(t, w.Add(changes.Change{Hash: 7, Times: times}))
		must(t, w.Add(changes.Change{Hash: 8, Times: times}))
		must(t, w.Close())
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err = r.Apply(ctx, &b)
		cancel()
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "more items than there were operations") {
			t.Errorf("%d times: %v", times, err)
		}
		if r.Position() != at || r.Len() != 10 {
			t.Fatalf("%d times: %d keys at %v", times, r.Len(), r.Position())
		}
	}
	mustHave(t, r, 0, 10)
}
