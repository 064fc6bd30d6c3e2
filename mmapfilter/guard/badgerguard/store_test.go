package badgerguard

import (
	"bytes"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Changes that do not fit into one transaction are made in several.
func TestStoreWrite(t *testing.T) {
	for _, syncs := range []bool{false, true} {
		db, err := badger.Open(small(t.TempDir()).WithSyncWrites(syncs))
		must(t, err)
		defer db.Close()
		s, err := newStore(db, []byte("prefix"))
		must(t, err)
		large := bytes.Repeat([]byte("12345678"), 200_000)
		set := []guard.Entry{{Key: []byte("s"), Value: []byte("stamp")}, {Key: []byte("t"), Value: []byte("trimmed")}}
		for i := range 10_000 {
			set = append(set, guard.Entry{Key: append([]byte("i"), number(i)[1:]...), Value: []byte("12345678")})
		}
		set = append(set, guard.Entry{Key: []byte("u"), Value: large}, guard.Entry{Key: []byte("x")})
		must(t, s.Write(guard.Changes{Set: set}))
		entries := func() map[string]string {
			list, err := s.Entries()
			must(t, err)
			m := map[string]string{}
			for i, e := range list {
				if i > 0 && bytes.Compare(list[i-1].Key, e.Key) >= 0 {
					t.Fatalf("%q comes before %q", list[i-1].Key, e.Key)
				}
				m[string(e.Key)] = string(e.Value)
			}
			return m
		}
		got := entries()
		if len(got) != len(set) {
			t.Fatalf("%d entries, not %d", len(got), len(set))
		}
		for _, e := range set {
			if v, ok := got[string(e.Key)]; !ok || v != string(e.Value) {
				t.Fatalf("entry %q: %t, %.20q", e.Key, ok, v)
			}
		}
		key := func(i int) []byte { return append([]byte("i"), number(i)[1:]...) }
		must(t, s.Write(guard.Changes{
			Remove: []guard.Range{{From: key(10), To: key(9_990)}, {From: []byte("u"), To: []byte("u\x00")}},
			Set:    []guard.Entry{{Key: []byte("s"), Value: []byte("new")}},
		}))
		if got = entries(); len(got) != 23 || got["s"] != "new" || got["u"] != "" {
			t.Fatalf("%d entries are left", len(got))
		}
		must(t, s.Write(guard.Changes{Remove: []guard.Range{{From: []byte{0}, To: []byte{0xff}}}, Set: []guard.Entry{{Key: []byte("s"), Value: []byte("last")}}}))
		if got = entries(); len(got) != 1 || got["s"] != "last" {
			t.Fatalf("%d entries are left", len(got))
		}
	}
}
