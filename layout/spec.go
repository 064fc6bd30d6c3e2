package layout

import (
	"fmt"
	"maps"
	"slices"
)

// A Spec describes a layout for all parameters.
type Spec struct {
	Name   string
	Params []Params // the legal parameters, by rising number of fingerprints
	// ItemBits is how many bits of a hash an item uses besides its line.
	ItemBits func(p Params) int
	// SlotsPerLine and LineBits size the region. Lines follow one another without a gap.
	SlotsPerLine func(p Params) int
	LineBits     func(p Params) int
	Loads        func(p Params) Loads
	Bounds       func(p Params) Bounds
	// Predict predicts what lookups of absent keys meet on average in a table with a load.
	Predict func(p Params, load float64) Absent
	// Crowded returns about how many entries of the stash a table with this number of lines and
	// this load needs for classes that have more items than places. It is nil if there are
	// hardly any such classes.
	Crowded func(p Params, lines, load float64) float64
	Bind    func(p Params, lines uint64) Table
}

// specs holds every layout that this program can read and write.
var specs = map[Kind]*Spec{}

// Register makes a layout known. The package of a layout calls it from its init function;
// package layout/all imports all layouts of this module.
func Register(k Kind, s *Spec) {
	if k == Auto || specs[k] != nil {
		panic(fmt.Sprintf("layout: kind %d has a layout already", uint8(k)))
	}
	specs[k] = s
	kindNames[k] = s.Name
}

// Kinds returns the layouts that exist, ordered by number.
func Kinds() []Kind { return slices.Sorted(maps.Keys(specs)) }

// LegalParams returns the parameters that a layout may have, by rising number of fingerprints,
// or nil for a layout unknown to this program.
func LegalParams(k Kind) []Params {
	if s := specs[k]; s != nil {
		return s.Params
	}
	return nil
}

// Predict predicts what lookups of absent keys meet in a table filled to load, from 0 to 1.
func Predict(k Kind, p Params, load float64) Absent { return specs[k].Predict(p, load) }

// SlotsPerLine returns the number of slots in a line.
func SlotsPerLine(k Kind, p Params) int { return specs[k].SlotsPerLine(p) }

// LineBits returns the size of a line in bits.
func LineBits(k Kind, p Params) int { return specs[k].LineBits(p) }

// DesignLoads returns the loads that a table may be sized for.
func DesignLoads(k Kind, p Params) Loads { return specs[k].Loads(p) }

// BoundsOf returns the bounds of the work on one item.
func BoundsOf(k Kind, p Params) Bounds { return specs[k].Bounds(p) }

// Crowded returns about how many stash entries a table with this number of lines needs at
// this load for classes that have more items than places.
func Crowded(k Kind, p Params, lines, load float64) float64 {
	if specs[k].Crowded == nil {
		return 0
	}
	return specs[k].Crowded(p, lines, load)
}
