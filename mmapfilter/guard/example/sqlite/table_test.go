package sqlite

import (
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guardtest"
)

var engine = guardtest.Engine{
	Filter: filterName,
	Outbox: true,
	Open: func(dir string, o *guard.Options, readOnly bool) (guardtest.DB, error) {
		if readOnly {
			return nil, errors.ErrUnsupported
		}
		t, err := open(dir, o)
		return testTable{t, dir}, err
	},
}

func TestMain(m *testing.M) { guardtest.Main(m, engine) }

func TestModel(t *testing.T)     { guardtest.Model(t, engine) }
func TestKill(t *testing.T)      { guardtest.Kill(t, engine) }
func TestFiles(t *testing.T)     { guardtest.Files(t, engine) }
func TestOnce(t *testing.T)      { guardtest.Once(t, engine) }
func TestBatch(t *testing.T)     { guardtest.Batch(t, engine) }
func TestOldReader(t *testing.T) { guardtest.Old(t, engine) }

// A testTable is a table in a directory.
type testTable struct {
	*table
	dir string
}

func (t testTable) Guard() *guard.Guard            { return t.guard }
func (t testTable) GuardStats() guard.Stats        { return t.guard.Stats() }
func (t testTable) Close() error                   { return t.close() }
func (t testTable) Copy(to string) error           { return guardtest.CopyDir(to, t.dir) }
func (t testTable) Get(key string) ([]byte, error) { return there(t.get([]byte(key))) }
func (t testTable) Has(key string) (bool, error)   { return has(t.Get(key)) }
func (t testTable) Step(*guardtest.Worker) error   { return nil }
func (t testTable) AbsentBatch(keys []string) []bool {
	return guardtest.AbsentBatch(keys, t.guard.AbsentBatch)
}

func (t testTable) Reader() (guardtest.Reader, error) {
	r, err := t.begin()
	return testReader{r}, err
}

// there returns nil if there is no row.
func there(value []byte, err error) ([]byte, error) {
	if err == sql.ErrNoRows {
		return nil, nil
	}
	return value, err
}

// has returns what Has returns, from what Get returns.
func has(value []byte, err error) (bool, error) { return value != nil, err }

type testReader struct{ *reader }

func (r testReader) Close() error                   { return r.tx.Rollback() }
func (r testReader) Get(key string) ([]byte, error) { return there(r.get([]byte(key))) }
func (r testReader) Has(key string) (bool, error)   { return has(r.Get(key)) }

func (r testReader) Stored(key string) (there bool, err error) {
	err = r.tx.QueryRow("SELECT count(*) FROM pairs WHERE key = ?", []byte(key)).Scan(&there)
	return there, err
}

func (r testReader) Keys() (keys []string, err error) {
	rows, err := r.tx.Query("SELECT key FROM pairs")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
	return keys, rows.Err()
}

// A testTx collects the changes of a transaction.
type testTx struct {
	table  testTable
	values map[string][]byte
}

func (t testTx) Set(key, value string) error { t.values[key] = []byte(value); return nil }
func (t testTx) Delete(key string) error     { t.values[key] = nil; return nil }

func (t testTx) Has(key string) (bool, error) { return has(t.Get(key)) }

func (t testTx) Get(key string) ([]byte, error) {
	if value, ok := t.values[key]; ok {
		return value, nil
	}
	return t.table.Get(key)
}

func (t testTable) Do(_ *rand.Rand, work func(guardtest.Tx) error) error {
	tx := testTx{t, map[string][]byte{}}
	if err := work(tx); err != nil {
		return err
	}
	var keys, values [][]byte
	for _, key := range slices.Sorted(maps.Keys(tx.values)) {
		keys, values = append(keys, []byte(key)), append(values, tx.values[key])
	}
	return t.update(keys, values)
}
