package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A key is a filter, under the name that clients use for it.
type key struct {
	name string
	path string // of its file

	expires atomic.Int64 // when it is removed, in milliseconds since 1970; 0: never
	used    atomic.Int64 // when a command last asked for the key, in milliseconds since 1970
	stuck   atomic.Bool  // a write takes long, for example because the filter has no room; others may, too

	mu     sync.RWMutex
	fresh  bool               // the file does not exist yet
	gone   bool               // removed: no name leads to it
	filter *mmapfilter.Filter // nil while it is closed
	lost   error              // why a close failed, until the filter is opened again: writes may not be durable
	settings
}

// A directory has the keys of a server.
type directory struct {
	path string
	logf func(format string, args ...any)
	keys sync.Map // from names to *key

	most    int // filters that are open at once
	mu      sync.Mutex
	taken   int               // how many of most are open, being opened or being closed
	closing int               // how many of taken closeOldest is closing
	open    map[*key]struct{} // keys whose filters are open

	files   *os.File    // the directory itself, locked: nobody else serves it
	names   sync.Mutex  // a sync of files holds it
	changed bool        // since the last sync. REQUIRES: names
	removed []*os.File  // filters without a name, whose readers do not know it yet. REQUIRES: names
	untold  atomic.Bool // there are such filters

	renames   sync.Mutex // only a rename locks two keys
	deadlines sync.Mutex // see setDeadline

	dumps dumps
}

func openDirectory(path string, most int, logf func(string, ...any)) (*directory, error) {
	files, err := lockDirectory(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path, logf: logf, most: most, open: map[*key]struct{}{}, files: files,
		dumps: dumps{last: time.Now().Unix() % (1 << dumpBits), dumps: map[int64]*dump{}}}
	if err := d.readNames(); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return d, nil
}

