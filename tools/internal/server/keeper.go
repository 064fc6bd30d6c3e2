package server

import (
	"errors"
	"time"
)

const (
	sweepInterval = time.Second
	idleTime      = 30 * time.Second // after which a filter that nobody uses is closed
)

// sweep removes the keys whose time is over, and closes the filters that have not been used since idle.
func (d *directory) sweep(idle time.Time) {
	for _, name := range d.names() {
		d.find(name)
	}
	for _, k := range d.opens() {
		if k.used.Load() < idle.UnixMilli() && k.mu.TryLock() {
			d.close(k)
			k.mu.Unlock()
		}
	}
}

// size returns how many keys there are, with those whose time is over and that are still there.
func (d *directory) size() (n int64) {
	for i := range d.buckets {
		b := &d.buckets[i]
		b.RLock()
		n += int64(len(b.keys))
		b.RUnlock()
	}
	return n
}

// removeKey removes the key of a name, if there is one.
func (d *directory) removeKey(name string) (removed bool, err error) {
	k := d.find(name)
	if k == nil {
		return false, nil
	}
	return d.remove(k)
}

// opens returns the keys whose filters are open.
func (d *directory) opens() []*key {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*key, 0, len(d.open))
	for k := range d.open {
		all = append(all, k)
	}
	return all
}

// names returns the names of all keys.
func (d *directory) names() (all []string) {
	for i := range d.buckets {
		all = d.buckets[i].names(all)
	}
	return all
}

// names appends the names of the keys of the bucket.
func (b *bucket) names(all []string) []string {
	b.RLock()
	defer b.RUnlock()
	for name := range b.keys {
		all = append(all, name)
	}
	return all
}

// syncAll makes all that was answered durable. A filter that is closed is durable.
func (d *directory) syncAll() error {
	var errs []error
	for _, k := range d.opens() {
		k.mu.RLock()
		if k.filter != nil {
			errs = append(errs, k.filter.Sync())
		}
		k.mu.RUnlock()
	}
	return errors.Join(errs...)
}

// end closes all filters. No command runs any more.
func (d *directory) end() error {
	for _, k := range d.opens() {
		k.mu.Lock()
		d.close(k)
		k.mu.Unlock()
	}
	return d.lock.Close()
}
