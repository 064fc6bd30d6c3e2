package badgerguard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Files are the files that a store with SyncWrites off writes to. badger.DB.Sync syncs the log of
// the newest memtable and the newest value log, but not the logs of memtables that wait to be
// flushed: after a power loss, an older transaction could be missing while a newer one is
// there.
type files struct {
	dir, valueDir string
	mu            struct {
		sync.Mutex
		last string // the newest value log when the files were last synced
	}
}

// sync makes all visible transactions durable.
func (f *files) sync(db *badger.DB) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := db.Sync(); err != nil {
		return err
	}
	if err := each(f.dir, ".mem", syncFile); err != nil {
		return err
	}
	last := f.mu.last
	if err := each(f.valueDir, ".vlog", func(path string) error {
		name := filepath.Base(path)
		if name < f.mu.last {
			return nil
		}
		last = name
		return syncFile(path)
	}); err != nil {
		return err
	}
	f.mu.last = last
	if err := osfile.SyncDir(f.dir); err != nil || f.dir == f.valueDir {
		return err
	}
	return osfile.SyncDir(f.valueDir)
}

// each calls do for the files with an extension, in the order of their names.
func each(dir, extension string, do func(path string) error) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), extension) {
			if err := do(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncFile syncs a file. Badger may have removed the file after moving its content to
// another one.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
