package guard

import (
	"slices"
	"sync"
)

// stripes are locks for keys.
type stripes [256]sync.Mutex

// lock locks the stripes of hashes, and returns them for unlock.
func (s *stripes) lock(hashes map[uint64]struct{}) (locked []int) {
	for h := range hashes {
		locked = append(locked, int(h%uint64(len(s))))
	}
	slices.Sort(locked)
	locked = slices.Compact(locked)
	for _, i := range locked {
		s[i].Lock()
	}
	return locked
}

func (s *stripes) unlock(locked []int) {
	for _, i := range locked {
		s[i].Unlock()
	}
}
