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
)

func TestBackup(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), quiet(guard.Rebuild))
	set(t, d, 0, 100)
	must(t, d.Guard().Work())
	var b bytes.Buffer
	_, err := d.Backup(&b, 0)
	must(t, err)
	if err := d.Load(&b, 1); !errors.Is(err, ErrNotFollowed) {
		t.Errorf("Load: %v", err)
	}
	dir := t.TempDir()
	plain, err := badger.Open(small(dir))
	must(t, err)
	must(t, plain.Load(&b, 1))
	must(t, plain.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if d.store.reserved(it.Item().Key()) {
				t.Errorf("the backup has %q", it.Item().Key())
			}
		}
		return nil
	}))
	must(t, plain.Close())
	restored := mustOpen(t, small(dir), quiet(guard.Rebuild))
	mustHave(t, restored, 0, 100, 200)
	mustHideNone(t, restored)
}

func TestSubscribe(t *testing.T) {
	d := mustOpen(t, small(t.TempDir()), quiet(guard.Rebuild))
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	seen := map[string]bool{}
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
	waitFor(t, "an update", func() bool {
		set(t, d, 0, 10)
		mu.Lock()
		defer mu.Unlock()
		return seen[string(number(9))]
	})
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("%v", err)
	}
	for key := range seen {
		if d.store.reserved([]byte(key)) {
			t.Errorf("the update of %q was shown", key)
		}
	}
}

func TestReservedKeys(t *testing.T) {
	for _, prefix := range []string{"", "g", "\xff\xff", guard.OwnerName + "y"} {
		g := quiet(guard.Exact)
		g.Prefix = []byte(prefix)
		d := mustOpen(t, small(t.TempDir()), g)
		set(t, d, 0, 20)
		remove(t, d, 10, 20)
		keys := [][]byte{[]byte("\x00a"), []byte("a"), []byte("f"), []byte("h"), []byte("\xfe"), []byte("\xff")}
		if prefix != "" {
			keys = append(keys, []byte(guard.OwnerName+"\x00"), []byte(guard.OwnerName+"\xff"))
		}
		must(t, d.Update(func(txn *Txn) error {
			for _, k := range keys {
				must(t, txn.Set(k, []byte("v")))
			}
			for _, key := range [][]byte{d.store.prefix, d.store.key([]byte("s")), d.store.key([]byte("any")), owner} {
				if err := txn.Set(key, nil); err != ErrReserved {
					t.Errorf("Set %q: %v", key, err)
				}
				if err := txn.Delete(key); err != ErrReserved {
					t.Errorf("Delete %q: %v", key, err)
				}
			}
			return nil
		}))
		want := keysOf(t, d)
		if slices.ContainsFunc(want, func(k []byte) bool { return bytes.Equal(k, owner) }) || len(want) < 10+len(keys) {
			t.Errorf("prefix %q: %q", prefix, want)
		}
		must(t, d.View(func(txn *Txn) error {
			for _, entry := range []string{"s\x00\x00", "s"} {
				if _, err := txn.Get(d.store.key([]byte(entry))); err != badger.ErrKeyNotFound {
					t.Errorf("Get: %v", err)
				}
			}
			it := txn.NewKeyIterator(d.store.key([]byte("s\x00\x00")), badger.DefaultIteratorOptions)
			if it.Rewind(); it.Valid() {
				t.Errorf("a key iterator shows the stamp")
			}
			it.Close()
			for _, o := range []badger.IteratorOptions{{}, {Reverse: true}, {PrefetchValues: true, PrefetchSize: 3}} {
				it := txn.NewIterator(o)
				var got [][]byte
				for it.Rewind(); it.Valid(); it.Next() {
					got = append(got, it.Item().KeyCopy(nil))
				}
				if len(got) != len(want) {
					t.Errorf("prefix %q, %+v: %d keys, not %d", prefix, o, len(got), len(want))
				}
				for i := range got {
					j := i
					if o.Reverse {
						j = len(want) - 1 - i
					}
					if !bytes.Equal(got[i], want[j]) {
						t.Errorf("prefix %q, %+v: key %d is %q", prefix, o, i, got[i])
					}
				}
				if it.Seek(d.store.key([]byte("i"))); it.Valid() && d.store.reserved(it.Item().Key()) {
					t.Errorf("prefix %q, %+v: Seek shows %q", prefix, o, it.Item().Key())
				}
				it.Close()
			}
			it = txn.NewIterator(badger.IteratorOptions{Prefix: d.store.prefix})
			if it.Rewind(); it.Valid() {
				t.Errorf("an iterator over the reserved prefix shows %q", it.Item().Key())
			}
			it.Close()
			return nil
		}))
	}
}

// The entries of transactions whose keys the filter has durably are removed.
func TestEntriesAreRemoved(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := mustOpen(t, small(t.TempDir()), often(deletes))
		set(t, d, 0, 20_000)
		remove(t, d, 0, 10_000)
		waitFor(t, "few entries", func() bool {
			must(t, d.Guard().Work())
			entries, err := d.store.Entries()
			must(t, err)
			return len(entries) < 10
		})
	})
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, small(dir), nil)
	must(t, d.Close())
	d = mustOpen(t, small(dir).WithReadOnly(true), nil)
	_, err := d.GetSequence(number(1), 1)
	for _, err := range []error{err, d.Update(func(txn *Txn) error { return txn.Set(number(1), nil) }), d.DropAll()} {
		if err != badger.ErrReadOnlyTxn {
			t.Error(err)
		}
	}
}
