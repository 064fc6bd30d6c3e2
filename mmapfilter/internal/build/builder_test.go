package build

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

const minBudget = 1 << 20 // bytes

// configOf returns a Config for a filter of a shape, without a limit on keys. Build must place all keys
// up to the usual design load, or up to a lower load if the stash would be too small.
func configOf(s tabletest.Shape) Config {
	return Config{
		Seed:         1,
		Workers:      1,
		MemoryBudget: 64 << 20,
		Progress:     func(string, uint64, uint64) {},
		Plan: func(capacity uint64) (p Plan, err error) {
			percent := uint64(layout.DesignLoads(s.Kind, s.Params).Usual)
			lines := func() uint64 { return max((capacity*100+s.Slots()*percent-1)/(s.Slots()*percent), 1) }
			for percent > 1 && layout.Crowded(s.Kind, s.Params, float64(lines()), float64(percent)/100) > layout.MaxCrowded {
				percent--
			}
			p.Geometry, err = layout.NewGeometry(s.Kind, s.Params, RoundUp(lines(), uint64(layout.LineBits(s.Kind, s.Params))))
			p.Limit = 1 << 63
			p.Superblock.SetGeometry(p.Geometry)
			p.Superblock.SetCapacity(capacity)
			return p, err
		},
	}
}

// spilling returns a Config with which hashes go to a temporary file if there are more than about 40,000
// keys.
func spilling() Config {
	c := configOf(tabletest.Compact(41, 7))
	c.MemoryBudget = minBudget
	return c
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func newTestDraft(tb testing.TB) *osfile.Draft {
	tb.Helper()
	d, err := osfile.NewDraft(filepath.Join(tb.TempDir(), "draft"), osfile.DraftOptions{})
	must(tb, err)
	tb.Cleanup(func() { d.Discard() })
	return d
}

// TestChecksItself checks that a lost key, a line that breaks a rule and a stash entry that no lookup
// reaches make Build fail.
func TestChecksItself(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *builder)
		ok    bool
	}{
		"nothing":       {func(b *builder) {}, true},
		"a lost key":    {func(b *builder) { b.items++ }, false},
		"a line":        {func(b *builder) { b.view.Region[8] = 1 << 57 }, false},
		"a stash entry": {func(b *builder) { b.view.Stash[0], b.view.Stash[1] = 1, 1<<32|1 }, false},
	} {
		b := &builder{Config: configOf(tabletest.Compact(41, 7)), draft: newTestDraft(t)}
		must(t, b.allocate(context.Background(), 1000))
		c.spoil(b)
		if err := b.check(context.Background()); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
