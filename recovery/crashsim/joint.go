package crashsim

import (
	"math/rand/v2"

	"github.com/mmapfilter/mmapfilter/layout"
)

// NewFilter is NewVolume for an explorer of its own, such as one that crashes a store together with
// the filter of its keys. edit changes the superblock before it is signed.
func NewFilter(g layout.Geometry, seed uint64, sectorBytes int, edit func(*layout.Superblock)) *Volume {
	return newVolume(g, seed, sectorBytes, false, head(g, seed, false, 0, edit))
}

// NewBeside makes an empty filter that may take the place of the one of the volume. Its LSNs begin
// after lsn.
func (v *Volume) NewBeside(g layout.Geometry, seed, lsn uint64, edit func(*layout.Superblock)) *Beside {
	return v.besideOf(g, seed, false, head(g, seed, false, lsn, edit))
}

// Watch has each called after every event, where a crash can come, until it is nil.
func (v *Volume) Watch(each func(Event)) { v.each = each }

// Mute has nothing count as an event while do runs.
func (v *Volume) Mute(do func() error) error {
	muted := v.muted
	v.muted = true
	defer func() { v.muted = muted }()
	return do()
}

// AfterKill returns what is there after the process has been killed.
func (v *Volume) AfterKill(rng *rand.Rand) *Volume {
	w := new(Volume)
	w.kill(v)
	w.reseed(rng.Uint64())
	return w
}

// AfterPowerLoss returns what may be there after a power loss.
func (v *Volume) AfterPowerLoss(rng *rand.Rand) *Volume {
	w, b, names := new(Volume), &biases[rng.IntN(len(biases))], rng.IntN(4)
	w.lose(v, Loss{
		Keep: func(n uint32) uint32 { return b.keep(rng, n) },
		Names: func(n int) int {
			if names == 0 {
				return n
			}
			return rng.IntN(n + 1)
		},
	}, rng)
	w.reseed(rng.Uint64())
	return w
}
