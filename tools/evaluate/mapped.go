package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// syncEvery is after how many operations a live filter is synced.
const syncEvery = 65_536

// batchKeys is how many keys are looked up in one call of ContainsHashes.
const batchKeys = 1024

// A mapped filter is one of this library, in a file. Lookups go through a reader's
// view of the file, as those of another process would; what is committed is there.
type mapped struct {
	path   string
	live   *mmapfilter.Filter // nil in a file that was built and is only read
	reader *mmapfilter.Filter
	ops    int   // since the last Sync
	err    error // the first of an operation, apart from ErrFull
}

// hash is that of the 8 bytes of a key. It is part of what is timed, as it is of
// the peers.
func (m *mapped) hash(key uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], key)
	return m.reader.Hash(b[:])
}

func (m *mapped) Insert(key uint64) bool {
	if err := m.live.InsertHash(m.hash(key)); err != nil {
		if !errors.Is(err, mmapfilter.ErrFull) {
			m.fail(err)
		}
		return false
	}
	m.operation()
	return true
}

func (m *mapped) Delete(key uint64) bool {
	deleted, err := m.live.DeleteHash(m.hash(key))
	m.fail(err)
	m.operation()
	return deleted
}

// operation syncs when it is time.
func (m *mapped) operation() {
	if m.ops++; m.ops == syncEvery {
		m.ops = 0
		m.fail(m.live.Sync())
	}
}

// commit makes all durable, and the file complete by itself, so that nothing of it
// goes on in the background while another structure is measured.
func (m *mapped) commit() {
	m.fail(m.live.Checkpoint(context.Background()))
}

func (m *mapped) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *mapped) Contains(key uint64) bool { return m.reader.ContainsHash(m.hash(key)) }

// countBatch gives how many of the keys are found, asked for in batches.
func (m *mapped) countBatch(keys []uint64) (found int) {
	var hashes [batchKeys]uint64
	var answers [batchKeys]bool
	for len(keys) > 0 {
		n := min(len(keys), batchKeys)
		for i, key := range keys[:n] {
			hashes[i] = m.hash(key)
		}
		m.reader.ContainsHashes(hashes[:n], answers[:n])
		for _, yes := range answers[:n] {
			if yes {
				found++
			}
		}
		keys = keys[n:]
	}
	return found
}

func (m *mapped) Bytes() uint64 { return uint64(m.reader.Stats().FileBytes) }

// close closes the filter and removes its file.
func (m *mapped) close() error {
	err := errors.Join(m.err, m.reader.Close())
	if m.live != nil {
		err = errors.Join(err, m.live.Close())
	}
	return errors.Join(err, os.Remove(m.path))
}

// A shape is a table of this library.
type shape struct {
	layout mmapfilter.Layout
	f, b   int
}

func (s shape) String() string { return fmt.Sprintf("%s, f=%d, b=%d", s.layout, s.f, s.b) }

// options gives those that make a table of so many lines (buckets, but in the
// layout Blocked), and the number that it will have: the least from there on that
// the library makes. Their capacity is looked for, since short fingerprints get
// more lines for the same keys, or are refused.
func (s shape) options(lines uint64) (*mmapfilter.Options, uint64, error) {
	o := &mmapfilter.Options{Layout: s.layout, FingerprintBits: s.f, BucketSize: s.b, CommitInterval: -1}
	plan := func(capacity uint64) (mmapfilter.Plan, error) {
		o.Capacity = capacity
		return o.Plan()
	}
	most := lines * s.slots()
	n := sort.Search(int(most), func(i int) bool {
		p, err := plan(uint64(i) + 1)
		return err != nil || p.Lines >= lines
	})
	p, err := plan(uint64(n) + 1)
	return o, p.Lines, err
}

// lines is how many lines fit so many bytes.
func (s shape) lines(bytes uint64) uint64 {
	return bytes * 8 / uint64(layout.LineBits(s.layout, s.params()))
}

// slots is how many a line has.
func (s shape) slots() uint64 { return uint64(layout.SlotsPerLine(s.layout, s.params())) }

func (s shape) params() layout.Params { return layout.Params{FingerprintBits: s.f, BucketSize: s.b} }

// create makes an empty table, open for writing.
func (c *config) create(name string, o *mmapfilter.Options) (*mapped, error) {
	o.Seed = hashSeed
	path, err := c.path(name)
	if err != nil {
		return nil, err
	}
	live, err := mmapfilter.Create(path, o)
	if err != nil {
		return nil, err
	}
	return c.read(&mapped{path: path, live: live})
}

// hashSeed is that of every filter: without one, Create takes one at random.
const hashSeed = 1

// build makes a table of the first n keys.
func (c *config) build(name string, o *mmapfilter.Options, n uint64) (*mapped, error) {
	return c.buildFrom(name, o, 0, n)
}

// buildFrom makes a table of n keys, of numbers from first on.
func (c *config) buildFrom(name string, o *mmapfilter.Options, first, n uint64) (*mapped, error) {
	o.Seed = hashSeed
	path, err := c.path(name)
	if err != nil {
		return nil, err
	}
	f, err := mmapfilter.Build(c.ctx, path, o, c.sequence(first, n))
	if err != nil {
		return nil, err
	}
	return &mapped{path: path, reader: f}, nil
}

// extend opens a built table for writing.
func (c *config) extend(m *mapped) (*mapped, error) {
	if err := m.reader.Close(); err != nil {
		return nil, err
	}
	live, err := mmapfilter.Open(m.path, &mmapfilter.OpenOptions{CommitInterval: -1})
	if err != nil {
		return nil, err
	}
	return c.read(&mapped{path: m.path, live: live})
}

// read opens the reader's view of a file that is being written.
func (c *config) read(m *mapped) (*mapped, error) {
	reader, err := mmapfilter.OpenReadOnly(m.path, nil)
	if err != nil {
		return nil, errors.Join(err, m.live.Close())
	}
	m.reader = reader
	return m, nil
}
