package guard

import (
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// snapshot makes a snapshot of the filter while the guard uses it, and returns options for the copy.
func (f *fixture) snapshot() (copied *Options) {
	f.t.Helper()
	o := *f.o
	o.Path = filepath.Join(f.t.TempDir(), filepath.Base(f.o.Path))
	r, err := mmapfilter.OpenReadOnly(f.o.Path, nil)
	must(f.t, err)
	defer r.Close()
	_, err = r.Snapshot(f.t.Context(), o.Path)
	must(f.t, err)
	_, err = mmapfilter.Verify(f.t.Context(), o.Path)
	must(f.t, err)
	return &o
}

// TestSnapshotRestored covers G2: a snapshot of the filter is what a crash might have left at that
// instant. If the store knows all that came since, it serves with just that; but once another guard has
// opened the store, the token of the snapshot is not that of the store any more.
func TestSnapshotRestored(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for name, again := range map[string]bool{"killed": false, "opened again": true} {
			f := begin(t, quiet(t, deletes))
			f.put("a", "gone")
			must(t, f.g.Sync())
			copied := f.snapshot()
			f.put("b", "c")
			f.remove("gone")
			if again {
				f.close()
				f.open()
				f.put("d")
				f.close()
			} else {
				f.kill()
			}
			f.o = copied
			f.o.Hooks = newGuard(nil, f.o).hooks()
			f.o.Hooks.Manual = true // so nothing is built
			f.open()
			want := map[bool]string{false: "serving", true: "building"}[again]
			if st := f.g.Stats(); st.State != want || !again && (st.Replayed != 2 || st.Keys != map[DeleteMode]uint64{Exact: 3, Rebuild: 4}[deletes]) {
				t.Errorf("%s: it should be %s; %+v", name, want, st)
			}
			f.mustShow()
			f.close()
		}
	})
}
