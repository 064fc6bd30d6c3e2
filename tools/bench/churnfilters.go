package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"time"

	linvon "github.com/linvon/cuckoo-filter"
	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all" // for layout.NewTable
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
)

// A replaceable is a filter whose keys are replaced one at a time. It knows a key by a hash. A
// filter that takes no hashes gets the 8 bytes of the hash as the key.
type replaceable interface {
	insert(hash uint64) (ok bool, err error) // not ok: no room
	remove(hash uint64) (found bool, err error)
	count(hashes []uint64) int // how many may be present
	sync() error
	// second returns the share of lookups of absent keys that read a second line or bucket, and
	// the standard error of that share. All earlier operations are synced.
	second() (share, off float64, err error)
	stash() int    // entries in use, if it has a stash
	bits() int64   // of its lines
	shape() string // name and parameters
	close() error
}

// A filledFilter is made with its first keys, whose numbers are 0 to n-1.
type filledFilter interface {
	replaceable
	filled() peer.Count // the time that it took
}

// A churnSpec says how to make a replaceable filter for n keys.
type churnSpec struct {
	name   string
	create func(s *session, n uint64) (replaceable, error)
}

// defaultBuilt is the name of the default layout in a filter that was built.
var defaultBuilt = byDefault.String() + ", built"

// churnSpecs returns ours and, at the default rate, other filters that can delete.
func churnSpecs(layouts []variant, rate float64) (all []churnSpec) {
	for _, v := range layouts {
		asked := variant{layout: v.layout, rate: rate}
		all = append(all, churnSpec{v.String(), func(s *session, n uint64) (replaceable, error) {
			return s.createReplaced(s.path(fmt.Sprintf("%v.mmf", v)), asked.options(n))
		}})
		if v == byDefault {
			all = append(all, churnSpec{defaultBuilt, func(s *session, n uint64) (replaceable, error) {
				return s.buildReplaced(s.path("built.mmf"), asked.options(n), n)
			}})
		}
	}
	if rate == defaultRate {
		all = append(all, churnSpec{"seiflotfy", createSeiflotfyReplaced}, churnSpec{"linvon", createLinvonReplaced(linvon.TableTypeSingle)},
			churnSpec{"linvon, semi-sorted", createLinvonReplaced(linvon.TableTypePacked)})
	}
	return all
}

// replaced is a filter in a file of ours.
type replaced struct {
	filter *mmapfilter.Filter
	stats  mmapfilter.Stats // when it was made; its shape stays
	path   string
	found  []bool
}

func (s *session) createReplaced(path string, opts mmapfilter.Options) (replaceable, error) {
	opts.CommitInterval, opts.Seed = -1, s.seed
	f, err := mmapfilter.Create(path, &opts)
	if err != nil {
		return nil, err
	}
	return &replaced{filter: f, stats: f.Stats(), path: path}, nil
}

// insert treats ErrFull as a refusal only while the filter has at most as many keys as its
// capacity. Beyond that, ErrFull is an error.
func (r *replaced) insert(hash uint64) (bool, error) {
	err := r.filter.InsertHash(hash)
	if errors.Is(err, mmapfilter.ErrFull) && r.filter.Len() <= r.filter.Cap() {
		return false, nil
	}
	return err == nil, err
}

func (r *replaced) remove(hash uint64) (bool, error) { return r.filter.DeleteHash(hash) }
func (r *replaced) sync() error                      { return r.filter.Sync() }

func (r *replaced) count(hashes []uint64) (n int) {
	if len(r.found) < len(hashes) {
		r.found = make([]bool, len(hashes))
	}
	found := r.found[:len(hashes)]
	r.filter.ContainsHashes(hashes, found)
	for _, maybe := range found {
		if maybe {
			n++
		}
	}
	return n
}

// second reads every line of the file. Stats only samples them.
func (r *replaced) second() (share, off float64, err error) {
	file, err := os.ReadFile(r.path)
	if err != nil {
		return 0, 0, err
	}
	_, _, g, err := layout.Newest(file[:min(len(file), layout.OffRuntime)])
	if err != nil {
		return 0, 0, err
	}
	if end := layout.OffRegion + g.RegionBytes; int64(len(file)) < end {
		return 0, 0, fmt.Errorf("%s has %d bytes, its lines end at %d", r.path, len(file), end)
	}
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(file[layout.OffRuntime+8*i:])
	}
	view, table := layout.NewView(words, g), layout.NewTable(g)
	n, squares := float64(g.Lines), 0.0
	var l layout.Line
	for line := range g.Lines {
		layout.Load(table, view.Region, line, &l)
		second := table.Probe(&l, line).Second
		share += second / n
		squares += second * second / n
	}
	return share, math.Sqrt(max(0, squares-share*share) / n), nil
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

// builtReplaced is a filter that was built from its first keys and is open for writing. Build takes no
// hashes, so its keys are the 8 bytes of the hashes.
type builtReplaced struct {
	*replaced
	took   peer.Count
	hashes []uint64
}

