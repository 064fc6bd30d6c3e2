package build

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// checkHashes compares the table with the hashes that the filter has kept (K6, K7): the table must
// have the items to which the base and the operations lead, by class, and no others. So it finds a
// changed bit of a line in a file without checksums. It also looks up each key of the history. If a
// key is not found because a delete of an absent key has taken its item, that is not damage: such
// keys are counted. In layouts whose overflow bits are exact, checkHashes also finds a bit that is
// set and should not be.
func (v *verification) checkHashes(ctx context.Context, path string) error {
	sb, g := v.head.Superblock, v.head.Geometry
	kept, err := osfile.OpenHashesOf(path, sb)
	if err != nil {
		v.report.HashesErr = err
		return nil
	}
	defer kept.File.Close()
	temporary := Beside(filepath.Join(os.TempDir(), "mmapfilter-verify"))
	m, err := OpenKept(ctx, temporary, runtime.GOMAXPROCS(0), KeptBudget, []recovery.Kept{kept}, Unaged())
	if err != nil {
		return v.hashesBroken(err)
	}
	defer m.Close()
	t := layout.NewTable(g)
	view, pieces := viewOf(v.data, g), newPieces(g)
	sums := newClassSums(t, pieces.n)
	stolen := make(map[layout.Class]struct{}) // classes from which strays have taken items
	var lost []uint64
	m.Held = func(hash uint64, items int64, stray uint64) {
		c := t.Class(t.Split(hash))
		sums.add(c, uint64(items))
		if v.report.Strays += stray; stray > 0 {
			stolen[c] = struct{}{}
		}
	}
	var found []bool
	err = m.Each(ctx, func(sorted []uint64, _ []uint8) error {
		found = slices.Grow(found[:0], len(sorted))[:len(sorted)]
		v.guarded(func() { layout.ContainsHashes(t, &view, sorted, found) })
		for i, h := range sorted {
			if !found[i] {
				lost = append(lost, h)
			}
		}
		v.report.Hashes += uint64(len(sorted))
		return nil
	})
	if err != nil {
		return v.hashesBroken(err)
	}
	v.report.LeftOut, v.report.Waiting = sb.Kept().LeftOut, sb.Kept().Waiting
	v.guarded(func() { sums.subtract(&view) })
	for i := range sums.pieces {
		if sums.pieces[i] != [2]uint64{} {
			from, _ := pieces.lines(i)
			v.damaged(&layout.CorruptError{Region: layout.RegionBuckets, Offset: g.LineOffset(from), Rule: "K6", What: "the lines from here on have other items than the kept hashes"})
		}
	}
	v.report.NotFound = uint64(len(lost))
	hidden := slices.DeleteFunc(lost, func(h uint64) bool {
		_, ok := stolen[t.Class(t.Split(h))]
		return ok
	})
	if n := len(hidden); n > 0 && len(v.report.Damage) == 0 {
		v.damaged(&layout.CorruptError{Region: layout.RegionBuckets, Offset: layout.OffRegion, Rule: "K6", What: fmt.Sprintf("lookups do not find %d of the kept hashes", n)})
	}
	if hosts, ok := t.(layout.Hosts); ok && len(v.report.Damage) == 0 {
		v.guarded(func() {
			hosts.MakeBits(&view, 0, g.Lines, func(word, _ uint64) {
				v.damaged(&layout.CorruptError{Region: layout.RegionBuckets, Offset: layout.OffRegion + int64(word)*8, Rule: "K6", What: "overflow bits are set that no item needs"})
			})
		})
	}
	return nil
}

// hashesBroken records damage of NAME.hashes, and returns any other error.
func (v *verification) hashesBroken(err error) error {
	if errors.Is(err, recovery.ErrHashes) {
		v.report.HashesErr = err
		return nil
	}
	return err
}

// classSums tell two multisets of items apart, piece by piece of the file. Each piece has two sums of a
// mix of the classes of its items. Different items have equal sums with a probability of 2^-128.
type classSums struct {
	table  layout.Table
	pieces [][2]uint64
}

func newClassSums(t layout.Table, pieces int) *classSums {
	return &classSums{t, make([][2]uint64, pieces)}
}

// add adds n items of a class.
func (s *classSums) add(c layout.Class, n uint64) {
	high, low := bits.Mul64(c.Line*layout.MixFirst+uint64(c.Bucket)+1, layout.MixSecond^uint64(c.Fp)*layout.MixFirst)
	over, under := bits.Mul64(c.Line, uint64(len(s.pieces)))
	at, _ := bits.Div64(over, under, s.table.Lines())
	sum := &s.pieces[at]
	sum[0] += n * mixed(high^low)
	sum[1] += n * mixed(high+low)
}

// mixed is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// subtract takes away all items of a table.
func (s *classSums) subtract(v *layout.View) {
	var l layout.Line
	var items []layout.Item
	for line := range s.table.Lines() {
		layout.Load(s.table, v.Region, line, &l)
		items = s.table.Items(items[:0], &l, line)
		for _, it := range items {
			s.add(s.table.Class(it), ^uint64(0))
		}
	}
	layout.StashClasses(v.Stash, func(c layout.Class, n uint64) { s.add(c, -n) })
}
