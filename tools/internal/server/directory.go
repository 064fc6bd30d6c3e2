package server

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A key is a filter by the name that clients know.
type key struct {
	name string
	path string // of its file

	expires atomic.Int64 // when it is removed, in milliseconds since 1970; 0: never
	used    atomic.Int64 // when a command has last asked for it, likewise
	broken  atomic.Bool  // a write has failed: it must be closed and opened again

	mu     sync.RWMutex
	gone   bool               // removed: no bucket has it
	filter *mmapfilter.Filter // nil while it is closed
	settings
}

// buckets is in how many parts the names are kept. SCAN takes whole buckets, so what is there all the
// while is in its answers exactly once.
const buckets = 1024

type bucket struct {
	sync.RWMutex
	keys map[string]*key
}

// A directory has the keys of a server.
type directory struct {
	path    string
	lock    *os.File
	logf    func(format string, args ...any)
	sync    bool // see Config.Sync
	most    int  // filters that are open at once
	seed    maphash.Seed
	buckets [buckets]bucket

	renames   sync.Mutex // one goes on at a time
	deadlines sync.Mutex // one is written at a time

	mu    sync.Mutex
	taken int               // of most: open, being opened or being closed
	open  map[*key]struct{} // those that are open
}

func openDirectory(path string, most int, logf func(string, ...any)) (*directory, error) {
	lock, err := lockDirectory(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path, lock: lock, logf: logf, most: most, seed: maphash.MakeSeed(), open: map[*key]struct{}{}}
	if err := d.readNames(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// readNames finds the keys, and removes what a crash has left of others.
func (d *directory) readNames() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := keyName(e.Name())
		if ok && !e.IsDir() {
			d.bucket(name).put(&key{name: name, path: filepath.Join(d.path, e.Name())})
		}
	}
	for _, e := range entries {
		file, what, ok := strings.Cut(e.Name(), suffix+".")
		name, known := keyName(file + suffix)
		if !ok || !known {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		k := d.bucket(name).get(name)
		switch {
		case what == "expire.new", k == nil && (what == "expire" || what == "hashes" || what == "stash"):
			err = os.Remove(path)
		case k != nil && what == "expire":
			err = k.readDeadline()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) get(name string) *key {
	b.RLock()
	defer b.RUnlock()
	return b.keys[name]
}

func (b *bucket) put(k *key) {
	if b.keys == nil {
		b.keys = map[string]*key{}
	}
	b.keys[k.name] = k
}

func (d *directory) bucket(name string) *bucket {
	return &d.buckets[maphash.String(d.seed, name)%buckets]
}

// find returns a key, or nil if there is none, or its time is over.
func (d *directory) find(name string) *key {
	k := d.bucket(name).get(name)
	if k == nil || !k.overdue() {
		return k
	}
	if _, err := d.remove(k); err != nil {
		d.logf("remove %s: %v", k.path, err)
	}
	return nil
}

// get returns a key whose filter is open, and stays so until the caller calls k.mu.RUnlock.
func (d *directory) get(name string, want kind) (*key, error) {
	for {
		k := d.find(name)
		if k == nil {
			return nil, errMissing
		}
		k.mu.RLock()
		if k.filter != nil && !k.broken.Load() {
			if want != anyKind && k.kind != want {
				k.mu.RUnlock()
				return nil, errWrongType
			}
			k.used.Store(time.Now().UnixMilli())
			return k, nil
		}
		k.mu.RUnlock()
		if err := d.load(k); err != nil {
			return nil, err
		}
	}
}

// getOrCreate is get, but makes the key if it is missing.
func (d *directory) getOrCreate(name string, s settings) (*key, error) {
	for {
		k, err := d.get(name, s.kind)
		if !errors.Is(err, errMissing) {
			return k, err
		}
		if err := d.create(name, s); err != nil && !errors.Is(err, errExists) {
			return nil, err
		}
	}
}

// create makes a key and its file.
func (d *directory) create(name string, s settings) error {
	file, err := fileName(name)
	if err != nil {
		return err
	}
	if d.find(name) != nil {
		return errExists
	}
	d.room()
	k := &key{name: name, path: filepath.Join(d.path, file), settings: s}
	k.mu.Lock()
	defer k.mu.Unlock()
	b := d.bucket(name)
	b.Lock()
	if b.keys[name] != nil {
		b.Unlock()
		d.leave(nil)
		return errExists
	}
	b.put(k) // others wait for k.mu
	b.Unlock()
	if k.filter, err = mmapfilter.OpenOrCreate(k.path, s.options(), d.openOptions(k)); err != nil {
		k.filter, k.gone = nil, true
		d.forget(k)
		d.leave(nil)
		return err
	}
	d.opened(k)
	return nil
}

// load opens the filter of a key. It does nothing if that is open, or the key is gone.
func (d *directory) load(k *key) error {
	d.room()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken.Swap(false) && k.filter != nil {
		d.close(k)
	}
	if k.gone || k.filter != nil {
		d.leave(nil)
		return nil
	}
	f, err := mmapfilter.Open(k.path, d.openOptions(k))
	if err != nil {
		d.leave(nil)
		if errors.Is(err, fs.ErrNotExist) { // somebody has removed it
			k.gone = true
			d.forget(k)
			return nil
		}
		return err
	}
	k.filter, k.settings = f, settingsOf(f)
	d.opened(k)
	return nil
}

// openOptions has what a filter does by itself report its errors.
func (d *directory) openOptions(k *key) *mmapfilter.OpenOptions {
	return &mmapfilter.OpenOptions{OnError: func(err error) { d.logf("%s: %v", k.path, err) }}
}

// opened notes that the filter of k is open.
func (d *directory) opened(k *key) {
	k.used.Store(time.Now().UnixMilli())
	d.mu.Lock()
	d.open[k] = struct{}{}
	d.mu.Unlock()
}

// room waits until there are descriptors for one filter more, and takes them. It closes the filter that
// has not been used for longest among those that no command uses now.
func (d *directory) room() {
	for {
		d.mu.Lock()
		if d.taken < d.most {
			d.taken++
			d.mu.Unlock()
			return
		}
		var oldest *key // locked
		for k := range d.open {
			if (oldest == nil || k.used.Load() < oldest.used.Load()) && k.mu.TryLock() {
				if oldest != nil {
					oldest.mu.Unlock()
				}
				oldest = k
			}
		}
		d.mu.Unlock()
		if oldest == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		d.close(oldest)
		oldest.mu.Unlock()
	}
}

// leave gives back what room took, for the filter of k, or for one that was not opened.
func (d *directory) leave(k *key) {
	d.mu.Lock()
	delete(d.open, k)
	d.taken--
	d.mu.Unlock()
}

// close closes the filter of k if it is open. If that fails, what was answered is in its log, and the
// next open finds it. REQUIRES: k.mu
func (d *directory) close(k *key) {
	if k.filter == nil {
		return
	}
	if err := k.filter.Close(); err != nil {
		d.logf("close %s: %v", k.path, err)
	}
	k.filter = nil
	d.leave(k)
}

// remove removes a key and its files, the filter itself first: the others mean nothing without it.
func (d *directory) remove(k *key) (removed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return false, nil
	}
	d.close(k)
	for _, beside := range []string{"", ".hashes", ".stash", ".stash.new", ".expire"} {
		if err := os.Remove(k.path + beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	k.gone = true
	d.forget(k)
	return true, d.syncNames()
}

// forget takes a key out of its bucket.
func (d *directory) forget(k *key) {
	b := d.bucket(k.name)
	b.Lock()
	delete(b.keys, k.name)
	b.Unlock()
}

// syncNames makes names durable, if each write is to be.
func (d *directory) syncNames() error {
	if !d.sync {
		return nil
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
