package pebbleguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A loggedStore is a store whose write-ahead log (WAL) tells what the filter lacks.
type loggedStore struct {
	*store
	epochs
	dir     string
	options *pebble.Options // the program's, with hooks for the store
	lock    *pebble.Lock    // of the directory; nil if the program or Pebble takes it
	guard   atomic.Pointer[guard.Guard]
	first   atomic.Uint64 // the first file of the WAL that Pebble reads
}

func newLoggedStore(dir string, o *pebble.Options, prefix []byte) *loggedStore {
	s := &loggedStore{store: newStore(prefix, o.DisableWAL), dir: dir, options: o.Clone()}
	s.first.Store(math.MaxUint64)
	o = s.options
	if o.FS == nil {
		o.WithFSDefaults()
	}
	o.FS = watchedFS{o.FS, s}
	if o.WALFailover != nil {
		o.WALFailover.Secondary.FS = watchedFS{o.WALFailover.Secondary.FS, s}
	}
	o.WALRecoveryDirs = slices.Clone(o.WALRecoveryDirs)
	for i := range o.WALRecoveryDirs {
		o.WALRecoveryDirs[i].FS = watchedFS{o.WALRecoveryDirs[i].FS, s}
	}
	return s
}

// A watchedFS notes which files of the WAL and which OPTIONS files are opened for reading; see opening.
// When Pebble opens a store, it reads only the files of the WAL whose keys are not in tables yet: all
// files from the first such file on.
type watchedFS struct {
	vfs.FS
	store *loggedStore
}

func (w watchedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if n, _, ok := wal.ParseLogFilename(w.PathBase(name)); ok && w.store.db == nil {
		w.store.first.Store(min(w.store.first.Load(), uint64(n)))
	}
	if n := optionsNumber(w.PathBase(name)); n > 0 && w.store.db == nil {
		w.store.opened.before = n
	}
	return w.FS.Open(name, opts...)
}

// Unwrap is part of vfs.FS.
func (w watchedFS) Unwrap() vfs.FS { return w.FS }

// open opens the store.
func (s *loggedStore) open() (err error) {
	s.first.Store(math.MaxUint64) // again, since readLog has opened files
	var l pebble.EventListener
	if s.options.EventListener != nil {
		l = *s.options.EventListener
	}
	created := l.TableCreated
	l.TableCreated = func(info pebble.TableCreateInfo) {
		if g := s.guard.Load(); g != nil && info.Reason == "flushing" { // Pebble holds no lock here
			s.beforeFlush(g)
		}
		if created != nil {
			created(info)
		}
	}
	s.options.EventListener = &l
	if s.db, err = pebble.Open(s.dir, s.options); err != nil {
		return err
	}
	return s.epochs.begin(s.store)
}

// close closes the store and releases the lock.
func (s *loggedStore) close() (err error) {
	if s.db != nil {
		err = s.db.Close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// readLog reads the WAL. Call it before open: once the store is open, Pebble may remove files of the
// WAL. readLog locks the directory, since otherwise another process that has the store open could write
// to a file of the WAL that has been read already.
func (s *loggedStore) readLog() (err error) {
	if o := s.options; o.Lock == nil {
		if _, err := o.FS.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
			return nil // Pebble creates the directory
		}
		if s.lock, err = pebble.LockDirectory(s.dir, o.FS); err != nil {
			return err
		}
		o.Lock = s.lock
	}
	s.logErr = s.readFiles()
	return nil
}

// readFiles reads all files of the WAL, even files that Pebble does not need to read.
func (s *loggedStore) readFiles() error {
	logs, err := wal.Scan(s.walDirs()...)
	if err != nil {
		return err
	}
	for _, l := range logs {
		s.log = append(s.log, logged{file: uint64(l.Num)})
		if err := s.readFile(l); err != nil {
			return err
		}
	}
	return nil
}

// walDirs returns the directories in which Pebble looks for the WAL. It leaves out directories that do
// not exist yet, as when failover has just been turned on; Pebble creates them. If another directory
// were left out, epochs would be missing.
func (s *loggedStore) walDirs() []wal.Dir {
	const store = "{store_path}"
	in := func(dir string) string {
		if rest, ok := strings.CutPrefix(dir, store); ok {
			return s.dir + rest
		}
		return dir
	}
	o := s.options
	dirs := []wal.Dir{{FS: o.FS, Dirname: s.dir}}
	if o.WALDir != "" {
		dirs[0].Dirname = in(o.WALDir)
	}
	if o.WALFailover != nil {
		dirs = append(dirs, o.WALFailover.Secondary)
	}
	dirs = append(dirs, o.WALRecoveryDirs...)
	for i := range dirs {
		dirs[i].Dirname = in(dirs[i].Dirname)
	}
	return slices.DeleteFunc(dirs, func(d wal.Dir) bool {
		_, err := d.FS.Stat(d.Dirname)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// readFile reads a file of the WAL up to the place where Pebble stops. A damaged record ends the file.
// If the file must not end there, Pebble refuses to open the store.
func (s *loggedStore) readFile(l wal.LogicalLog) (err error) {
	r := l.OpenForRead()
	defer func() { err = errors.Join(err, r.Close()) }()
	var batch bytes.Buffer
	for {
		batch.Reset()
		one, _, err := r.NextRecord()
		if err == nil {
			_, err = io.Copy(&batch, one)
		}
		if errors.Is(err, io.EOF) || record.IsInvalidRecord(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for ops := batchrepr.Read(batch.Bytes()); ; {
			kind, key, value, ok, err := ops.Next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			switch kind {
			case pebble.InternalKeyKindSet, pebble.InternalKeyKindSetWithDelete, pebble.InternalKeyKindMerge:
				if !s.reserved(key) {
					last := &s.log[len(s.log)-1]
					last.keys = append(binary.AppendUvarint(last.keys, uint64(len(key))), key...)
				} else if bytes.Equal(s.entry(key), epochEntry) {
					s.log = append(s.log, logged{file: uint64(l.Num), epoch: decodeEpoch(value)})
				}
			}
		}
	}
}

// narrow removes from g.Mode the permissions that the files of the store lack. A new store gets the
// permissions that the umask leaves, and so does its filter.
func (s *loggedStore) narrow(g *guard.Options) error {
	fsys := s.options.FS
	names, err := fsys.List(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		path := fsys.PathJoin(s.dir, name)
		info, err := fsys.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the process that has the store open has removed it
		}
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && !strings.HasPrefix(path, g.Path) {
			g.Narrow(info.Mode())
		}
	}
	return err
}
