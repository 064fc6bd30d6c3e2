package crashsim

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// NewVolume makes a volume with an empty, clean filter file. Sectors have 8, 64, 512 or
// 4096 bytes. keep says whether the filter keeps its hashes.
func NewVolume(g layout.Geometry, seed uint64, sectorBytes int, keep bool) *Volume {
	return newVolume(g, seed, sectorBytes, keep, emptyHead(g, seed, keep))
}

func newVolume(g layout.Geometry, seed uint64, sectorBytes int, keep bool, head []uint64) *Volume {
	v := new(Volume)
	v.reseed(seed)
	for v.shift = 0; 8<<v.shift < sectorBytes; v.shift++ {
	}
	v.filter = &v.disks[0]
	v.filter.init(int(g.SealedBytes/8), v.shift)
	for i, w := range head {
		if w != 0 {
			v.filter.cache.set(uint64(i), w)
			v.filter.durable.set(uint64(i), w)
		}
	}
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

// emptyHead returns the superblocks of an empty filter.
func emptyHead(g layout.Geometry, seed uint64, keep bool) []uint64 {
	return head(g, seed, keep, 0, func(*layout.Superblock) {})
}

// head is emptyHead with a last LSN, and a function that changes the superblock.
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
	edit(&sb)
	sb.Sign()
	words := make([]uint64, layout.OffRuntime/8)
	for i := range words {
		words[i] = sb.Word(i % (layout.SuperblockBytes / 8))
	}
	return words
}
