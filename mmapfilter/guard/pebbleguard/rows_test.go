package pebbleguard

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

// table writes an sstable.
func table(t *testing.T, name string, do func(w *sstable.Writer) error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, writeTable(path, do))
	return path
}

func writeTable(path string, do func(w *sstable.Writer) error) error {
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{TableFormat: sstable.TableFormatPebblev4})
	return errors.Join(do(w), w.Close())
}

func setAll(keys ...string) func(w *sstable.Writer) error {
	return func(w *sstable.Writer) error {
		slices.Sort(keys)
		for _, k := range keys {
			if err := w.Set([]byte(k), []byte("v")); err != nil {
				return err
			}
		}
		return nil
	}
}

// rows are the rows of the table in the documentation of the package. Each begins with the keys a, b,
// c.
var rows = []struct {
	name string
	do   func(t *testing.T, d *DB) error
	want string // one letter a key
	err  error
}{
	{"Set", func(t *testing.T, d *DB) error { return d.Set(key("d"), nil, pebble.NoSync) }, "abcd", nil},
	{"Set again", func(t *testing.T, d *DB) error { return d.Set(key("a"), nil, nil) }, "abc", nil},
	{"Merge", func(t *testing.T, d *DB) error {
		return errors.Join(d.Merge(key("d"), key("x"), nil), d.Merge(key("d"), key("y"), nil), d.Merge(key("a"), key("y"), nil))
	}, "abcd", nil},
	{"Delete", func(t *testing.T, d *DB) error { return errors.Join(d.Delete(key("a"), nil), d.Delete(key("x"), nil)) }, "bc", nil},
	{"Delete and Set", func(t *testing.T, d *DB) error {
		return errors.Join(d.Delete(key("a"), nil), d.guard.Work(), d.Set(key("a"), nil, nil))
	}, "abc", nil},
	{"DeleteSized", func(t *testing.T, d *DB) error { return d.DeleteSized(key("a"), 1, nil) }, "bc", nil},
	{"SingleDelete", func(t *testing.T, d *DB) error { return d.SingleDelete(key("a"), nil) }, "bc", nil},
	{"SingleDelete and Set", func(t *testing.T, d *DB) error {
		return errors.Join(d.SingleDelete(key("a"), nil), d.guard.Work(), d.Set(key("a"), nil, nil), d.Flush(), d.Compact(t.Context(), key("a"), key("z"), false))
	}, "abc", nil},
	{"DeleteRange", func(t *testing.T, d *DB) error { return d.DeleteRange(key("a"), key("c"), nil) }, "c", nil},
	{"DeleteRange and Set", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		return errors.Join(b.Set(key("c"), nil, nil), b.DeleteRange(key("a"), key("d"), nil), b.Set(key("b"), nil, nil), b.Commit(nil))
	}, "b", nil},
	{"Excise", func(t *testing.T, d *DB) error {
		return d.Excise(t.Context(), pebble.KeyRange{Start: key("a"), End: key("c")})
	}, "c", nil},
	{"Ingest", func(t *testing.T, d *DB) error {
		return d.Ingest(t.Context(), []string{table(t, "1", setAll("a", "d")), table(t, "2", setAll("e", "f"))})
	}, "abcdef", nil},
	{"Ingest of nothing", func(t *testing.T, d *DB) error { return d.Ingest(t.Context(), nil) }, "abc", nil},
	{"Ingest of all kinds", func(t *testing.T, d *DB) error {
		return d.Ingest(t.Context(), []string{table(t, "1", func(w *sstable.Writer) error {
			return errors.Join(w.Delete(key("a")), w.DeleteRange(key("b"), key("x")), w.Merge(key("d"), key("v")), w.Set(key("e"), nil))
		})})
	}, "de", nil},
	{"Ingest of tombstones", func(t *testing.T, d *DB) error {
		return d.Ingest(t.Context(), []string{table(t, "1", func(w *sstable.Writer) error { return w.Delete(key("a")) })})
	}, "bc", nil},
	{"Ingest of a range delete", func(t *testing.T, d *DB) error {
		return d.Ingest(t.Context(), []string{table(t, "1", func(w *sstable.Writer) error { return w.DeleteRange(key("b"), key("x")) })})
	}, "a", nil},
	{"Ingest of a range key", func(t *testing.T, d *DB) error {
		return d.Ingest(t.Context(), []string{table(t, "1", func(w *sstable.Writer) error { return w.RangeKeySet(key("b"), key("x"), nil, nil) })})
	}, "abc", nil},
	{"IngestAndExcise", func(t *testing.T, d *DB) error {
		_, err := d.IngestAndExcise(t.Context(), []string{table(t, "1", setAll("b", "d"))}, nil, nil, pebble.KeyRange{Start: key("a"), End: key("e")})
		return err
	}, "bd", nil},
	{"IngestAndExcise of shared files", func(t *testing.T, d *DB) error {
		_, err := d.IngestAndExcise(t.Context(), nil, []pebble.SharedSSTMeta{{}}, nil, pebble.KeyRange{Start: key("a"), End: key("e")})
		return err
	}, "abc", ErrNotFollowed},
	{"IngestAndExcise of external files", func(t *testing.T, d *DB) error {
		_, err := d.IngestAndExcise(t.Context(), nil, nil, []pebble.ExternalFile{{}}, pebble.KeyRange{Start: key("a"), End: key("e")})
		return err
	}, "abc", ErrNotFollowed},
	{"IngestExternalFiles", func(t *testing.T, d *DB) error {
		_, err := d.IngestExternalFiles(t.Context(), []pebble.ExternalFile{{}})
		return err
	}, "abc", ErrNotFollowed},
	{"LogData", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		return errors.Join(d.LogData(key(guardPrefix), nil), b.LogData(key(guardPrefix), nil), b.Commit(nil))
	}, "abc", nil},
	{"RangeKeys", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		return errors.Join(d.RangeKeySet(key("a"), key("z"), nil, nil, nil), d.RangeKeyUnset(key("b"), key("c"), nil, nil), d.RangeKeyDelete(key("c"), key("d"), nil),
			b.RangeKeySet(key("a"), key("z"), nil, nil, nil), b.Commit(nil))
	}, "abc", nil},
	{"Batch.SetRepr", func(t *testing.T, d *DB) error {
		from := d.NewBatch()
		defer from.Close()
		if err := errors.Join(from.Set(key("d"), nil, nil), from.Delete(key("a"), nil)); err != nil {
			return err
		}
		repr := bytes.Clone(from.Repr())
		before := bytes.Clone(repr)
		for range 2 { // the same data twice, since a commit does not change it
			b := d.NewBatch()
			defer b.Close()
			if err := errors.Join(b.SetRepr(repr), b.Commit(nil)); err != nil {
				return err
			}
		}
		if !bytes.Equal(before, repr) {
			return errors.New("the data has changed")
		}
		return nil
	}, "bcd", nil},
	{"Batch.Apply", func(t *testing.T, d *DB) error {
		a, b := d.NewIndexedBatch(), d.NewBatchWithSize(100)
		defer a.Close()
		defer b.Close()
		return errors.Join(a.Set(key("d"), nil, nil), b.Set(key("e"), nil, nil), b.Apply(a, nil), d.Apply(b, nil))
	}, "abcde", nil},
	{"deferred operations", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		one := func(o *pebble.DeferredBatchOp, k string) error {
			copy(o.Key, k)
			return o.Finish()
		}
		return errors.Join(one(b.SetDeferred(1, 0), "d"), one(b.MergeDeferred(1, 0), "e"), one(b.DeleteDeferred(1), "a"),
			one(b.DeleteSizedDeferred(1, 1), "b"), one(b.SingleDeleteDeferred(1), "c"), b.Commit(nil))
	}, "de", nil},
	{"DeleteRangeDeferred", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		r := b.DeleteRangeDeferred(1, 1)
		copy(r.Key, "a")
		copy(r.Value, "c")
		return errors.Join(r.Finish(), b.Commit(nil))
	}, "c", nil},
	{"AddInternalKey", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		set, del := pebble.MakeInternalKey(key("d"), 0, pebble.InternalKeyKindSet), pebble.MakeInternalKey(key("a"), 0, pebble.InternalKeyKindDelete)
		return errors.Join(b.AddInternalKey(&set, nil, nil), b.AddInternalKey(&del, nil, nil), b.Commit(nil))
	}, "bcd", nil},
	{"AddInternalKey of an unknown kind", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		k := pebble.MakeInternalKey(key("d"), 0, pebble.InternalKeyKindIngestSST)
		return errors.Join(b.AddInternalKey(&k, nil, nil), b.Commit(nil))
	}, "abc", ErrNotFollowed},
	{"ApplyNoSyncWait", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		return errors.Join(b.Set(key("d"), nil, nil), d.ApplyNoSyncWait(b, pebble.Sync), b.SyncWait())
	}, "abcd", nil},
	{"an empty batch", func(t *testing.T, d *DB) error {
		b := d.NewBatch()
		defer b.Close()
		return b.Commit(nil)
	}, "abc", nil},
	{"Checkpoint", func(t *testing.T, d *DB) error {
		copied := filepath.Join(t.TempDir(), "copy")
		must(t, errors.Join(d.LogData(nil, pebble.Sync), d.Checkpoint(copied)))
		c := open(t, copied, newest(), nil)
		if n, s := guardtest.MustKeep(t, c), c.GuardStats(); n != 3 || s.Err != "" || s.Rebuilds == 0 {
			t.Errorf("%d keys in the copy: %+v", n, s)
		}
		return d.Delete(key("a"), nil)
	}, "bc", nil},
	{"Flush, Compact", func(t *testing.T, d *DB) error {
		return errors.Join(d.Delete(key("a"), nil), d.Flush(), d.Compact(t.Context(), key("a"), key("z"), true))
	}, "bc", nil},
}

