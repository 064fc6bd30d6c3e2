package badgerguard

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Position is part of guard.Ordered. It returns the version of the newest transaction that a reader
// sees. Badger gives a transaction its version when its commit begins, after the guard's Prepare. A
// reader waits for all transactions up to the reader's version. (badger.DB.MaxVersion does not wait,
// and races with writes.)
func (s *store) Position() (uint64, error) {
	if s.db.IsClosed() {
		return 0, badger.ErrDBClosed
	}
	if s.begun.Load() {
		s.setNote() // if this fails, Since yields more keys
	}
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	return txn.ReadTs(), nil
}

func (s *store) setNote() {
	s.drop.RLock()
	defer s.drop.RUnlock()
	_ = s.db.Update(func(txn *badger.Txn) error { return txn.SetEntry(s.note()) })
}

// Untouched is part of guard.Watched. If Options.Deletes is Rebuild, other programs may put keys: Since
// yields them.
func (s *store) Untouched() error {
	if s.noted == 0 || s.exact && s.noted != s.opened {
		return guard.ErrTouched
	}
	return nil
}

// Since is part of guard.Ordered. It does not yield keys that have been deleted or have expired.
func (s *store) Since(at uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s.drop.RLock()
		defer s.drop.RUnlock()
		txn := s.db.NewTransaction(false)
		defer txn.Discard()
		if at = min(at, s.noted); txn.ReadTs() <= at {
			return // no later versions, as when the last guard was closed cleanly
		}
		// An iterator that meets a damaged block ends as if there were no more keys.
		if err := s.verifySince(at); err != nil {
			yield(nil, err)
			return
		}
		it := txn.NewIterator(badger.IteratorOptions{SinceTs: at})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if key := it.Item().Key(); !s.reserved(key) && !yield(key, nil) {
				return
			}
		}
	}
}

// verifySince reads all blocks of the tables that have keys with versions after at. These are few
// tables: those of the last memtables. Badger itself can only verify all tables at once, which may take
// long; verifySince does that only if the tables are encrypted.
func (s *store) verifySince(at uint64) (err error) {
	newer := slices.DeleteFunc(s.db.Tables(), func(t badger.TableInfo) bool { return t.MaxVersion <= at })
	if len(newer) == 0 {
		return nil
	}
	o := s.db.Opts()
	if len(o.EncryptionKey) > 0 {
		return s.verify()
	}
	manifest, err := readManifest(o)
	if err != nil {
		return err
	}
	for _, t := range newer {
		m, there := manifest.Tables[t.ID]
		if !there {
			continue // a compaction has read its blocks and removed it
		}
		if err := verifyTable(t.ID, o.Dir, &table.Options{BlockSize: o.BlockSize, Compression: m.Compression}); err != nil {
			return err
		}
	}
	return nil
}

func readManifest(o badger.Options) (m badger.Manifest, err error) {
	file, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if err != nil {
		return m, err
	}
	m, _, err = badger.ReplayManifestFile(file, o.ExternalMagicVersion, o)
	return m, errors.Join(err, file.Close())
}

// verifyTable reads all blocks of a table, unless a compaction has removed it.
func verifyTable(id uint64, dir string, o *table.Options) (err error) {
	data, err := os.ReadFile(table.NewFilename(id, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer recoverDamage(&err)
	t, err := table.OpenInMemoryTable(data, id, o)
	if err != nil {
		return err
	}
	return t.VerifyChecksum()
}

// recoverDamage turns a panic of Badger into an error: some kinds of damage make Badger
// panic.
func recoverDamage(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("badgerguard: the store is damaged: %v", r)
	}
}
