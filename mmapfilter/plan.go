package mmapfilter

import (
	"fmt"
	"math/rand/v2"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Plan is the size and properties of the filter that [Options] describe.
type Plan struct {
	Capacity        uint64
	Layout          layout.Kind
	Quotients       int     // Q, in Compact: a fingerprint is one of Q · 2^r
	RemainderBits   int     // r, in Compact
	FingerprintBits int     // f, in Packed and SemiSorted
	BucketSize      int     // b, in Packed and SemiSorted
	DesignLoad      float64 // items / slots when the filter holds Capacity items
	Lines           uint64  // of 64 bytes in Compact; buckets in Packed and SemiSorted
	FileBytes       int64   // size of the sealed file
	BitsPerKey      float64 // bits of the whole file / Capacity; 0 if Capacity is 0
	TargetRate      float64 // false-positive rate asked for, or the one that follows from FingerprintBits
	PredictedRate   float64 // false-positive rate when the filter holds Capacity items
	SecondProbeRate float64 // share of lookups of absent keys that read a second line

	geometry layout.Geometry
}

// Plan works out the filter that the options describe. If they cannot be met, the error is an
// [*OptionError].
//
// Of the parameters of the layout and the design loads whose predicted rate is at most the requested
// one, Plan takes those of the smallest filter.
func (o *Options) Plan() (Plan, error) {
	if err := o.validate(); err != nil {
		return Plan{}, err
	}
	d := o.withDefaults()
	return d.plan(d.Capacity)
}

// plan is Plan for valid options with defaults, and a capacity that may be a count of keys.
func (o *Options) plan(capacity uint64) (Plan, error) {
	size, refused := o.wish(capacity).Size()
	if refused != nil {
		return Plan{}, (*OptionError)(refused)
	}
	g := size.Geometry
	p := Plan{
		Capacity:        capacity,
		Layout:          g.Kind,
		Quotients:       g.Params.Quotients,
		RemainderBits:   g.Params.RemainderBits,
		FingerprintBits: g.Params.FingerprintBits,
		BucketSize:      g.Params.BucketSize,
		DesignLoad:      size.DesignLoad,
		Lines:           g.Lines,
		FileBytes:       g.SealedBytes,
		TargetRate:      o.FalsePositiveRate,
		PredictedRate:   size.Rate,
		SecondProbeRate: size.Second,
		geometry:        g,
	}
	if o.FingerprintBits != 0 {
		p.TargetRate = build.ImpliedRate(g, p.DesignLoad)
	}
	if capacity > 0 {
		p.BitsPerKey = float64(p.FileBytes) * 8 / float64(capacity)
	}
	return p, nil
}

// newSuperblock returns the first superblock of a file, without state, UUID and
// signature.
func newSuperblock(p Plan, o Options) (sb layout.Superblock) {
	sb.SetGeneration(1)
	sb.SetGeometry(p.geometry)
	sb.SetSeed(o.Seed)
	sb.SetCapacity(p.Capacity)
	sb.SetTargetRate(p.TargetRate)
	sb.SetDesignLoad(p.DesignLoad)
	sb.SetNormalisation(o.Normalisation)
	if o.KeepHashes {
		sb.SetKeepsHashes(o.AutoGrow)
	}
	sb.SetShard(o.shard)
	sb.SetShardIdentity(o.identity)
	return sb
}

// buildingShard returns what building a shard of a set needs.
func (o *Options) buildingShard(shard layout.Shard) (build.Config, error) {
	if err := o.validate(); err != nil {
		return build.Config{}, err
	}
	d := o.withDefaults()
	d.shard = shard
	return d.building(), nil
}

// building returns the part of the options that a build needs. o has its defaults filled in.
func (o Options) building() build.Config {
	return build.Config{
		Seed:         o.Seed,
		Shard:        o.shard,
		Capacity:     o.Capacity,
		Distinct:     o.Distinct,
		Workers:      o.Workers,
		MemoryBudget: o.MemoryBudget,
		Progress:     o.Progress,
		Overwrite:    o.Overwrite,
		MinKeys:      o.MinKeys,
		Mode:         o.Mode,
		Keep:         o.KeepHashes,
		Identity:     rand.Uint64(),
		Now:          osfile.Now(),
		LastTime:     osfile.Now(),
		Plan: func(capacity uint64) (build.Plan, error) {
			p, err := o.plan(capacity)
			if err != nil {
				return build.Plan{}, err
			}
			sb := newSuperblock(p, o)
			return build.Plan{
				Geometry:   p.geometry,
				Superblock: sb,
				Limit:      build.Limit(&sb, p.geometry),
				Beyond:     fmt.Sprintf("would raise the false-positive rate above %g times %g", build.OverRate, sb.TargetRate()),
			}, nil
		},
	}
}
