package crashsim

import (
	"math/rand/v2"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// NewVolume creates a volume with an empty, clean filter file. Sectors have 8, 64, 512 or
// 4096 bytes. keep says whether the filter keeps its hashes. edit, if not nil, changes the superblock
// before it is signed.
func NewVolume(g layout.Geometry, seed uint64, sectorBytes int, keep bool, edit func(*layout.Superblock)) *Volume {
	v := new(Volume)
	v.v = v
	v.reseed(seed)
	for v.shift = 0; 8<<v.shift < sectorBytes; v.shift++ {
	}
	v.filter = &v.disks[0]
	v.filter.begin(g, v.shift, head(g, seed, keep, 0, edit))
	for i := range v.dir.names {
		v.dir.names[i] = noFile
	}
	v.dir.names[filterName] = 0
	if keep {
		v.keepHashes(seed, firstHashes)
	}
	v.dir.durable = v.dir.names
	return v
}

// begin makes d a clean filter file with these superblocks.
func (d *disk) begin(g layout.Geometry, shift uint, head []uint64) {
	d.init(int(g.SealedBytes/8), shift)
	for i, w := range head {
		d.cache.set(uint64(i), w)
		d.durable.set(uint64(i), w)
	}
}

// head returns the superblocks of an empty filter, whose LSNs begin after lsn.
func head(g layout.Geometry, seed uint64, keep bool, lsn uint64, edit func(*layout.Superblock)) []uint64 {
	var sb layout.Superblock
	sb.SetCheckpointLSN(lsn)
	sb.SetGeneration(1)
	sb.SetState(layout.Clean)
	sb.SetGeometry(g)
	sb.SetSeed(seed)
	sb.SetCapacity(g.Slots())
	sb.SetTargetRate(0.01)
	sb.SetDesignLoad(0.95)
	sb.SetUUID([16]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 1})
	if keep {
		h := hashes.Header{Identity: identityOf(seed)}
		sb.SetKeepsHashes(false)
		sb.SetHashes(layout.Hashes{Identity: h.Identity, Pages: hashes.FirstBase, Check: h.Page(0).Check(0)})
	}
	if edit != nil {
		edit(&sb)
	}
	sb.Sign()
	words := make([]uint64, layout.OffRuntime/8)
	for i := range words {
		words[i] = sb.Word(i % superblockWords)
	}
	return words
}

// Watch sets a function that the volume calls after every event; nil means none. A crash can come after
// any event.
func (v *Volume) Watch(each func(Event)) { v.each = each }

// Mute calls a function. Meanwhile, no events are counted or reported.
func (v *Volume) Mute(do func() error) error {
	muted := v.muted
	v.muted = true
	defer func() { v.muted = muted }()
	return do()
}

// AfterKill returns the volume as it is after the process has been killed.
func (v *Volume) AfterKill(rng *rand.Rand) *Volume {
	w := new(Volume)
	w.kill(v)
	w.reseed(rng.Uint64())
	return w
}

// AfterPowerLoss returns the volume as it may be after a power loss.
func (v *Volume) AfterPowerLoss(rng *rand.Rand) *Volume {
	w := new(Volume)
	loss, _ := randomLoss(rng)
	w.lose(v, loss, rng)
	w.reseed(rng.Uint64())
	return w
}
