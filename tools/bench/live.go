package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
)

// A writing says how a filter of ours is written to.
type writing struct {
	batch     int // keys in a call of InsertBatch; 0 means one by one, with Insert
	syncEvery int // keys between calls of Sync; 0 means never
}

// live is a filter of ours that is open for writing.
type live struct {
	filter *mmapfilter.Filter
	writing
	sinceSync int
	keys      [][]byte
	err       error // of a failed operation, except ErrFull
}

// openLive returns the peer.Filter of a filter that is open for writing.
func openLive(f *mmapfilter.Filter, w writing, seed uint64) *peer.Filter {
	l := &live{filter: f, writing: w, keys: make([][]byte, 0, w.batch)}
	insert := peer.Until(l.insert)
	if w.batch > 0 {
		insert = l.insertBatch
	}
	return &peer.Filter{
		Seed:     seed,
		Size:     func() int64 { return f.Stats().FileBytes },
		Insert:   insert,
		Contains: peer.Each(f.Contains),
		Delete:   peer.Each(l.remove),
		Err:      func() error { return l.err },
		End:      f.Close,
	}
}

// createLive makes an empty filter with as many slots as n keys fill to the standard load.
func (s *session) createLive(path string, v variant, n uint64, w writing) (*peer.Filter, error) {
	opts := v.options(n)
	plan, err := opts.Plan()
	if err != nil {
		return nil, err
	}
	opts.Capacity = uint64(float64(n) * plan.DesignLoad / standardLoad)
	opts.CommitInterval, opts.Seed = -1, s.seed
	f, err := mmapfilter.Create(path, &opts)
	if err != nil {
		return nil, err
	}
	return openLive(f, w, s.seed), nil
}

func (l *live) insert(key []byte) bool { return l.done(1, l.filter.Insert(key)) }

func (l *live) insertBatch(keys []peer.Key) (n int) {
	for n < len(keys) {
		l.keys = l.keys[:0]
		for i := range keys[n:min(n+l.batch, len(keys))] {
			l.keys = append(l.keys, keys[n+i][:])
		}
		inserted, err := l.filter.InsertBatch(l.keys)
		n += inserted
		if !l.done(inserted, err) {
			break
		}
	}
	return n
}

func (l *live) remove(key []byte) bool {
	found, err := l.filter.Delete(key)
	return l.done(1, err) && found
}

// done counts operations, calls Sync when it is due, and keeps an error.
func (l *live) done(operations int, err error) bool {
	if err == nil && l.syncEvery > 0 {
		if l.sinceSync += operations; l.sinceSync >= l.syncEvery {
			l.sinceSync = 0
			err = l.filter.Sync()
		}
	}
	if err != nil && !errors.Is(err, mmapfilter.ErrFull) {
		l.err = err
	}
	return err == nil
}
