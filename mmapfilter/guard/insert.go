package guard

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// inserted counts what inserting hashes has done.
type inserted struct {
	operations uint64
	known      uint64 // those that changed nothing
}

// insertUnique puts hashes into a filter unless it has them, each as one operation. It returns
// those for which there was no room, or, after an error, that may not be there.
func insertUnique(f guarded.Filter, hashes []uint64) (left []uint64, done inserted, err error) {
	for len(hashes) > 0 {
		n, added, err := f.InsertUniqueHashes(hashes)
		done.operations += uint64(n)
		done.known += uint64(n - added)
		if hashes = hashes[n:]; err != nil && !errors.Is(err, mmapfilter.ErrFull) {
			return append(left, hashes...), done, err
		}
		if err != nil {
			done.operations++
			left, hashes = append(left, hashes[0]), hashes[1:]
		}
	}
	return left, done, nil
}

// insertUntilFull puts hashes into a filter, unless it has them if unique is set, each as one
// operation. It returns those from the first on for which there was no room: to find none takes
// long.
func insertUntilFull(f guarded.Filter, hashes []uint64, unique bool) (left []uint64, operations uint64, err error) {
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

// insertEach is insertUnique of hashes that the filter may have.
func insertEach(f guarded.Filter, hashes []uint64) (left []uint64, done inserted, err error) {
	for i, h := range hashes {
		err := f.InsertHash(h)
		if err != nil && !errors.Is(err, mmapfilter.ErrFull) {
			return append(left, hashes[i:]...), done, err
		}
		if done.operations++; err != nil {
			left = append(left, h)
		}
	}
	return left, done, nil
}