// readNames finds the keys, and removes files of removed keys that a crash has left.
func (d *directory) readNames() error {
	err := os.RemoveAll(filepath.Join(d.path, newFiles))
	if err == nil {
		err = os.Mkdir(filepath.Join(d.path, newFiles), 0o755)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name, ok := keyName(e.Name()); ok && !e.IsDir() {
			d.keys.Store(name, &key{name: name, path: filepath.Join(d.path, e.Name())})
		}
	}
	for _, e := range entries {
		name, what := fileBeside(e.Name())
		found, known := d.keys.Load(name)
		switch {
		case !known && (what == "expire" || what == "hashes" || what == "stash"):
			err = os.Remove(filepath.Join(d.path, e.Name()))
		case known && what == "expire":
			err = found.(*key).readDeadline()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// all returns the keys, including those whose time is over.
func (d *directory) all() (all []*key) {
	d.keys.Range(func(_, k any) bool {
		all = append(all, k.(*key))
		return true
	})
	return all
}

// find returns a key, or nil if there is none or its time is over.
func (d *directory) find(name string) *key {
	k, err := d.findOr(name)
	if err != nil {
		d.logf("%v", err)
	}
	return k
}

// findOr is find, and says why a key whose time is over cannot be removed.
func (d *directory) findOr(name string) (*key, error) {
	for {
		found, _ := d.keys.Load(name)
		k, _ := found.(*key)
		if k == nil || !k.overdue() {
			return k, nil
		}
		if _, err := d.remove(k, true); err != nil {
			return nil, err
		}
	}
}

// get returns a key with an open filter, which stays open until the caller calls k.mu.RUnlock. If there
// is no such key, get makes one with the settings s, unless s is nil.
func (d *directory) get(name string, want kind, s *settings) (*key, error) {
	for {
		k := d.find(name)
		if k == nil {
			if s == nil {
				return nil, errMissing
			}
			if err := d.create(name, *s); err != nil && err != errExists && err != errMissing {
				return nil, err
			}
			continue
		}
		k.mu.RLock()
		if k.ready() {
			return k.use(want)
		}
		k.mu.RUnlock()
		if err := d.load(k); err != nil && err != errMissing {
			return nil, err
		}
	}
}

// ready reports whether the filter is open and works. After an error, such as a failed write, or a fault
// where the file was cut short, it must be closed and opened again. REQUIRES: k.mu.RLock
func (k *key) ready() bool { return k.filter != nil && k.filter.Err() == nil }

// use returns k if it is of the kind that a command wants. Otherwise it unlocks k and returns an
// error. REQUIRES: k.mu.RLock
func (k *key) use(want kind) (*key, error) {
	if want != anyKind && k.kind != want {
		k.mu.RUnlock()
		return nil, errWrongType
	}
	k.used.Store(time.Now().UnixMilli())
	return k, nil
}

// lockOpen opens the filter of a key, if it is closed, and locks the key.
func (d *directory) lockOpen(k *key) error {
	for {
		if err := d.load(k); err != nil {
			return err
		}
		if k.mu.Lock(); k.filter != nil {
			return nil
		}
		k.mu.Unlock()
	}
}

// create makes a key and its file.
func (d *directory) create(name string, s settings) error {
	file, err := fileName(name)
	if err != nil {
		return err
	}
	if found, err := d.findOr(name); err != nil {
		return err
	} else if found != nil {
		return errExists
	}
	k := &key{name: name, path: filepath.Join(d.path, file), settings: s, fresh: true}
	if _, found := d.keys.LoadOrStore(name, k); found {
		return errExists
	}
	return d.load(k)
}

// load opens the filter of a key, unless it is open, and makes it first if the key is fresh. If that
// fails, a fresh key is gone. The error is errMissing if the key is gone, or somebody has removed its
// file.
func (d *directory) load(k *key) error {
	d.room()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.filter != nil && !k.ready() {
		d.close(k)
	}
	if k.gone || k.filter != nil {
		d.leave(nil)
		if k.gone {
			return errMissing
		}
		return nil
	}
	var f *mmapfilter.Filter
	var err error
	if k.fresh {
		err = d.make(k)
	}
	if err == nil {
		onError := func(err error) { d.logf("%s: %v", k.path, err) }
		f, err = mmapfilter.Open(k.path, &mmapfilter.OpenOptions{Checked: true, OnError: onError})
	}
	if err != nil {
		d.leave(nil)
		missing := errors.Is(err, fs.ErrNotExist)
		if k.fresh || missing {
			d.forget(k)
		}
		if missing && !k.fresh {
			return errMissing
		}
		return err
	}
	k.filter, k.settings, k.fresh, k.lost = f, settingsOf(f), false, nil
	k.used.Store(time.Now().UnixMilli())
	d.mu.Lock()
	d.open[k] = struct{}{}
	d.mu.Unlock()
	return nil
}

// forget makes a key gone. REQUIRES: k.mu
func (d *directory) forget(k *key) {
	k.gone = true
	d.keys.CompareAndDelete(k.name, k)
}

// room waits until there are descriptors for one more filter, and takes them. When few are left, it
// starts to close the filter that was used longest ago, in the background, since a close waits for
// the disk.
func (d *directory) room() {
	for taken := false; !taken; {
		d.mu.Lock()
		if taken = d.taken < d.most; taken {
			d.taken++
		}
		k := d.oldest()
		d.mu.Unlock()
		if k != nil {
			go d.closeOldest(k)
		}
		if !taken {
			time.Sleep(time.Millisecond)
		}
	}
}

// oldest returns, locked, the key that was used longest ago, among the keys with open filters that
// no command uses now. It returns nil if there are enough descriptors, or will be once other
// filters are closed. REQUIRES: d.mu
func (d *directory) oldest() (oldest *key) {
	if d.taken-d.closing <= d.most*3/4 {
		return nil
	}
	for k := range d.open {
		if (oldest == nil || k.used.Load() < oldest.used.Load()) && k.mu.TryLock() {
			if oldest != nil {
				oldest.mu.Unlock()
			}
			oldest = k
		}
	}
	if oldest != nil {
		d.closing++
	}
	return oldest
}

// closeOldest closes and unlocks what oldest has returned.
func (d *directory) closeOldest(k *key) {
	d.close(k)
	k.mu.Unlock()
	d.mu.Lock()
	d.closing--
	d.mu.Unlock()
}

// leave gives back what room took for the filter of k, or for a filter that could not be opened.
func (d *directory) leave(k *key) {
	d.mu.Lock()
	delete(d.open, k)
	d.taken--
	d.mu.Unlock()
}

// opens returns the keys whose filters are open.
func (d *directory) opens() (all []*key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k := range d.open {
		all = append(all, k)
	}
	return all
}

// close closes the filter of k if it is open. If that fails, what was answered is in its log, and the
// next open finds it. REQUIRES: k.mu
func (d *directory) close(k *key) {
	if k.filter == nil {
		return
	}
	if k.lost = k.filter.Close(); k.lost != nil {
		d.logf("close %s: %v", k.path, k.lost)
	}
	k.filter = nil
	d.leave(k)
}

// sync makes what was written to a key durable. A filter that was closed without an error is
// durable already.
func (k *key) sync() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.gone {
		return nil
	}
	if k.filter == nil {
		return k.lost
	}
	return k.filter.Sync()
}

// syncAll makes every write durable that was answered.
func (d *directory) syncAll() error {
	var errs []error
	for _, k := range d.all() {
		errs = append(errs, k.sync())
	}
	return errors.Join(append(errs, d.syncNames())...)
}

const (
	sweepInterval = time.Second
	idleTime      = 30 * time.Second // after which a filter, or a dump, that nobody uses is closed
	loadTime      = time.Hour        // after which a load that gets no chunk is over
)

// sweep removes the keys whose time is over, and closes what has not been used since idle. It waits for
// commands that use those keys, and for the disk.
func (d *directory) sweep(idle time.Time) {
	for _, k := range d.all() {
		if k.overdue() {
			d.find(k.name)
		}
	}
	for _, k := range d.opens() {
		if k.used.Load() < idle.UnixMilli() && k.mu.TryLock() {
			d.close(k)
			k.mu.Unlock()
		}
	}
	d.dumps.sweep(idle)
	d.sweepNew(idle.Add(-loadTime))
}

// end closes all filters. No command is running by then.
func (d *directory) end() error {
	for _, k := range d.opens() {
		k.mu.Lock()
		d.close(k)
		k.mu.Unlock()
	}
	d.dumps.sweep(time.Now().Add(time.Hour))
	if err := d.syncNames(); err != nil {
		return fmt.Errorf("sync %s: %w", d.path, err)
	}
	return d.files.Close()
}
