package crashsim

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// recovered returns the point that a recovery has led to (O1).
func (l *life) recovered(r *recovery.Recovery) Point {
	return l.leadsTo("O1", "the recovery", r, l.floor, l.u().image(l.v))
}

// leadsTo returns the point that a recovery, or a copy, has led to, by its LSN. It fails with the
// oracle if the LSN is below floor, or if the point differs from r or from the image. what is the
// subject of the message.
func (l *life) leadsTo(oracle, what string, r *recovery.Recovery, floor uint64, image []uint64) Point {
	points := l.known()
	if r.LSN < floor {
		l.fail(oracle, "%s ends at LSN %d, but %d was durable", what, r.LSN, floor)
	}
	i := -1
	for i+1 < len(points) && points[i+1].LSN <= r.LSN {
		i++
	}
	if i < 0 {
		l.fail(oracle, "%s ends at LSN %d, before the first LSN", what, r.LSN)
	}
	reasons := ""
	for _, p := range points[i:min(i+2, len(points))] {
		reason := ""
		switch {
		case r.UserSeq != p.UserSeq || r.Operations < p.OpMin || r.Operations > p.OpMax:
			reason = fmt.Sprintf("user sequence %d and %d operations, not %d and %d to %d", r.UserSeq, r.Operations, p.UserSeq, p.OpMin, p.OpMax)
		case r.Length != p.Length:
			reason = fmt.Sprintf("%d items, not %d", r.Length, p.Length)
		case equal(image, p.Image) != len(image):
			reason = differ(image, p.Image)
		}
		if reason == "" {
			p.LSN = r.LSN
			return p
		}
		reasons += fmt.Sprintf("; as at LSN %d: %s", p.LSN, reason)
		if p.LSN == r.LSN {
			break
		}
	}
	l.fail(oracle, "%s ends at LSN %d%s", what, r.LSN, reasons)
	return Point{}
}

// differ says in how many words two images differ, and which word is the first of these.
func differ(got, want []uint64) string {
	n, first := 0, -1
	for i := range got {
		if got[i] != want[i] {
			if n++; first < 0 {
				first = i
			}
		}
	}
	return fmt.Sprintf("%d words of stash and region, the first of them word %d of the file: %#x, not %#x",
		n, layout.WordStash+first, got[first], want[first])
}

// fillerChecks is how many of the items that no trace touches are checked at a time.
const fillerChecks = 16

// present checks O2 and O3 on an image: every item is found, and has a copy of its own.
func (l *life) present(counts, meant *Counts, image []uint64) {
	v := l.x.look(image, noRuntime)
	l.keysPresent(counts, meant, v)
	l.fillersPresent(v)
}

// keysPresent is present for the keys. The words are those that l.x.at returns.
func (l *life) keysPresent(counts, meant *Counts, v *layout.View) {
	u := l.u()
	for i := range u.keys {
		if counts[i]|meant[i] != 0 && !layout.Lookup(u.table, l.x.at, u.keys[i].hash) {
			l.fail("O3", "key %d is answered absent", i)
		}
	}
	for c := range u.mine {
		l.copies(c, counts, v)
	}
}

var noRuntime = make([]uint64, layout.RuntimeWords)

// look returns the view of an image and a runtime page, and makes x.at return words of this view.
func (x *worker) look(image, runtime []uint64) *layout.View {
	x.view = layout.View{Region: image[layout.StashWords:], Stash: image[:layout.StashWords], Runtime: runtime}
	return &x.view
}

// fillersPresent is keysPresent for some of the fillers.
func (l *life) fillersPresent(v *layout.View) {
	u := l.u()
	var first int
	if n := len(u.fillers); n > fillerChecks {
		first = l.x.rng.IntN(n - fillerChecks)
	}
	for i := first; i < min(first+fillerChecks, len(u.fillers)); i++ {
		if !layout.Lookup(u.table, l.x.at, u.fillers[i].hash) {
			l.fail("O3", "filler %d is answered absent", i)
		}
		if c := u.fillers[i].place.Class; c >= u.mine {
			l.copies(c, nil, v)
		}
	}
}

