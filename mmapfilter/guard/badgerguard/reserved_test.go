package badgerguard

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// testStreams looks for reserved keys in a backup, and among updates.
func testStreams(t *testing.T, d *testStore) {
	var mu sync.Mutex
	seen := map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- d.Subscribe(ctx, func(list *badger.KVList) error {
			mu.Lock()
			defer mu.Unlock()
			for _, kv := range list.Kv {
				seen[string(kv.Key)] = true
			}
			return nil
		}, []pb.Match{{Prefix: nil}})
	}()
	guardtest.Eventually(t, d, "an update", func(guard.Stats) bool {
		guardtest.Set(t, d, 100, 110)
		mu.Lock()
		defer mu.Unlock()
		return seen[guardtest.Number(109)]
	})
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("%v", err)
	}
	must(t, d.guard.Work())
	var b bytes.Buffer
	_, err := d.Backup(&b, 0)
	must(t, err)
	dir := t.TempDir()
	plain, err := badger.Open(small(dir))
	must(t, err)
	must(t, plain.Load(&b, 1))
	must(t, plain.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			seen[string(it.Item().Key())] = true
		}
		return nil
	}))
	must(t, plain.Close())
	for key := range seen {
		if d.store.reserved([]byte(key)) {
			t.Errorf("%q is shown", key)
		}
	}
	guardtest.MustHave(t, open(t, small(dir), guardtest.Quiet(guard.Rebuild)), 0, 110, 200)
}

// TestReserved covers G6: programs do not see the reserved keys, and cannot write them. If
// Prefix is set, keys that merely begin with OwnerName belong to the program.
func TestReserved(t *testing.T) {
	for _, prefix := range []string{"", "g", "\xff\xff", guard.OwnerName + "y"} {
		g := guardtest.Quiet(guard.Exact)
		g.Prefix = []byte(prefix)
		d := open(t, small(t.TempDir()), g)
		guardtest.Set(t, d, 0, 20)
		guardtest.Remove(t, d, 10, 20)
		keys := [][]byte{[]byte("\x00a"), []byte("a"), []byte("f"), []byte("h"), []byte("\xfe"), []byte("\xff")}
		if prefix != "" {
			keys = append(keys, []byte(guard.OwnerName+"\x00"), []byte(guard.OwnerName+"\xff"))
		}
		must(t, d.put(keys...))
		must(t, d.guard.Doubt()) // so that lookups reach the store
		must(t, d.Update(func(txn *Txn) error {
			for _, key := range [][]byte{d.store.prefix, d.store.key([]byte("s")), d.store.key([]byte("any")), owner} {
				set, del := txn.Set(key, nil), txn.Delete(key)
				_, get := txn.Get(key)
				if there, has := d.DB.Has(key); there || has != nil || set != ErrReserved || del != ErrReserved || get != badger.ErrKeyNotFound {
					t.Errorf("%q: Set: %v, Delete: %v, Get: %v, Has: %t, %v", key, set, del, get, there, has)
				}
			}
			return nil
		}))
		must(t, d.View(func(txn *Txn) error {
			want, err := testTxn{txn, d}.Keys()
			if len(want) < 10+len(keys) {
				t.Errorf("prefix %q: %q", prefix, want)
			}
			testIterators(t, d, txn, want)
			return err
		}))
	}
}

// testIterators checks that iterators of all kinds show just the keys in want.
func testIterators(t *testing.T, d *testStore, txn *Txn, want []string) {
	for _, it := range []*Iterator{
		txn.NewKeyIterator(d.store.key([]byte("s\x00\x00")), badger.DefaultIteratorOptions),
		txn.NewIterator(badger.IteratorOptions{Prefix: d.store.prefix}),
	} {
		if it.Rewind(); it.Valid() {
			t.Errorf("an iterator over reserved keys shows %q", it.Item().Key())
		}
		it.Close()
	}
	for _, o := range []badger.IteratorOptions{{}, {Reverse: true}, {PrefetchValues: true, PrefetchSize: 3}} {
		it := txn.NewIterator(o)
		var got []string
		for it.Rewind(); it.Valid(); it.Next() {
			got = append(got, string(it.Item().Key()))
		}
		if o.Reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("prefix %q, %+v: %q, not %q", d.store.prefix, o, got, want)
		}
		if it.Seek(d.store.key([]byte("i"))); it.Valid() && d.store.reserved(it.Item().Key()) {
			t.Errorf("prefix %q, %+v: Seek shows %q", d.store.prefix, o, it.Item().Key())
		}
		it.Close()
	}
}

// TestEntriesAreRemoved covers G2: entries are removed once the filter has their keys durably. The
// capacity is so large that no key overflows: the entry of such a key may stay until a rebuild.
func TestEntriesAreRemoved(t *testing.T) {
	guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		o := guardtest.Often(deletes)
		o.Capacity = 50_000
		d := open(t, small(t.TempDir()), o)
		guardtest.Set(t, d, 0, 20_000)
		guardtest.Remove(t, d, 0, 10_000)
		guardtest.Eventually(t, d, "few entries", func(guard.Stats) bool {
			must(t, d.guard.Work())
			entries, err := d.store.Entries()
			must(t, err)
			return len(entries) < 10
		})
	})
}

func TestReadOnly(t *testing.T) {
	o := small(t.TempDir())
	must(t, open(t, o, nil).Close())
	d := open(t, o.WithReadOnly(true), nil)
	_, err := d.GetSequence(number(1), 1)
	for _, err := range []error{err, d.put(number(1)), d.DropAll()} {
		if !errors.Is(err, badger.ErrReadOnlyTxn) {
			t.Error(err)
		}
	}
}

// TestStoreWrite makes changes that do not fit into one transaction.
func TestStoreWrite(t *testing.T) {
	for _, syncs := range []bool{false, true} {
		db, err := badger.Open(small(t.TempDir()).WithSyncWrites(syncs))
		must(t, err)
		defer db.Close()
		s, err := newStore(db, []byte("prefix"))
		must(t, err)
		key := func(i int) []byte { return []byte{'i', 0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)} }
		want := []guard.Entry{}
		for i := range 10_000 {
			want = append(want, guard.Entry{Key: key(i), Value: []byte("12345678")})
		}
		want = append(want, guard.Entry{Key: []byte("s"), Value: []byte("stamp")}, guard.Entry{Key: []byte("t"), Value: []byte("trimmed")},
			guard.Entry{Key: []byte("u"), Value: bytes.Repeat([]byte("12345678"), 200_000)}, guard.Entry{Key: []byte("x")})
		mustBe := func(want []guard.Entry) {
			t.Helper()
			got, err := s.Entries()
			if err != nil || !slices.EqualFunc(got, want, func(a, b guard.Entry) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }) {
				t.Fatalf("%d entries, not %d, or they differ: %v", len(got), len(want), err)
			}
		}
		must(t, s.Write(guard.Changes{Set: want}))
		mustBe(want)
		want = slices.DeleteFunc(want, func(e guard.Entry) bool {
			return string(e.Key) == "u" || bytes.Compare(e.Key, key(10)) >= 0 && bytes.Compare(e.Key, key(9990)) < 0
		})
		want[20].Value = []byte("new")
		must(t, s.Write(guard.Changes{
			Remove: []guard.Range{{From: key(10), To: key(9_990)}, {From: []byte("u"), To: []byte("u\x00")}}, Set: want[20:21],
		}))
		mustBe(want)
		must(t, s.Write(guard.Changes{Remove: []guard.Range{{From: []byte{0}, To: []byte{0xff}}}, Set: want[20:21]}))
		mustBe(want[20:21])
	}
}