const guardPrefix = "\x00mmapfilter\x00"

// TestRows covers G4: it does the operations of each row of the table.
func TestRows(t *testing.T) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			guardtest.Each(t, func(t *testing.T, deletes guard.DeleteMode) {
				d := open(t, t.TempDir(), newest(), guardtest.Quiet(deletes))
				for _, k := range []string{"a", "b", "c"} {
					must(t, d.Set(key(k), []byte("v"), pebble.NoSync))
				}
				if err := row.do(t, d.DB); !errors.Is(err, row.err) || err != nil && row.err == nil {
					t.Fatalf("%v, not %v", err, row.err)
				}
				for i := range len(row.want) {
					if there, err := d.Has(row.want[i : i+1]); !there || err != nil {
						t.Errorf("%q: %t, %v", row.want[i], there, err)
					}
				}
				if n := guardtest.MustKeep(t, d); n != len(row.want) {
					t.Errorf("%d keys, not %d", n, len(row.want))
				}
				guardtest.MustKnow(t, d, "nowhere", false)
			})
		})
	}
}

// TestReserved tries to write to the keys of the guard in all ways.
func TestReserved(t *testing.T) {
	d, ctx, k := open(t, t.TempDir(), newest(), nil), t.Context(), key(guardPrefix+"s")
	internal := pebble.MakeInternalKey(k, 0, pebble.InternalKeyKindSet)
	all := pebble.KeyRange{Start: []byte{0}, End: key("z")}
	batch := func(do func(b *Batch) error) func(d *DB) error {
		return func(d *DB) error {
			b := d.NewBatch()
			defer b.Close()
			if err := errors.Join(b.Set(key("a"), nil, nil), do(b)); err != nil {
				return err
			}
			return b.Commit(nil)
		}
	}
	file := func(do func(w *sstable.Writer) error) func(d *DB) error {
		path := table(t, "1", do)
		return func(d *DB) error { return d.Ingest(ctx, []string{path}) }
	}
	for name, do := range map[string]func(d *DB) error{
		"Set":           func(d *DB) error { return d.Set(k, nil, nil) },
		"Merge":         func(d *DB) error { return d.Merge(k, nil, nil) },
		"Delete":        func(d *DB) error { return d.Delete(k, nil) },
		"DeleteSized":   func(d *DB) error { return d.DeleteSized(k, 1, nil) },
		"SingleDelete":  func(d *DB) error { return d.SingleDelete(k, nil) },
		"DeleteRange":   func(d *DB) error { return d.DeleteRange(nil, key("z"), nil) },
		"DeleteRange 1": func(d *DB) error { return d.DeleteRange(k, append(k[:len(k):len(k)], 0), nil) },
		"Excise":        func(d *DB) error { return d.Excise(ctx, all) },
		"IngestAndExcise": func(d *DB) error {
			_, err := d.IngestAndExcise(ctx, nil, nil, nil, all)
			return err
		},
		"Ingest":                   file(setAll(string(k))),
		"Ingest of a tombstone":    file(func(w *sstable.Writer) error { return w.Delete(k) }),
		"Ingest of a range delete": file(func(w *sstable.Writer) error { return w.DeleteRange(k, key("z")) }),
		"Batch.Set":                batch(func(b *Batch) error { return b.Set(k, nil, nil) }),
		"Batch.Merge":              batch(func(b *Batch) error { return b.Merge(k, nil, nil) }),
		"Batch.Delete":             batch(func(b *Batch) error { return b.Delete(k, nil) }),
		"Batch.SingleDelete":       batch(func(b *Batch) error { return b.SingleDelete(k, nil) }),
		"Batch.DeleteRange":        batch(func(b *Batch) error { return b.DeleteRange([]byte{0}, []byte{1}, nil) }),
		"Batch.AddInternalKey":     batch(func(b *Batch) error { return b.AddInternalKey(&internal, nil, nil) }),
	} {
		before, err := d.store.Entries()
		must(t, err)
		if err := do(d.DB); !errors.Is(err, ErrReserved) {
			t.Errorf("%s: %v", name, err)
		}
		after, err := d.store.Entries()
		must(t, err)
		if len(before) == 0 || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: %q, not %q", name, after, before)
		}
	}
	if n := guardtest.MustKeep(t, d); n != 0 {
		t.Errorf("%d keys", n)
	}
}
