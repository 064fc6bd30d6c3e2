package crashsim

import (
	"errors"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Beside is a further filter on the machine of a volume, which may take the place of its filter.
// Its files have names of their own until then.
type Beside struct {
	*Volume
	first name // of its names
	disk  *disk
}

// uses reports whether filter file i has a name, in the cache or on the disk.
func (v *Volume) uses(i int) bool {
	for _, names := range append(v.dir.pending, v.dir.names, v.dir.durable) {
		if names[filterName] == i || names[beside+filterName] == i {
			return true
		}
	}
	return false
}

// newBeside makes an empty filter, as durable as one that was published. Its LSNs begin after lsn.
func (v *Volume) newBeside(g layout.Geometry, seed uint64, keep bool, lsn uint64) *Beside {
	i := 1 - v.dir.names[filterName]
	for n := beside; n < allNames; n++ {
		v.dir.names[n] = noFile
	}
	b := &Beside{v, beside, &v.disks[i]}
	v.had[i] = false
	b.disk.init(int(g.SealedBytes/8), v.shift)
	for j, w := range head(g, seed, keep, lsn) {
		if w != 0 {
			b.disk.cache.set(uint64(j), w)
			b.disk.durable.set(uint64(j), w)
		}
	}
	if keep {
		v.keepHashes(seed, beside+firstHashes)
	}
	v.dir.names[beside+filterName] = i
	v.dir.pending = append(v.dir.pending, v.dir.names)
	v.dir.settle(len(v.dir.pending))
	return b
}

func (b *Beside) Filter() recovery.File { return filterFile{b.Volume, b.disk} }
func (b *Beside) KeepLog() error        { return b.keepLog(b.first) }
func (b *Beside) RemoveLogs() error     { return b.removeLogs(b.first) }
func (b *Beside) RemoveHashes(n recovery.HashesName) error {
	return b.removeHashes(b.first + firstHashes + name(n))
}

func (b *Beside) OpenLog(n recovery.LogName) (recovery.File, error) {
	return b.openLog(b.first + name(n))
}
func (b *Beside) CreateLog(bytes int64) (recovery.File, error) { return b.createLog(b.first, bytes) }

func (b *Beside) OpenHashes(n recovery.HashesName) (recovery.HashFile, error) {
	return b.openHashes(b.first + firstHashes + name(n))
}

func (b *Beside) KeepHashes() error {
	if b.dir.names[b.first+firstHashes+name(recovery.NextHashes)] == noFile {
		return nil
	}
	b.keepName(b.first+firstHashes, b.first+firstHashes+name(recovery.NextHashes))
	return b.syncDir()
}

// TakePlace implements recovery.Volume, by the steps of recovery.Files.
func (b *Beside) TakePlace(recovery.Volume) (placed bool, err error) {
	b.rename(beside+name(recovery.NextLog), noFile)
	b.keepName(name(recovery.NextLog), beside+name(recovery.CurrentLog))
	if b.dir.names[beside+firstHashes] != noFile {
		b.keepName(firstHashes+name(recovery.NextHashes), beside+firstHashes)
	}
	v := b.Volume
	v.had[v.dir.names[filterName]] = true
	b.keepName(filterName, beside+filterName)
	b.first = 0
	b.filter = b.disk
	b.keepName(name(recovery.CurrentLog), name(recovery.NextLog))
	return true, errors.Join(b.KeepHashes(), b.syncDir())
}

// rebuilds reports whether the filter changes its file. Then no reader is simulated across a crash.
func (t *Trace) rebuilds() bool {
	return slices.ContainsFunc(t.Ops, func(op Op) bool { return op.Kind == Rebuild })
}

// rebuild has a new file with the items of the filter take its place. What makes the new file is
// not explored, since nobody uses it before.
func (l *life) rebuild() {
	u, v, old := l.u(), l.v, l.w
	lsn := old.LSN() + 1<<20
	failed := v.Failed
	v.muted = true
	b := v.newBeside(u.geometry, uint64(u.Number)+uint64(l.op+1)<<8, u.keeps, lsn)
	next, full := l.fillBeside(b)
	v.muted = false
	if full {
		return
	}
	err := l.call(func() error {
		return l.x.sys.Handover(old, next, l.beside)
	})
	if errors.Is(err, l.x.sys.Full) {
		return
	}
	if err != nil {
		if v.Failed == failed {
			l.fail("O6", "rebuild: %v", err)
		}
		if b.first == 0 {
			l.unnamed = true
			l.moved(next)
		}
		l.dead = l.w.Err() != nil // otherwise the new file has failed, and nothing has happened
		return
	}
	l.moved(next)
	l.floor = next.LSN()
	l.setMust(l.counts)
}

// moved goes on in the new file. The last readers of the old one have seen that it is superseded.
func (l *life) moved(next Writer) {
	if l.history != nil {
		l.read(6)
	}
	l.superseded()
	l.w = next
	if l.history != nil {
		l.record()
	}
	l.point(func(p *Point) { p.OpMin = p.OpMax }, false)
}

// fillBeside opens a new filter and gives it the items. It reports whether they have no room.
func (l *life) fillBeside(b *Beside) (next Writer, full bool) {
	err := l.call(func() (err error) {
		if next, _, err = l.x.sys.Open(b); err != nil {
			return err
		}
		insert := func(k key) {
			if err == nil {
				err = next.Insert(k.hash)
			}
		}
		for i, n := range l.counts[:len(l.u().keys)] {
			for range n {
				insert(l.u().keys[i])
			}
		}
		for _, k := range l.u().fillers {
			insert(k)
		}
		if err == nil {
			err = next.Checkpoint()
		}
		return err
	})
	if err != nil && !errors.Is(err, l.x.sys.Full) {
		l.fail("O6", "a new file: %v", err)
	}
	return next, err != nil
}

// superseded checks that a file that had the name once, and that readers may have, says "maybe".
func (l *life) superseded() {
	v := l.v
	if i := 1 - v.dir.names[filterName]; v.had[i] {
		if epoch := v.disks[i].cache.words[layout.WordRuntime+layout.RuntimeEpoch]; epoch != layout.Superseded {
			l.fail("O4", "a file that has lost its name does not say that it is superseded, but has epoch %#x", epoch)
		}
	}
}
