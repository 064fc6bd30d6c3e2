// Package toy is the smallest possible layout. A line is one word: a bucket of four slots of 16
// bits, where 0 is an empty slot. Like the layouts of the paper, it has no overflow bits, and every
// lookup reads both lines. Importing the package registers it; only tests do.
//
// It shows what a new layout needs to work: the files of this folder. One that ships is also in
//
//	layout/kind.go, mmapfilter/options.go   its number and its name
//	layout/doc.go                           its format
//	layout/all                              its import
//	.ci/run, tools/house/doc.go             the lists of packages
//	layout/_asm                             its kernels, if it has any
package toy

import (
	"math"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Kind is the number of the layout, which no file outside a test has.
const Kind layout.Kind = 200

const (
	slots    = 4
	slotBits = 16
	values   = 1<<slotBits - 1 // fingerprints
)

func init() {
	layout.Register(Kind, &layout.Spec{
		Name:         "toy",
		ByName:       true,
		Params:       []layout.Params{{FingerprintBits: slotBits, BucketSize: slots}},
		ItemBits:     func(layout.Params) int { return slotBits },
		SlotsPerLine: func(layout.Params) int { return slots },
		LineBits:     func(layout.Params) int { return slots * slotBits },
		Loads:        func(layout.Params) layout.Loads { return layout.Loads{Least: 60, Usual: 95, Most: 95} },
		Bounds:       bounds,
		Predict:      func(_ layout.Params, load float64) layout.Absent { return absent(slots * load) },
		Bind:         func(_ layout.Params, lines uint64) layout.Table { return &table{lines} },
	})
}

// absent predicts the lookups of absent keys, both of whose lines have that many items.
func absent(items float64) layout.Absent {
	return layout.Absent{Rate: -math.Expm1(2 * items * math.Log1p(-1.0/values)), Second: 1}
}

type table struct{ lines uint64 }

func (t *table) Kind() layout.Kind { return Kind }
func (t *table) Params() layout.Params {
	return layout.Params{FingerprintBits: slotBits, BucketSize: slots}
}
func (t *table) Lines() uint64 { return t.lines }

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Fp: uint32(layout.Fingerprint(rest, values))}
}

func (t *table) Hash(it layout.Item) uint64 {
	return layout.JoinHash(it.Line, layout.LowestFraction(uint64(it.Fp), values), t.lines)
}

func (t *table) Alternate(it layout.Item) layout.Item {
	it.Line = layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *table) Legal(it layout.Item) bool { return it.Bucket == 0 && it.Fp >= 1 && it.Fp <= values }

func (t *table) Class(it layout.Item) layout.Class {
	return layout.Class{Line: min(it.Line, t.Alternate(it).Line), Fp: it.Fp}
}

// bounds has the values of package paper for four slots.
func bounds(layout.Params) layout.Bounds {
	return layout.Bounds{SearchLines: 500, PathMoves: 16, PlaceStores: 1, RemoveStores: 1}
}

func (t *table) Words(line uint64) (first uint64, n int) { return line, 1 }

func slot(w uint64, i int) uint32 { return uint32(w >> (slotBits * i) & values) }

// swap puts fp into the first slot that has old.
func swap(l *layout.Line, old, fp uint32, s *layout.Stores) bool {
	for i := range slots {
		if slot(l[0], i) == old {
			l[0] ^= uint64(old^fp) << (slotBits * i)
			s.Add(0, old != 0)
			return true
		}
	}
	return false
}

func (t *table) Place(l *layout.Line, it layout.Item, s *layout.Stores) bool {
	return swap(l, 0, it.Fp, s)
}

func (t *table) Remove(l *layout.Line, it layout.Item, s *layout.Stores) bool {
	return swap(l, it.Fp, 0, s)
}

func count(w uint64, fp uint32) (n int) {
	for i := range slots {
		if slot(w, i) == fp {
			n++
		}
	}
	return n
}

func (t *table) Free(words []uint64, _ uint64) uint64 {
	return uint64(count(atomic.LoadUint64(&words[0]), 0))
}

func (t *table) Victims(dst []layout.Item, l *layout.Line, it layout.Item, _ bool) (victims []layout.Item, more bool) {
	dst = dst[:0]
	for i := range slots {
		if fp := slot(l[0], i); fp != 0 {
			dst = append(dst, layout.Item{Line: it.Line, Fp: fp})
		}
	}
	return dst, false
}

func (t *table) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	for line = from; line < to; line++ {
		items += uint64(slots - count(region[line], 0))
	}
	return items, line, nil
}

func (t *table) Items(dst []layout.Item, l *layout.Line, line uint64) []layout.Item {
	for i := range slots {
		if fp := slot(l[0], i); fp != 0 {
			dst = append(dst, layout.Item{Line: line, Fp: fp})
		}
	}
	return dst
}

func (t *table) Probe(l *layout.Line, _ uint64) layout.Absent {
	return absent(float64(slots - count(l[0], 0)))
}

func (t *table) LookAt(at func(word uint64) uint64, it layout.Item) (found, beyond bool) {
	return count(at(layout.WordRegion+it.Line), it.Fp) > 0, true
}

func (t *table) Look(words []uint64, it layout.Item) (found, beyond bool) {
	return count(atomic.LoadUint64(&words[0]), it.Fp) > 0, true
}

func (t *table) FirstLook(*layout.View, uint64) (found, open bool) { return false, true }
