package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"time"

	linvon "github.com/linvon/cuckoo-filter"
	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all" // for layout.NewTable
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
)

// A replaceable is a filter whose keys are replaced one at a time.
type replaceable interface {
	insert(key []byte) (ok bool, err error) // not ok: no room
	remove(key []byte) (found bool, err error)
	contains(key []byte) bool
	sync() error
	// second returns the share of lookups of absent keys that read a second line or bucket. All earlier
	// operations are synced.
	second() (share float64, err error)
	stash() int    // entries in use, if it has a stash
	bits() int64   // of its lines
	shape() string // name and parameters
	close() error
}

// A churnSpec says how to make a replaceable filter for n keys. If took is not 0, the filter already
// has the keys 0 to n-1, and took is how long filling it took.
type churnSpec struct {
	name   string
	create func(s *session, n uint64) (f replaceable, took time.Duration, err error)
}

// The names of ours: filled by inserts, and built.
const (
	defaultFilled = "default"
	defaultBuilt  = "default, built"
)

// churnSpecs returns our filters and, at the default rate, other filters that can delete.
func churnSpecs(rate float64) []churnSpec {
	asked := variant{rate: rate}
	all := []churnSpec{
		{defaultFilled, func(s *session, n uint64) (replaceable, time.Duration, error) {
			return s.createReplaced(asked.options(n))
		}},
		{defaultBuilt, func(s *session, n uint64) (replaceable, time.Duration, error) {
			return s.buildReplaced(asked.options(n), n)
		}},
	}
	if rate == defaultRate {
		all = append(all, churnSpec{"seiflotfy", createSeiflotfyReplaced}, churnSpec{"linvon", createLinvonReplaced})
	}
	return all
}

// replaced is a filter in a file of ours.
type replaced struct {
	filter *mmapfilter.Filter
	stats  mmapfilter.Stats // as of when it was made; the shape does not change
	path   string
}

func (s *session) createReplaced(opts mmapfilter.Options) (replaceable, time.Duration, error) {
	path := s.path("churn.mmf")
	opts.CommitInterval, opts.Seed = -1, s.seed
	f, err := mmapfilter.Create(path, &opts)
	if err != nil {
		return nil, 0, err
	}
	return &replaced{f, f.Stats(), path}, 0, nil
}

func (s *session) buildReplaced(opts mmapfilter.Options, n uint64) (replaceable, time.Duration, error) {
	path := s.path("churn.mmf")
	opts.Seed = s.seed
	begun := time.Now()
	f, err := mmapfilter.Build(s.ctx, path, &opts, s.keySequence(n))
	if err != nil {
		return nil, 0, err
	}
	took := time.Since(begun)
	if err := f.Close(); err != nil {
		return nil, 0, err
	}
	if f, err = mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1}); err != nil {
		return nil, 0, err
	}
	return &replaced{f, f.Stats(), path}, took, nil
}

// insert treats ErrFull as a refusal only while the filter has at most as many keys as its
// capacity. Beyond that, ErrFull is an error.
func (r *replaced) insert(key []byte) (bool, error) {
	err := r.filter.Insert(key)
	if errors.Is(err, mmapfilter.ErrFull) && r.filter.Len() <= r.filter.Cap() {
		return false, nil
	}
	return err == nil, err
}

func (r *replaced) remove(key []byte) (bool, error) { return r.filter.Delete(key) }
func (r *replaced) contains(key []byte) bool        { return r.filter.Contains(key) }
func (r *replaced) sync() error                     { return r.filter.Sync() }

// second reads every line of the file. Stats only samples them.
func (r *replaced) second() (share float64, err error) {
	file, err := os.ReadFile(r.path)
	if err != nil {
		return 0, err
	}
	_, _, g, err := layout.Newest(file[:min(len(file), layout.OffRuntime)])
	if err != nil {
		return 0, err
	}
	if end := layout.OffRegion + g.RegionBytes; int64(len(file)) < end {
		return 0, fmt.Errorf("%s has %d bytes, its lines end at %d", r.path, len(file), end)
	}
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(file[layout.OffRuntime+8*i:])
	}
	view, table := layout.NewView(words, g), layout.NewTable(g)
	var l layout.Line
	for line := range g.Lines {
		layout.Load(table, view.Region, line, &l)
		share += table.Probe(&l, line).Second / float64(g.Lines)
	}
	return share, nil
}

