package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// beside lists the suffixes of the files of a key. The filter itself comes first: without it, the
// other files mean nothing.
var beside = []string{"", ".hashes", ".hashes.new", ".past", ".stash", ".stash.new", ".expire",
	".tmp-rebuild", ".tmp-rebuild.hashes", ".tmp-rebuild.stash"} // of a rebuild that a kill has ended

// newFiles is the directory in which new files are written. It holds few files, since Build looks
// through all names of a directory for files that a crash has left. The next start removes them.
const newFiles = ".new"

// madeAt returns the path at which a file is written before it gets the given path.
func (d *directory) madeAt(path string) string {
	return filepath.Join(d.path, newFiles, filepath.Base(path))
}

// make makes the file of a fresh key, unless somebody else has put one there.
func (d *directory) make(k *key) error {
	if _, err := os.Lstat(k.path); err == nil {
		return nil
	}
	if err := d.tellRemoved(); err != nil {
		return err
	}
	for _, b := range beside[1:] { // of a filter that somebody else has removed
		os.Remove(k.path + b)
	}
	made := d.madeAt(k.path)
	f, err := mmapfilter.Create(made, k.options())
	if err == nil {
		err = f.Close()
	}
	if err == nil && k.expansion != 0 {
		err = os.Rename(made+".hashes", k.path+".hashes")
	}
	if err == nil {
		err = os.Rename(made, k.path)
	}
	d.change()
	if err != nil {
		for _, b := range beside {
			os.Remove(made + b)
		}
	}
	return err
}

// remove removes a key and its files. If overdue is set, the reason is that its time is over; then
// the key stays if it has got more time meanwhile: by a PERSIST, or by a RENAME, which has put
// another filter in its place.
func (d *directory) remove(k *key, overdue bool) (removed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone || overdue && !k.overdue() {
		return false, nil
	}
	d.close(k)
	defer d.change()
	f, err := os.OpenFile(k.path, os.O_RDWR, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return false, err // such as no free descriptor
	}
	err = removeFiles(k.path)
	if f != nil {
		d.superseded(f) // before a new key can have the name
	}
	if err != nil {
		return false, err
	}
	d.forget(k)
	return true, nil
}

func removeFiles(path string) error {
	for _, b := range beside {
		if err := os.Remove(path + b); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// change notes that names of files have changed. Call it after the change.
func (d *directory) change() {
	d.names.Lock()
	d.changed = true
	d.names.Unlock()
}

// mostRemoved is how many removed filters wait for a sync of the names. Until then they keep descriptors
// and room on the disk.
const mostRemoved = 16

// superseded notes a filter that was removed. Once this is durable, its readers answer "maybe" (K4),
// since the next key of its name is in another file.
func (d *directory) superseded(f *os.File) {
	d.names.Lock()
	d.changed, d.removed = true, append(d.removed, f)
	d.untold.Store(true)
	many := len(d.removed) >= mostRemoved
	d.names.Unlock()
	if many {
		d.syncNames() // after an error, the next sync tries again
	}
}

// tellRemoved tells the readers of removed filters, before a new file can have the name of one.
func (d *directory) tellRemoved() error {
	if !d.untold.Load() {
		return nil
	}
	return d.syncNames()
}

// syncNames makes the names of files durable.
func (d *directory) syncNames() error {
	d.names.Lock()
	defer d.names.Unlock()
	if !d.changed {
		return nil
	}
	if err := d.files.Sync(); err != nil {
		return err
	}
	d.changed = false
	var errs []error
	for _, f := range d.removed {
		errs = append(errs, osfile.Supersede(f), f.Close())
	}
	d.removed = nil
	d.untold.Store(false)
	return errors.Join(errs...)
}

// rename gives a key another name. A key that already has this name loses its deadline and is then
// replaced, so that after a crash a key may lack its deadline, but never has the deadline of another
// key.
func (d *directory) rename(from, to string) error {
	d.renames.Lock() // otherwise two renames could wait for each other's keys
	defer d.renames.Unlock()
	k := d.find(from)
	if k == nil {
		return errNoKey
	}
	file, err := fileName(to)
	if err != nil || from == to {
		return err
	}
	if err := d.lockOpen(k); err == errMissing { // it may need recovery
		return errNoKey
	} else if err != nil {
		return err
	}
	defer k.mu.Unlock()
	d.close(k)
	at := k.expires.Load()
	moved := d.claim(to, filepath.Join(d.path, file))
	defer moved.mu.Unlock()
	if err := d.install(k.path, moved); err != nil {
		return err
	}
	err = errors.Join(d.setDeadline(moved, at), d.writeDeadline(k.path, 0))
	d.forget(k) // last, because the next key of this name has the same files
	return err
}

// claim returns the key of a name, with its lock. If there is none, it makes a fresh one.
func (d *directory) claim(name, path string) *key {
	for {
		d.find(name) // removes it if its time is over
		k := &key{name: name, path: path, fresh: true}
		k.mu.Lock()
		found, other := d.keys.LoadOrStore(name, k)
		if !other {
			return k
		}
		k = found.(*key)
		if k.mu.Lock(); !k.gone {
			return k
		}
		k.mu.Unlock()
	}
}

// install puts a file in the place of the file of k, and removes the deadline of k. REQUIRES: k.mu
func (d *directory) install(from string, k *key) error {
	d.close(k)
	err := d.setDeadline(k, 0)
	if err == nil && k.fresh {
		err = d.tellRemoved()
	}
	if err == nil {
		err = mmapfilter.Rename(from, k.path)
	}
	if err == nil {
		k.fresh = false
	}
	if k.fresh && !errors.As(err, new(*mmapfilter.CompleteError)) {
		d.forget(k)
	}
	return err
}

// readDeadline reads the file that says when the time of the key is over.
func (k *key) readDeadline() error {
	text, err := os.ReadFile(k.path + ".expire")
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || at <= 0 {
		return fmt.Errorf("%s.expire: %q is not a time in milliseconds", k.path, text)
	}
	k.expires.Store(at)
	return nil
}

// overdue reports whether the time of the key is over.
func (k *key) overdue() bool {
	at := k.expires.Load()
	return at != 0 && time.Now().UnixMilli() >= at
}

// setDeadline says when a key is removed; 0: never. REQUIRES: k.mu, or d.deadlines and k.mu.RLock
func (d *directory) setDeadline(k *key, at int64) error {
	if at == k.expires.Load() {
		return nil
	}
	defer d.change()
	if err := d.writeDeadline(k.path, at); err != nil {
		return err
	}
	k.expires.Store(at)
	return nil
}

// writeDeadline makes the file that readDeadline reads, or removes it. At any time the file is whole
// or not there.
func (d *directory) writeDeadline(path string, at int64) error {
	path += ".expire"
	if at == 0 {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.Create(d.madeAt(path))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, at)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(d.madeAt(path), path)
	}
	return err
}
