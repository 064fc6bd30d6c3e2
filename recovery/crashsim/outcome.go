package crashsim

import (
	"math/rand/v2"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Loss says what a power loss leaves.
type Loss struct {
	// Keep chooses the version that a dirty sector has afterwards: 0 is what the disk
	// had, versions is the newest.
	Keep func(versions uint32) uint32
	// Names chooses how many of the changes to the directory count.
	Names func(changes int) int
	// Trash says whether to trash a sector, if there is one.
	Trash bool
}

// lose puts v into the state of o after a power loss. It reports whether a sector was trashed.
func (v *Volume) lose(o *Volume, loss Loss, rng *rand.Rand) (trashed bool) {
	v.copyRest(o)
	v.source, v.clock = o.source, o.clock
	names := o.dir.durable
	if n := loss.Names(len(o.dir.unsynced)); n > 0 {
		names = o.dir.unsynced[n-1]
	}
	v.dir = directory{names: names, durable: names, unsynced: v.dir.unsynced[:0]}
	i := names[filterName]
	v.filter, v.had = &v.disks[i], [2]bool{}
	v.filter.loseFrom(&o.disks[i], loss.Keep)
	for i, l := range o.logs {
		w := v.logs[i]
		w.open = false
		if !names.has(i) {
			w.size, w.durableSize = 0, 0
			continue
		}
		w.disk.loseFrom(&l.disk, loss.Keep)
		w.size = l.size
		if l.durableSize != l.size && loss.Keep(1) == 0 {
			w.size = l.durableSize
		}
		w.durableSize = w.size
	}
	return loss.Trash && v.trashOne(o, rng)
}

// has reports whether a log has a name.
func (n *names) has(log int) bool { return slices.Contains(n[:filterName], log) }

// trashOne trashes one of the sectors that o was writing.
func (v *Volume) trashOne(o *Volume, rng *rand.Rand) (trashed bool) {
	n := 0
	var chosen *disk
	var sector uint32
	o.disks[v.dir.names[filterName]].changing(layout.WordRuntime, func(s uint32) {
		if n++; rng.IntN(n) == 0 {
			chosen, sector = v.filter, s
		}
	})
	for i, l := range o.logs {
		if v.logs[i].size == 0 {
			continue
		}
		l.changing(uint64(l.size), func(s uint32) {
			if n++; rng.IntN(n) == 0 {
				chosen, sector = &v.logs[i].disk, s
			}
		})
	}
	if chosen == nil {
		return false
	}
	chosen.trash(sector, rng)
	return true
}