func (r *replaced) stash() int { return r.filter.Stats().StashLen }

func (r *replaced) bits() int64 {
	s := r.filter.Stats()
	return int64(s.Lines) * int64(layout.LineBits(s.Layout, paramsOf(s)))
}

func (r *replaced) shape() string {
	return fmt.Sprintf("%v, %v", r.stats.Layout, paramsOf(r.stats))
}

func (r *replaced) close() error { return errors.Join(r.filter.Close(), os.Remove(r.path)) }

// seiflotfyReplaced is the filter that makeSeiflotfy makes.
type seiflotfyReplaced struct {
	filter *seiflotfy.Filter
	slots  int64
}

func createSeiflotfyReplaced(_ *session, n uint64) (replaceable, time.Duration, error) {
	return &seiflotfyReplaced{seiflotfy.NewFilter(uint(n)), int64(1) << bits.Len64(max(n, 4)-1)}, 0, nil
}

func (r *seiflotfyReplaced) insert(key []byte) (bool, error) { return r.filter.Insert(key), nil }
func (r *seiflotfyReplaced) remove(key []byte) (bool, error) { return r.filter.Delete(key), nil }
func (r *seiflotfyReplaced) contains(key []byte) bool        { return r.filter.Lookup(key) }

// second computes the share from the slots. A lookup reads the second bucket unless the first
// bucket holds the fingerprint, which is one of 255.
func (r *seiflotfyReplaced) second() (share float64, err error) {
	const b, fingerprints = 4, 255
	slots := r.filter.Encode()
	matching := 0
	for ; len(slots) >= b; slots = slots[b:] {
		seen := [fingerprints + 1]bool{}
		for _, fp := range slots[:b] {
			if fp != 0 && !seen[fp] {
				seen[fp] = true
				matching++
			}
		}
	}
	return 1 - float64(matching)/float64(fingerprints*r.slots/b), nil
}

func (r *seiflotfyReplaced) sync() error   { return nil }
func (r *seiflotfyReplaced) stash() int    { return 0 }
func (r *seiflotfyReplaced) bits() int64   { return 8 * r.slots }
func (r *seiflotfyReplaced) shape() string { return "seiflotfy/cuckoofilter, f=8, b=4" }
func (r *seiflotfyReplaced) close() error  { return nil }

// linvonBits are the shortest fingerprints that keep the default rate with 4 slots a bucket.
const linvonBits = 10

type linvonReplaced struct{ filter *linvon.Filter }

func createLinvonReplaced(_ *session, n uint64) (replaceable, time.Duration, error) {
	return &linvonReplaced{linvon.NewFilter(4, linvonBits, uint(n), linvon.TableTypeSingle)}, 0, nil
}

func (r *linvonReplaced) insert(key []byte) (bool, error) { return r.filter.Add(key), nil }
func (r *linvonReplaced) remove(key []byte) (bool, error) { return r.filter.Delete(key), nil }
func (r *linvonReplaced) contains(key []byte) bool        { return r.filter.Contain(key) }

// second computes the share from the load. A lookup reads the slots of both buckets in turns. So it
// reads the second bucket unless the first slot matches. The first slot is taken to be as full as
// other slots.
func (r *linvonReplaced) second() (share float64, err error) {
	return 1 - r.filter.LoadFactor()/(1<<linvonBits-1), nil
}

func (r *linvonReplaced) sync() error { return nil }
func (r *linvonReplaced) stash() int  { return 0 }
func (r *linvonReplaced) bits() int64 { return 8 * int64(r.filter.SizeInBytes()) }
func (r *linvonReplaced) shape() string {
	return fmt.Sprintf("linvon/cuckoo-filter, f=%d, b=4", linvonBits)
}
func (r *linvonReplaced) close() error { return nil }
