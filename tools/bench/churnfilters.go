package main

import (
	"fmt"

	linvon "github.com/linvon/cuckoo-filter"
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
)

// A churned is a filter whose keys are replaced one at a time.
type churned struct {
	*Filter
	shape  string                            // name and parameters
	bits   int64                             // of its lines
	second func() (share float64, err error) // of the lookups of absent keys that read a second line or bucket
	stash  func() (entries int)              // in use, if it has a stash; or nil
}

// A churnSpec says how to make a filter for n keys. If filled is set, it has the keys 0 to n-1.
type churnSpec struct {
	name   string
	filled bool
	create func(s *session, n uint64) (*churned, error)
}

// The names of our filters: one is filled by inserts, the other is built.
const (
	defaultFilled = "default"
	defaultBuilt  = "default, built"
)

// churnSpecs returns our filters and, at the default rate, other filters that can delete.
func churnSpecs(rate float64) []churnSpec {
	asked := variant{rate: rate}
	all := []churnSpec{
		{defaultFilled, false, func(s *session, n uint64) (*churned, error) {
			opts := asked.options(n)
			opts.CommitInterval, opts.Seed = -1, s.seed
			f, err := mmapfilter.Create(s.path("churn.mmf"), &opts)
			if err != nil {
				return nil, err
			}
			return ourChurned(s, f), nil
		}},
		{defaultBuilt, true, func(s *session, n uint64) (*churned, error) {
			path, f, err := s.build("churn.mmf", asked.options(n), n)
			if err != nil {
				return nil, err
			}
			if err := f.Close(); err != nil {
				return nil, err
			}
			if f, err = mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1}); err != nil {
				return nil, err
			}
			return ourChurned(s, f), nil
		}},
	}
	if rate == defaultRate {
		all = append(all, churnSpec{"seiflotfy", false, churnedSeiflotfy}, churnSpec{"linvon", false, churnedLinvon})
	}
	return all
}

// ourChurned returns one of our filters, with a Sync every churnSync operations. In a large file,
// Stats reads only a sample of the lines.
func ourChurned(s *session, f *mmapfilter.Filter) *churned {
	st := f.Stats()
	return &churned{
		Filter: openLive(f, writing{syncEvery: churnSync}, s.seed),
		shape:  fmt.Sprintf("%v, %v", st.Layout, paramsOf(st)),
		bits:   int64(st.Lines) * int64(layout.LineBits(st.Layout, paramsOf(st))),
		second: func() (float64, error) {
			err := f.Sync() // Stats reads the file
			return f.Stats().SecondProbeRate, err
		},
		stash: func() int { return f.Stats().StashLen },
	}
}

func churnedSeiflotfy(s *session, n uint64) (*churned, error) {
	f := seiflotfy.NewFilter(uint(n))
	l := adaptSeiflotfy(s, f, n)
	return &churned{Filter: l, shape: "seiflotfy/cuckoofilter, f=8, b=4", bits: 8 * l.Size(), second: func() (float64, error) {
		return secondOfSeiflotfy(f.Encode()), nil
	}}, nil
}

// secondOfSeiflotfy computes the share from the slots. A lookup reads the second bucket unless the
// first bucket holds the fingerprint, which has 255 possible values.
func secondOfSeiflotfy(slots []byte) float64 {
	const b, fingerprints = 4, 255
	all, matching := len(slots), 0
	for ; len(slots) >= b; slots = slots[b:] {
		seen := [fingerprints + 1]bool{}
		for _, fp := range slots[:b] {
			if fp != 0 && !seen[fp] {
				seen[fp] = true
				matching++
			}
		}
	}
	return 1 - float64(matching)/float64(fingerprints*all/b)
}

// linvonBits are the shortest fingerprints that keep the default rate with 4 slots a bucket.
const linvonBits = 10

func churnedLinvon(s *session, n uint64) (*churned, error) {
	f := linvon.NewFilter(4, linvonBits, uint(n), linvon.TableTypeSingle)
	return &churned{
		Filter: &Filter{
			Seed: s.seed, Insert: Until(f.Add), Contains: Each(f.Contain), Delete: Each(f.Delete),
		},
		shape: fmt.Sprintf("linvon/cuckoo-filter, f=%d, b=4", linvonBits),
		bits:  8 * int64(f.SizeInBytes()),
		// A lookup reads the slots of both buckets in turn. So it reads the second bucket unless
		// the first slot matches. This assumes that the first slot is as full as the other slots.
		second: func() (float64, error) { return 1 - f.LoadFactor()/(1<<linvonBits-1), nil },
	}, nil
}