// copies checks O2 for a class. counts has the counts of the keys, if the class has any keys.
func (l *life) copies(number int, counts *Counts, v *layout.View) {
	u := l.u()
	c := u.static.Class(number)
	if number < u.mine {
		for _, k := range u.keysOf[number] {
			c.Items[u.keys[k].place.Side] += int(counts[k])
		}
	}
	if err := c.CheckIn(u.table, v, &l.x.line); err != nil {
		l.fail("O2", "class %d: %v", number, err)
	}
}

// hashes checks the kept hashes of a file at rest (O8).
func (l *life) hashes(p *Point, sb *layout.Superblock, err error) {
	if err != nil || !sb.KeepsHashes() {
		return
	}
	if sb.Kept() != p.Kept {
		l.fail("O8", "the history is %+v, not %+v", sb.Kept(), p.Kept)
	}
	if sb.Hashes().Pages == 0 {
		if l.x.trace.failOdds == 0 && l.x.trace.hashOdds == 0 || l.v.RequireHashes {
			l.fail("O8", "the hashes are lost, but nothing failed or the filter must keep them")
		}
		return
	}
	sum, items, kept, err := l.v.sumOf(sb)
	want := l.u().sum
	for i, n := range p.Counts[:len(l.u().keys)] {
		want += uint64(n) * mix(l.u().keys[i].hash)
	}
	if err != nil || sum != want || items != p.Length {
		l.fail("O8", "the kept hashes are not those of the items: %d of %d, %v", items, p.Length, err)
	}
	if kept != p.Kept {
		l.fail("O8", "the kept hashes lead to %+v, not to %+v", kept, p.Kept)
	}
}

// sealed checks a file in state sealed against its checksums. A superblock may have been cut short since
// the file was opened: the next open stores it again.
func (l *life) sealed(sb *layout.Superblock, err error) {
	if err == nil && sb.State() == layout.Sealed {
		err = l.x.sys.Verify(l.v.filter.cache.words)
		if damage := new(layout.CorruptError); l.v.fell && errors.As(err, &damage) && damage.Region == layout.RegionSuperblock {
			return
		}
	}
	if err != nil {
		l.fail("O6", "a sealed file: %v", err)
	}
}

// watch is called after every store that readers can see, and checks O4.
func (l *life) watch(word, value uint64) {
	if word == layout.WordRuntime+layout.RuntimeEpoch && value&1 != 0 && l.torn {
		l.torn = false
		return
	}
	if !l.readers || l.torn || word < layout.WordStash && !forReaders[word-layout.WordRuntime] ||
		word >= layout.WordRegion+uint64(l.u().geometry.RegionBytes)/8 {
		return
	}
	u := l.u()
	lines := ^uint64(0)
	if word >= layout.WordRegion {
		lines = u.linesOf[word-layout.WordRegion]
	}
	for i := range u.keys {
		if l.must[i] != 0 && u.keys[i].lines&lines != 0 && !layout.Lookup(u.table, l.at, u.keys[i].hash) {
			l.fail("O4", "key %d is answered absent after a store of %#x to word %d", i, value, word)
		}
	}
	for range min(4, len(u.fillers)) {
		i := l.x.rng.IntN(len(u.fillers))
		if u.fillers[i].lines&lines != 0 && !layout.Lookup(u.table, l.at, u.fillers[i].hash) {
			l.fail("O4", "filler %d is answered absent after a store of %#x to word %d", i, value, word)
		}
	}
}

// forReaders are the words of the runtime page that lookups read.
var forReaders = func() (words [layout.RuntimeWords]bool) {
	words[layout.RuntimeEpoch] = true
	layout.Counters(func(word uint64) { words[word] = true })
	return words
}()
