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

// syncEvery is the number of operations between calls of Sync.
const syncEvery = 65_536

// batchKeys is the number of keys in one call of ContainsHashes.
const batchKeys = 1024

// A mapped is a filter of this library, in a file. Lookups go through a second handle, as in
// another process, and see what is committed.
type mapped struct {
	path   string
	live   *mmapfilter.Filter // nil if the file is only read
	reader *mmapfilter.Filter
	ops    int   // since the last Sync
	err    error // the first error of an operation, except ErrFull
}

// hash hashes the 8 bytes of a key. That is part of the time, as it is for the peers.
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

// operation counts an operation, and calls Sync when it is due.
func (m *mapped) operation() {
	if m.ops++; m.ops == syncEvery {
		m.ops = 0
		m.fail(m.live.Sync())
	}
}

// commit makes a checkpoint, so that no work on the file goes on in the background while
// another structure is measured.
func (m *mapped) commit() {
	m.fail(m.live.Checkpoint(context.Background()))
}

func (m *mapped) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

func (m *mapped) Contains(key uint64) bool { return m.reader.ContainsHash(m.hash(key)) }

// countBatch returns how many of the keys are found, looked up in batches.
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
	f, b   int     // of a layout of the paper
	rate   float64 // that Compact is for
}

func (s shape) String() string {
	if s.rate > 0 {
		return fmt.Sprintf("%s, rate %.3g %%", s.layout, 100*s.rate)
	}
	return fmt.Sprintf("%s, f=%d, b=%d", s.layout, s.f, s.b)
}

// options returns the options of a table, and its number of lines: the least number from lines
// on that the library makes. (Lines are buckets, except in layout Compact.) It searches for the
// capacity, since short fingerprints get more lines for the same keys, or are refused.
func (s shape) options(lines uint64) (*mmapfilter.Options, uint64, error) {
	o := s.wish()
	o.CommitInterval = -1
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

// lines returns how many lines fit in the given number of bytes.
func (s shape) lines(bytes uint64) uint64 {
	return bytes * 8 / uint64(layout.LineBits(s.layout, s.params()))
}

// slots returns the number of slots in a line.
func (s shape) slots() uint64 { return uint64(layout.SlotsPerLine(s.layout, s.params())) }

// wish returns options for the shape, without a capacity.
func (s shape) wish() *mmapfilter.Options {
	return &mmapfilter.Options{Layout: s.layout, FingerprintBits: s.f, BucketSize: s.b, FalsePositiveRate: s.rate}
}

func (s shape) params() layout.Params {
	if s.rate == 0 {
		return layout.Params{FingerprintBits: s.f, BucketSize: s.b}
	}
	p, err := s.wish().Plan()
	if err != nil {
		panic(err)
	}
	return layout.Params{Quotients: p.Quotients, RemainderBits: p.RemainderBits}
}

// create creates an empty table, open for writing.
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

// hashSeed is the seed of every filter. Without one, Create takes a random seed.
const hashSeed = 1

// build builds a table of the first n keys.
func (c *config) build(name string, o *mmapfilter.Options, n uint64) (*mapped, error) {
	return c.buildFrom(name, o, 0, n)
}

// buildFrom builds a table of n keys, numbered from first on.
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

// read opens a second handle for reading.
func (c *config) read(m *mapped) (*mapped, error) {
	reader, err := mmapfilter.OpenReadOnly(m.path, nil)
	if err != nil {
		return nil, errors.Join(err, m.live.Close())
	}
	m.reader = reader
	return m, nil
}
