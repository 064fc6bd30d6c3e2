package guard_test

import "github.com/mmapfilter/mmapfilter/mmapfilter/guard"

// The essay of the package shows what follows.

type DB struct {
	kv *kv
	g  *guard.Guard
}

func (d *DB) Put(key, value []byte) error {
	tx := d.g.Begin()
	tx.Put(key)
	c := tx.Prepare()
	if err := d.kv.Update(func(t *kvTx) { t.Set("keys", key, value); change(t, c) }); err != nil {
		tx.Done(guard.Unknown) // the error does not say that nothing has happened
		return err
	}
	tx.Done(guard.Committed)
	return nil
}

func (d *DB) Get(key []byte) (value []byte, found bool) {
	if d.g.Absent(key) {
		return nil, false
	}
	value, found = d.kv.Get("keys", key)
	d.g.Found(key, found)
	return value, found
}

func change(t *kvTx, c guard.Changes) {
	for _, r := range c.Remove {
		t.DeleteRange("guard", r.From, r.To)
	}
	for _, e := range c.Set {
		t.Set("guard", e.Key, e.Value)
	}
}

// The rest is the Store that the guard sees.

func (d *DB) Write(c guard.Changes) error { return d.kv.Update(func(t *kvTx) { change(t, c) }) }

func (d *DB) Entries() (entries []guard.Entry, err error) {
	for key, value := range d.kv.Snapshot("guard").Pairs {
		entries = append(entries, guard.Entry{Key: key, Value: value})
	}
	return entries, nil
}

func (d *DB) Snapshot() (guard.Snapshot, error) {
	s := d.kv.Snapshot("keys")
	return guard.Snapshot{Keys: s.Keys, Close: s.Close}, nil
}

func (d *DB) Has(key []byte) (bool, error) { return d.kv.Has("keys", key), nil }
