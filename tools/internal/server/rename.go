package server

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// rename gives a key another name. A key that has that name is replaced. Until then it stays as it is,
// but for its deadline: a crash may leave a key without one, and must not give it that of another.
func (d *directory) rename(from, to string) error {
	d.renames.Lock() // so that no two wait for a key of each other
	defer d.renames.Unlock()
	k := d.find(from)
	if k == nil {
		return errNoKey
	}
	file, err := fileName(to)
	if err != nil || from == to {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return errNoKey
	}
	d.close(k)
	moved, made := d.claim(to, filepath.Join(d.path, file))
	defer moved.mu.Unlock()
	d.close(moved)
	if err := d.move(k, moved, made); err != nil {
		if made {
			moved.gone = true
			d.forget(moved)
		}
		return err
	}
	k.gone = true
	d.forget(k)
	return errors.Join(writeDeadline(k.path, 0), d.syncNames())
}

// claim returns the key of a name, with its lock. If there is none, it makes one that has no file yet.
func (d *directory) claim(name, path string) (k *key, made bool) {
	fresh := &key{name: name, path: path}
	fresh.mu.Lock()
	b := d.bucket(name)
	for {
		b.Lock()
		k := b.keys[name]
		if k == nil {
			b.put(fresh)
			b.Unlock()
			return fresh, true
		}
		b.Unlock()
		if k.mu.Lock(); !k.gone {
			return k, false
		}
		k.mu.Unlock()
	}
}

// move moves the files of a key that is closed to the place of another, made or also closed.
func (d *directory) move(k, moved *key, made bool) error {
	at := k.expires.Load()
	early := at // the deadline is there before the file
	if !made {
		early = 0
		moved.expires.Store(0)
	}
	if err := writeDeadline(moved.path, early); err != nil {
		return err
	}
	f, err := mmapfilter.Install(context.Background(), k.path, moved.path, nil)
	if err != nil {
		if made {
			err = errors.Join(err, writeDeadline(moved.path, 0))
		}
		return err
	}
	if early != at {
		err = writeDeadline(moved.path, at)
	}
	moved.expires.Store(at)
	return errors.Join(err, f.Close())
}
