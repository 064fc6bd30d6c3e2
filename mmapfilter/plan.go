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
	Capacity        uint64      `json:"capacity"` // keys the filter is sized for
	Layout          layout.Kind `json:"layout"`
	Quotients       int         `json:"quotients,omitempty"`        // Q, in Compact: a fingerprint is one of Q · 2^r
	RemainderBits   int         `json:"remainder_bits,omitempty"`   // r, in Compact
	FingerprintBits int         `json:"fingerprint_bits,omitempty"` // f, in Packed and SemiSorted
	BucketSize      int         `json:"bucket_size,omitempty"`      // b, in Packed and SemiSorted
	Lines           uint64      `json:"lines"`                      // lines of 64 bytes in Compact; buckets in Packed and SemiSorted
	Slots           uint64      `json:"slots"`                      // each has room for one fingerprint
	DesignLoad      float64     `json:"design_load"`                // items / slots when the filter holds Capacity items
	TargetRate      float64     `json:"target_rate"`                // false-positive rate asked for, or the one that follows from FingerprintBits
	PredictedRate   float64     `json:"predicted_rate"`             // false-positive rate when the filter holds Capacity items
	BitsPerKey      float64     `json:"bits_per_key"`               // bits of the whole file / Capacity; 0 if Capacity is 0
	SecondProbeRate float64     `json:"second_probe_rate"`          // share of lookups of absent keys that read a second line
	FileBytes       int64       `json:"file_bytes"`                 // size of the sealed file

	geometry layout.Geometry
}

// Plan works out the filter that the options describe. If they cannot be met, the error is an
// [*OptionError].
//
// From all parameters of the layout, and all design loads, whose predicted rate is at most the requested
// rate, Plan chooses those that give the smallest filter.
func (o *Options) Plan() (Plan, error) {
	if err := o.validate(); err != nil {
		return Plan{}, err
	}
	d := o.withDefaults()
	return d.plan(d.Capacity)
}

// plan is Plan for valid options with defaults. capacity may be the Capacity or a count of
// keys.
func (o *Options) plan(capacity uint64) (Plan, error) {
	size, refused := o.wish(capacity).Size()
	if refused != nil {
		return Plan{}, (*OptionError)(refused)
	}
	target := o.FalsePositiveRate
	if o.FingerprintBits != 0 {
		target = build.ImpliedRate(size.Geometry, size.DesignLoad)
	}
	p := planOf(size.Geometry, capacity, size.DesignLoad, target)
	p.PredictedRate = size.Rate // rounded
	return p, nil
}

// planOf returns the plan of a file.
func planOf(g layout.Geometry, capacity uint64, designLoad, target float64) Plan {
	predicted := layout.Predict(g.Kind, g.Params, designLoad)
	p := Plan{
		Capacity:        capacity,
		Layout:          g.Kind,
		Quotients:       g.Params.Quotients,
		RemainderBits:   g.Params.RemainderBits,
		FingerprintBits: g.Params.FingerprintBits,
		BucketSize:      g.Params.BucketSize,
		Lines:           g.Lines,
		Slots:           g.Slots(),
		DesignLoad:      designLoad,
		TargetRate:      target,
		PredictedRate:   predicted.Rate,
		SecondProbeRate: predicted.Second,
		FileBytes:       g.SealedBytes,
		geometry:        g,
	}
	if capacity > 0 {
		p.BitsPerKey = float64(p.FileBytes) * 8 / float64(capacity)
	}
	return p
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
		sb.SetKeepChanges(uint64(o.KeepChanges))
		sb.SetExpireAfter(uint64(o.ExpireAfter))
	}
	sb.SetShard(o.shard)
	sb.SetShardIdentity(o.identity)
	return sb
}

// buildingShard returns the configuration for building a shard of a set.
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
		ExpireAfter:  uint64(o.ExpireAfter),
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
