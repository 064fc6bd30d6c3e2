package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// readDeadline reads the file beside a key that says when it is over.
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

// setDeadline says when a key is removed; 0: never. It returns 1, or 0 if there is no such key, or no
// deadline to take away.
func (d *directory) setDeadline(name string, at int64) (changed int64, err error) {
	k := d.find(name)
	if k == nil {
		return 0, nil
	}
	k.mu.RLock() // against its removal; what uses the filter may take long, and goes on
	defer k.mu.RUnlock()
	d.deadlines.Lock()
	defer d.deadlines.Unlock()
	if k.gone || at == 0 && k.expires.Load() == 0 {
		return 0, nil
	}
	if err := writeDeadline(k.path, at); err != nil {
		return 0, err
	}
	k.expires.Store(at)
	return 1, d.syncNames()
}

// writeDeadline makes the file that setDeadline is about. It is whole or not there at any time.
func writeDeadline(path string, at int64) error {
	path += ".expire"
	if at == 0 {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, at)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}
