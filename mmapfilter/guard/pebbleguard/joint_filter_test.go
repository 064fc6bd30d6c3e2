package pebbleguard

import (
	"context"
	"errors"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

// A simFilter is a filter on a simulated disk. It commits only when it is told to, or when its log is
// full.
type simFilter struct {
	m    *machine
	hash layout.Hasher
	w    *writer.Writer
}

// simParams have fingerprints so long that hardly any absent key is answered "maybe".
var simParams = layout.Params{Quotients: 25, RemainderBits: 26}

func simGeometry(capacity uint64) layout.Geometry {
	g, err := layout.NewGeometry(layout.Compact, simParams, capacity/14+1)
	if err != nil {
		panic(err)
	}
	return g
}

func (m *machine) createFilter(_ string, o *mmapfilter.Options) (guarded.Filter, error) {
	m.vol = crashsim.NewVolume(simGeometry(o.Capacity), o.Seed, 512, false, func(sb *layout.Superblock) {
		sb.SetNormalisation(o.Normalisation)
		sb.SetCapacity(o.Capacity)
	})
	return m.openFilter("")
}

func (m *machine) openFilter(string) (guarded.Filter, error) {
	if m.vol == nil {
		return nil, fs.ErrNotExist
	}
	f := &simFilter{m: m}
	m.vol.Watch(m.filterEvent)
	err := f.do(func() (err error) {
		if f.w, err = openWriter(m.vol); err == nil {
			f.hash = layout.NewHasher(f.w.Superblock().Seed())
		}
		return err
	})
	if err != nil {
		m.broken = err // the filter's own explorer would have found it
		return nil, err
	}
	m.setFilter(f)
	return f, nil
}

func openWriter(v recovery.Volume) (*writer.Writer, error) {
	w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
	if err == nil {
		w.Limit = w.Superblock().Capacity() * 5 / 4
	}
	return w, err
}

// do does something with the filter, while the store cannot crash.
func (f *simFilter) do(what func() error) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.inFilter = true
	defer func() { f.m.inFilter = false }()
	return what()
}

func (f *simFilter) Hash(key []byte) uint64          { return f.hash.Hash(key) }
func (f *simFilter) ContainsHash(hash uint64) bool   { return f.w.Contains(hash) }
func (f *simFilter) ContainsHashes([]uint64, []bool) { panic("nobody asks for many") }
func (f *simFilter) Len() uint64                     { return f.w.Len() }
func (f *simFilter) Cap() uint64                     { return f.w.Superblock().Capacity() }
func (f *simFilter) Normalisation() string           { return f.w.Superblock().Normalisation() }
func (f *simFilter) TargetRate() float64             { return f.w.Superblock().TargetRate() }

func (f *simFilter) InsertHashes(hashes []uint64, unique bool) (n, added int, err error) {
	isNew := make([]bool, len(hashes))
	err = f.do(func() error {
		if unique {
			return f.full(f.w.DoAll(layout.AtLeastOne, hashes, false, &n, isNew))
		}
		for ; n < len(hashes); n++ {
			if err := f.full(f.w.Insert(hashes[n])); err != nil {
				return err
			}
			isNew[n] = true
		}
		return nil
	})
	for _, is := range isNew[:n] {
		if is {
			added++
		}
	}
	return n, added, err
}

func (f *simFilter) full(err error) error {
	if errors.Is(err, writer.ErrFull) {
		return errors.Join(mmapfilter.ErrFull, f.w.CountFull())
	}
	return err
}

func (f *simFilter) DeleteHash(hash uint64) (deleted bool, err error) {
	err = f.do(func() error { deleted, err = f.w.Delete(hash); return err })
	return deleted, err
}

func (f *simFilter) Sync() error { return f.do(func() error { return f.w.Sync() }) }

func (f *simFilter) SyncAtFunc(seq func(uint64) uint64) error {
	return f.do(func() error { return f.w.SyncAt(seq) })
}

func (f *simFilter) DurableSeq() uint64 { seq, _ := f.w.Durable(); return seq }
func (f *simFilter) DurableOps() uint64 { _, ops := f.w.Durable(); return ops }

// Seal does nothing, since this filter needs no checksums.
func (f *simFilter) Seal(context.Context) error { return nil }

// setFilter sets the filter whose timer runs.
func (m *machine) setFilter(f *simFilter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.filter = f
}

func (f *simFilter) Close() error {
	f.m.setFilter(nil)
	return f.do(func() error { return errors.Join(f.w.Clean(), f.w.Close()) })
}

// Rebuild does what a filter's Rebuild does. What it writes before the new file takes the place of the
// old one is durable at once; other tests are about such writes.
func (f *simFilter) Rebuild(_ context.Context, o *guarded.RebuildOptions) error {
	m, old := f.m, f.w
	m.setFilter(nil) // its timer does not matter meanwhile
	defer func() { m.setFilter(f) }()
	tap := writer.NewTap(nil)
	var hashes []uint64
	var keys func(func([]byte, error) bool)
	err := f.do(func() error {
		return old.Quiet(tap, func() error {
			seq, err := o.Keys()
			keys = seq
			if err == nil {
				tap.Begin(o.Hashes())
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	defer func() {
		if f.w == old {
			old.Untap()
		}
	}()
	for key, err := range keys {
		if err != nil {
			return err
		}
		if hashes = append(hashes, f.hash.Hash(key)); m.rng.IntN(4) == 0 {
			m.meanwhile()
		}
	}
	m.meanwhile()
	return f.do(func() error {
		sb, capacity := old.Superblock(), o.CapacityFor(uint64(len(hashes)))
		b := m.vol.NewBeside(simGeometry(capacity), m.crashRNG.Uint64(), false, old.Protocol().LSN()+1<<20, func(n *layout.Superblock) {
			n.SetSeed(sb.Seed())
			n.SetNormalisation(sb.Normalisation())
			n.SetCapacity(capacity)
		})
		var next *writer.Writer
		err := m.vol.Mute(func() (err error) {
			if next, err = openWriter(b); err != nil {
				return err
			}
			for _, h := range hashes {
				if err := next.Insert(h); err != nil {
					return err
				}
			}
			if err := errors.Join(next.Clean(), next.Close()); err != nil {
				return err
			}
			next, err = openWriter(b)
			return err
		})
		if err != nil {
			return err
		}
		catchUp := func(int) error {
			for tap.Len() > 0 {
				hashes, ops, err := tap.Take(nil, nil, 100)
				if err == nil {
					_, err = next.Replay(hashes, ops)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
		return old.Replace(next, false, catchUp, func(w *writer.Writer) { f.w = w })
	})
}
