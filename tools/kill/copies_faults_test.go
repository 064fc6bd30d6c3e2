//go:build faults && unix

package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// Keys of the filters below, by numbers.
const (
	firstKeys = 1200
	moreKeys  = 1000 // after them; then the first of the first keys are deleted, as many
)

// primaryOf returns where the filter is of which p.path is a replica, and its changes.
func (p *process) primaryOf() (path, set string) { return p.path + ".primary", p.path + ".set" }

// makePrimary makes a filter that keeps changes, and at another path a snapshot of it. Then the filter
// goes on: set is what has changed since.
func (p *process) makePrimary(path, replica string) (set []byte, err error) {
	f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 2500, KeepChanges: time.Hour})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	err = insertNumbers(f, 0, firstKeys)
	var at mmapfilter.Position
	if err == nil {
		at, err = f.Snapshot(ctx, replica)
	}
	if err == nil {
		err = insertNumbers(f, firstKeys, firstKeys+moreKeys)
	}
	for i := 0; i < moreKeys && err == nil; i++ {
		var deleted bool
		if deleted, err = f.Delete(fmt.Append(nil, i)); err == nil && !deleted {
			err = fmt.Errorf("key %d is not deleted", i)
		}
	}
	if err == nil {
		err = f.SyncAt(77)
	}
	var b bytes.Buffer
	if err == nil {
		_, err = f.Changes(ctx, &b, at)
	}
	return b.Bytes(), errors.Join(err, f.Close())
}

func insertNumbers(f *mmapfilter.Filter, from, to int) error {
	for i := from; i < to; i++ {
		if err := f.Insert(fmt.Append(nil, i)); err != nil {
			return err
		}
	}
	return nil
}

// beReplica makes p.path a replica, with a set of changes for it.
func (p *process) beReplica() error {
	primary, name := p.primaryOf()
	set, err := p.makePrimary(primary, p.path)
	if err != nil {
		return err
	}
	return os.WriteFile(name, set, 0o600)
}

// apply applies the set.
func (p *process) apply() error {
	_, name := p.primaryOf()
	set, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := retry(func() (*mmapfilter.Filter, error) {
		return mmapfilter.Open(p.path, &mmapfilter.OpenOptions{LogBytes: wal.MinBytes}) // too small for the set
	})
	if err != nil {
		return err
	}
	_, err = f.Apply(context.Background(), bytes.NewReader(set))
	return errors.Join(err, f.Close())
}

// applied checks that the replica takes what it has not taken of the set, and has it once.
func (p *process) applied() error {
	if err := p.apply(); err != nil {
		return err
	}
	if _, err := os.Stat(p.path + ".apply"); err == nil {
		return errors.New("the set is still there")
	}
	primary, _ := p.primaryOf()
	return sameKeys(p.path, primary, firstKeys+moreKeys)
}

// sameKeys checks that a replica has what its primary has: the keys with numbers from moreKeys on.
func sameKeys(replica, primary string, to int) error {
	if _, err := mmapfilter.Verify(context.Background(), replica); err != nil {
		return err
	}
	f, err := mmapfilter.OpenReadOnly(primary, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := mmapfilter.OpenReadOnly(replica, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.Position() != f.Position() || r.Len() != f.Len() || r.DurableSeq() != 77 {
		return fmt.Errorf("the replica has %d keys at %v with sequence %d, and the primary %d at %v", r.Len(), r.Position(), r.DurableSeq(), f.Len(), f.Position())
	}
	for i := moreKeys; i < to; i++ {
		if !r.Contains(fmt.Append(nil, i)) {
			return fmt.Errorf("the replica lacks key %d", i)
		}
	}
	return nil
}

// beChanged makes p.path a filter that has changed, and beside it a replica that lacks the changes.
func (p *process) beChanged() error {
	_, err := p.makePrimary(p.path, p.path+".replica")
	return err
}

// changesBesideRebuild rebuilds the filter, while somebody asks for its changes all the time.
func (p *process) changesBesideRebuild() error {
	f, err := mmapfilter.Open(p.path, nil)
	if err != nil {
		return err
	}
	since, err := p.replicaAt()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	asked := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = f.Changes(ctx, io.Discard, since)
		}
		asked <- err
	}()
	if err == nil {
		err = f.Rebuild(context.Background(), nil)
	}
	stop()
	if e := <-asked; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, f.Close())
}

func (p *process) replicaAt() (mmapfilter.Position, error) {
	r, err := mmapfilter.OpenReadOnly(p.path+".replica", nil)
	if err != nil {
		return mmapfilter.Position{}, err
	}
	return r.Position(), r.Close()
}

// changed checks that the replica can take the changes of whatever file is left.
func (p *process) changed() error {
	f, err := mmapfilter.Open(p.path, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	since, err := p.replicaAt()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := f.Changes(context.Background(), &b, since); err != nil {
		return err
	}
	r, err := mmapfilter.Open(p.path+".replica", nil)
	if err == nil {
		_, err = r.Apply(context.Background(), &b)
		err = errors.Join(err, r.Close(), f.Checkpoint(context.Background()))
	}
	if err != nil {
		return err
	}
	return sameKeys(p.path+".replica", p.path, firstKeys+moreKeys)
}

const (
	oldKeys, newKeys = 300, 100
	expireAfter      = 10 * time.Second // the shortest time that is allowed
)

// beOld makes p.path a filter of keys that become old, and notes when.
func (p *process) beOld() error {
	f, err := mmapfilter.Create(p.path, &mmapfilter.Options{Capacity: 1000, ExpireAfter: time.Hour})
	if err != nil {
		return err
	}
	if err = insertNumbers(f, 0, oldKeys); err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	made, _ := time.Now().MarshalText()
	return errors.Join(err, os.WriteFile(p.path+".made", made, 0o600))
}

// expire waits until the keys are old, opens the filter so that they leave, and adds some.
func (p *process) expire() (f *mmapfilter.Filter, err error) {
	text, err := os.ReadFile(p.path + ".made")
	var made time.Time
	if err == nil {
		err = made.UnmarshalText(text)
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Until(made.Add(expireAfter + 2*time.Second))) // times are exact to a second
	f, err = mmapfilter.Open(p.path, &mmapfilter.OpenOptions{ExpireAfter: expireAfter})
	if err != nil {
		return nil, err
	}
	if err = insertNumbers(f, oldKeys, oldKeys+newKeys); err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Expire(context.Background())
	}
	return f, err
}

// expired checks that each old key leaves once, and no other one does.
func (p *process) expired() error {
	reset, err := os.Stat(p.path + ".made")
	if err != nil {
		return err
	}
	f, err := p.expire()
	if err != nil {
		return err
	}
	defer f.Close()
	if time.Since(reset.ModTime()) > expireAfter/2 {
		return nil // the machine is busy, or this is the first process, which has waited: new keys may leave
	}
	if f.Len() != f.DurableOps()-oldKeys {
		return fmt.Errorf("%d keys, after %d inserts of which %d have expired", f.Len(), f.DurableOps(), oldKeys)
	}
	for i := oldKeys; i < oldKeys+newKeys; i++ {
		if !f.Contains(fmt.Append(nil, i)) {
			return fmt.Errorf("key %d has left early", i)
		}
	}
	return nil
}
