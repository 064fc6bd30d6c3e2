package guard

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// inserted counts operations that insert hashes.
type inserted struct {
	operations uint64
	known      uint64 // those whose hash the filter had
}

// insertUnique puts hashes into a filter unless it has them, each as one operation. It returns
// those that found no room, or, after an error, all that may not be in the filter.
func insertUnique(f guarded.Filter, hashes []uint64) (unplaced []uint64, done inserted, err error) {
	for len(hashes) > 0 {
		n, added, err := f.InsertUniqueHashes(hashes)
		done.operations += uint64(n)
		done.known += uint64(n - added)
		if hashes = hashes[n:]; err != nil && !errors.Is(err, mmapfilter.ErrFull) {
			return append(unplaced, hashes...), done, err
		}
		if err != nil {
			done.operations++
			unplaced, hashes = append(unplaced, hashes[0]), hashes[1:]
		}
	}
	return unplaced, done, nil
}

// insertUntilFull is insertUnique, or insertEach unless unique, up to the first hash that finds no
// room: a failed insert is slow. It returns the hashes from that one on.
func insertUntilFull(f guarded.Filter, hashes []uint64, unique bool) (unplaced []uint64, operations uint64, err error) {
	n := 0
	if unique {
		n, _, err = f.InsertUniqueHashes(hashes)
	} else {
		for n < len(hashes) && err == nil {
			if err = f.InsertHash(hashes[n]); err == nil {
				n++
			}
		}
	}
	operations = uint64(n)
	if errors.Is(err, mmapfilter.ErrFull) {
		operations, err = operations+1, nil
	}
	return hashes[n:], operations, err
}

// insertEach is insertUnique, but also inserts hashes that the filter has.
func insertEach(f guarded.Filter, hashes []uint64) (unplaced []uint64, done inserted, err error) {
	for i, h := range hashes {
		err := f.InsertHash(h)
		if err != nil && !errors.Is(err, mmapfilter.ErrFull) {
			return append(unplaced, hashes[i:]...), done, err
		}
		if done.operations++; err != nil {
			unplaced = append(unplaced, h)
		}
	}
	return unplaced, done, nil
}
