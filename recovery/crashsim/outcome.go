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
	v.choose(o, loss)
	v.become(o)
	if loss.Trash {
		return v.trashOne(o, rng)
	}
	return false
}

// choose chooses what a power loss leaves of o.
func (v *Volume) choose(o *Volume, loss Loss) {
	c := &v.outcome
	c.names, c.kept = o.dir.durable, c.kept[:0]
	if n := loss.Names(len(o.dir.unsynced)); n > 0 {
		c.names = o.dir.unsynced[n-1]
	}
	d := &o.disks[c.names[filterName]]
	for _, s := range d.dirty {
		c.kept = append(c.kept, loss.Keep(d.versions[s].count()))
	}
	for i, l := range o.logs {
		if !c.names.has(i) {
			continue
		}
		for _, s := range l.dirty {
			c.kept = append(c.kept, loss.Keep(l.versions[s].count()))
		}
		if l.durableSize != l.size {
			c.kept = append(c.kept, loss.Keep(1))
		}
	}
}

// has reports whether a log has a name.
func (n *names) has(log int) bool { return slices.Contains(n[:filterName], log) }

// become puts v into the state of o after the power loss that choose has chosen.
func (v *Volume) become(o *Volume) {
	v.copyRest(o)
	v.source, v.clock = o.source, o.clock
	c := &v.outcome
	v.dir = directory{names: c.names, durable: c.names, unsynced: v.dir.unsynced[:0]}
	v.filter, v.had = &v.disks[c.names[filterName]], [2]bool{}
	kept := v.filter.loseFrom(&o.disks[c.names[filterName]], c.kept)
	for i, l := range o.logs {
		w := v.logs[i]
		w.open = false
		if !c.names.has(i) {
			w.size, w.durableSize = 0, 0
			continue
		}
		kept = w.disk.loseFrom(&l.disk, kept)
		w.size = l.size
		if l.durableSize != l.size {
			if kept[0] == 0 {
				w.size = l.durableSize
			}
			kept = kept[1:]
		}
		w.durableSize = w.size
	}
}

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

// look computes the outlooks of the files.
func (v *Volume) look() {
	for i := range v.disks {
		if v.uses(i) {
			v.disks[i].look()
		}
	}
	for i, l := range v.logs {
		if v.dir.names.has(i) || v.dir.durable.has(i) || slices.ContainsFunc(v.dir.unsynced, func(n names) bool { return n.has(i) }) {
			l.look()
		}
	}
}

// lostHash returns what hash will return after the power loss that choose has chosen. The
// outlooks of o must be those of its current state.
func (v *Volume) lostHash(o *Volume) uint64 {
	c := &v.outcome
	d := &o.disks[c.names[filterName]]
	h, kept := d.outlook.hash(d, c.kept)
	for i, l := range o.logs {
		if !c.names.has(i) {
			continue
		}
		var content uint64
		content, kept = l.outlook.hash(&l.disk, kept)
		size := l.size
		if l.durableSize != l.size {
			if kept[0] == 0 {
				size = l.durableSize
			}
			kept = kept[1:]
		}
		for n, j := range c.names[:filterName] {
			if i == j {
				h += hashOfLog(name(n), content, size)
			}
		}
	}
	return h
}