func (s *session) buildReplaced(path string, opts mmapfilter.Options, n uint64) (replaceable, error) {
	opts.Seed = s.seed
	begun := time.Now()
	f, err := mmapfilter.Build(s.ctx, path, &opts, func(yield func([]byte, error) bool) {
		var key [8]byte
		for number := range n {
			binary.LittleEndian.PutUint64(key[:], s.hashOf(number))
			if !yield(key[:], nil) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	took := peer.Count{Clock: time.Since(begun)} // of all workers
	if err := f.Close(); err != nil {
		return nil, err
	}
	if f, err = mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1}); err != nil {
		return nil, err
	}
	return &builtReplaced{replaced: &replaced{filter: f, stats: f.Stats(), path: path}, took: took}, nil
}

// own returns the hash that the filter knows a key by.
func (b *builtReplaced) own(hash uint64) uint64 {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	return b.filter.Hash(key[:])
}

func (b *builtReplaced) insert(hash uint64) (bool, error) { return b.replaced.insert(b.own(hash)) }
func (b *builtReplaced) remove(hash uint64) (bool, error) { return b.replaced.remove(b.own(hash)) }
func (b *builtReplaced) filled() peer.Count               { return b.took }

func (b *builtReplaced) count(hashes []uint64) int {
	b.hashes = b.hashes[:0]
	for _, hash := range hashes {
		b.hashes = append(b.hashes, b.own(hash))
	}
	return b.replaced.count(b.hashes)
}

// seiflotfyReplaced is the filter that makeSeiflotfy makes.
type seiflotfyReplaced struct {
	filter *seiflotfy.Filter
	slots  int64
}

func createSeiflotfyReplaced(_ *session, n uint64) (replaceable, error) {
	return &seiflotfyReplaced{seiflotfy.NewFilter(uint(n)), int64(1) << bits.Len64(max(n, 4)-1)}, nil
}

func (r *seiflotfyReplaced) insert(hash uint64) (bool, error) {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	return r.filter.Insert(key[:]), nil
}

func (r *seiflotfyReplaced) remove(hash uint64) (bool, error) {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	return r.filter.Delete(key[:]), nil
}

func (r *seiflotfyReplaced) count(hashes []uint64) (n int) {
	var key [8]byte
	for _, hash := range hashes {
		binary.LittleEndian.PutUint64(key[:], hash)
		if r.filter.Lookup(key[:]) {
			n++
		}
	}
	return n
}

// second computes the share from the slots. A lookup reads the second bucket unless the first
// holds the fingerprint, which is one of 255.
func (r *seiflotfyReplaced) second() (share, off float64, err error) {
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
	return 1 - float64(matching)/float64(fingerprints*r.slots/b), 0, nil
}

func (r *seiflotfyReplaced) sync() error   { return nil }
func (r *seiflotfyReplaced) stash() int    { return 0 }
func (r *seiflotfyReplaced) bits() int64   { return 8 * r.slots }
func (r *seiflotfyReplaced) shape() string { return "seiflotfy/cuckoofilter, f=8, b=4" }
func (r *seiflotfyReplaced) close() error  { return nil }

// linvonBits are the shortest fingerprints that keep the default rate with 4 slots a bucket.
const linvonBits = 10

// linvonReplaced is a filter with single or, as that library calls semi-sorted ones, packed
// buckets.
type linvonReplaced struct {
	filter *linvon.Filter
	table  uint
}

func createLinvonReplaced(table uint) func(*session, uint64) (replaceable, error) {
	return func(_ *session, n uint64) (replaceable, error) {
		return &linvonReplaced{linvon.NewFilter(4, linvonBits, uint(n), table), table}, nil
	}
}

func (r *linvonReplaced) insert(hash uint64) (bool, error) {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	return r.filter.Add(key[:]), nil
}

func (r *linvonReplaced) remove(hash uint64) (bool, error) {
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], hash)
	return r.filter.Delete(key[:]), nil
}

func (r *linvonReplaced) count(hashes []uint64) (n int) {
	var key [8]byte
	for _, hash := range hashes {
		binary.LittleEndian.PutUint64(key[:], hash)
		if r.filter.Contain(key[:]) {
			n++
		}
	}
	return n
}

// second computes the share from the load. A lookup in a packed table reads both buckets; in a
// single one it reads their slots in turns, and so the second bucket too, unless the first slot
// matches, which is taken to be as full as others.
func (r *linvonReplaced) second() (share, off float64, err error) {
	if r.table == linvon.TableTypePacked {
		return 1, 0, nil
	}
	return 1 - r.filter.LoadFactor()/(1<<linvonBits-1), 0, nil
}

func (r *linvonReplaced) sync() error  { return nil }
func (r *linvonReplaced) stash() int   { return 0 }
func (r *linvonReplaced) bits() int64  { return 8 * int64(r.filter.SizeInBytes()) }
func (r *linvonReplaced) close() error { return nil }

func (r *linvonReplaced) shape() string {
	name := fmt.Sprintf("linvon/cuckoo-filter, f=%d, b=4", linvonBits)
	if r.table == linvon.TableTypePacked {
		name += ", semi-sorted"
	}
	return name
}

// hashOf returns the hash of a numbered key. Different numbers have different hashes.
func (s *session) hashOf(number uint64) uint64 {
	var key peer.Key
	key.Set(s.seed, number)
	return binary.LittleEndian.Uint64(key[:])
}
