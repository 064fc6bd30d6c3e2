package crashsim

import (
	"errors"
	"fmt"

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

// newBeside makes an empty filter, as durable as one that was published. Its LSNs begin after lsn.
func (v *Volume) newBeside(g layout.Geometry, seed uint64, keep bool, lsn uint64) *Beside {
	return v.besideOf(g, seed, keep, head(g, seed, keep, lsn, func(*layout.Superblock) {}))
}

func (v *Volume) besideOf(g layout.Geometry, seed uint64, keep bool, head []uint64) *Beside {
	i := 1 - v.dir.names[filterName]
	for n := beside; n < allNames; n++ {
		v.dir.names[n] = noFile
	}
	b := &Beside{v, beside, &v.disks[i]}
	v.had[i] = false
	b.disk.init(int(g.SealedBytes/8), v.shift)
	for j, w := range head {
		if w != 0 {
			b.disk.cache.set(uint64(j), w)
			b.disk.durable.set(uint64(j), w)
		}
	}
	if keep {
		v.keepHashes(seed, beside+firstHashes)
	}
	v.dir.names[beside+filterName] = i
	v.dir.unsynced = append(v.dir.unsynced, v.dir.names)
	v.dir.settle(len(v.dir.unsynced))
	return b
}

func (b *Beside) Filter() recovery.File { return &filterFile{b.Volume, b.disk} }
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

// TakePlace implements recovery.Volume, by the steps of osfile.Files. The one that gives the filter
// file its name fails as often as a sync.
func (b *Beside) TakePlace(recovery.Volume) (placed bool, err error) {
	b.rename(beside+name(recovery.NextLog), noFile)
	b.keepName(name(recovery.NextLog), beside+name(recovery.CurrentLog))
	b.meanwhile()
	if b.dir.names[beside+firstHashes] != noFile {
		b.keepName(firstHashes+name(recovery.NextHashes), beside+firstHashes)
	}
	v := b.Volume
	if v.fails() {
		b.meanwhile()
		b.rename(name(recovery.NextLog), noFile)
		b.rename(firstHashes+name(recovery.NextHashes), noFile)
		return false, errSync
	}
	v.had[v.dir.names[filterName]] = true
	b.keepName(filterName, beside+filterName)
	b.first = 0
	b.filter = b.disk
	b.meanwhile()
	b.keepName(name(recovery.CurrentLog), name(recovery.NextLog))
	b.meanwhile()
	return true, errors.Join(b.KeepHashes(), b.syncDir())
}

// meanwhile has operations go on between two changes of names, if any can.
func (v *Volume) meanwhile() {
	if v.during != nil && !v.muted {
		v.during()
	}
}

// superseded checks that a file that had the name once, and that readers may have, says "maybe".
func (v *Volume) superseded() error {
	if i := 1 - v.dir.names[filterName]; v.had[i] {
		if epoch := v.disks[i].cache.words[layout.WordRuntime+layout.RuntimeEpoch]; epoch != layout.Superseded {
			return fmt.Errorf("a file that has lost its name does not say that it is superseded, but has epoch %#x", epoch)
		}
	}
	return nil
}
