package crashsim

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// files are the files of one filter of a volume. The numbers of their names begin with first.
type files struct {
	v     *Volume
	first name
}

// A Beside is a second filter on the machine of a volume, which may take the place of the filter
// of the volume. Until then, its files have other names.
type Beside struct {
	*Volume
	files
}

// NewBeside creates an empty filter that may take the place of the filter of the volume. Its files are
// durable, like the files of a published filter. Its LSNs begin after lsn. edit is as for NewVolume.
func (v *Volume) NewBeside(g layout.Geometry, seed uint64, keep bool, lsn uint64, edit func(*layout.Superblock)) *Beside {
	i := 1 - v.dir.names[filterName]
	for n := beside; n < allNames; n++ {
		v.dir.names[n] = noFile
	}
	v.had[i] = false
	v.disks[i].begin(g, v.shift, head(g, seed, keep, lsn, edit))
	if keep {
		v.keepHashes(seed, beside+firstHashes)
	}
	v.dir.names[beside+filterName] = i
	v.dir.unsynced = append(v.dir.unsynced, v.dir.names)
	v.dir.settle(len(v.dir.unsynced))
	return &Beside{v, files{v, beside}}
}

func (f *files) Filter() recovery.File {
	return &filterFile{f.v, &f.v.disks[f.v.dir.names[f.first+filterName]]}
}

// TakePlace implements recovery.Volume. It takes the steps of osfile.Files. The step that gives
// the filter file its name fails as often as a sync.
func (f *files) TakePlace(recovery.Volume) (placed bool, err error) {
	v := f.v
	v.rename(beside+name(recovery.NextLog), noFile)
	v.keepName(name(recovery.NextLog), beside+name(recovery.CurrentLog))
	v.meanwhile()
	if v.dir.names[beside+firstHashes] != noFile {
		v.keepName(firstHashes+name(recovery.NextHashes), beside+firstHashes)
	}
	if v.fails() {
		v.meanwhile()
		v.rename(name(recovery.NextLog), noFile)
		v.rename(firstHashes+name(recovery.NextHashes), noFile)
		return false, errSync
	}
	v.had[v.dir.names[filterName]] = true
	v.keepName(filterName, beside+filterName)
	f.first = 0
	v.filter = &v.disks[v.dir.names[filterName]]
	v.meanwhile()
	v.keepName(name(recovery.CurrentLog), name(recovery.NextLog))
	v.meanwhile()
	return true, errors.Join(f.KeepHashes(), v.syncDir())
}

// meanwhile runs operations between two changes of names, if an operation can run now.
func (v *Volume) meanwhile() {
	if v.during != nil && !v.muted {
		v.during()
	}
}

// superseded checks that a file that has lost its name, but that readers may still have open,
// says "maybe".
func (v *Volume) superseded() error {
	if i := 1 - v.dir.names[filterName]; v.had[i] {
		if epoch := v.disks[i].cache.words[layout.WordRuntime+layout.RuntimeEpoch]; epoch != layout.Superseded {
			return fmt.Errorf("a file that has lost its name does not say that it is superseded, but has epoch %#x", epoch)
		}
	}
	return nil
}
