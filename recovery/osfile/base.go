package osfile

import (
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Base counts hashes in the base of a file of hashes. It reads only the pages that it needs. If it is
// asked for ascending hashes, it reads each page once or a few times.
type Base struct {
	kept   *recovery.Kept
	number uint64   // number of the page whose hashes are in items, or 0
	items  []uint64 // hashes of the page, in ascending order
}

// BaseOf returns the base of a file.
func BaseOf(k *recovery.Kept) *Base { return &Base{kept: k} }

// Count returns how many items of a hash the base has.
func (b *Base) Count(hash uint64) (n int, err error) {
	end := b.kept.Header.FirstTail()
	if end == hashes.FirstBase {
		return 0, nil
	}
	page := b.number
	if page == 0 || hash <= b.items[0] || hash > b.items[len(b.items)-1] { // earlier pages may have the hash, too
		if page, err = b.find(hash); err != nil {
			return 0, err
		}
	}
	for ; page < end; page++ {
		if err := b.load(page); err != nil {
			return 0, err
		}
		from, _ := slices.BinarySearch(b.items, hash)
		to := from
		for to < len(b.items) && b.items[to] == hash {
			to++
		}
		if n += to - from; to < len(b.items) {
			break
		}
	}
	return n, nil
}

// load reads and checks a page, unless it is the page that was loaded last.
func (b *Base) load(page uint64) error {
	if page == b.number {
		return nil
	}
	b.number = 0
	var words [2 * hashes.PageWords]uint64
	first, before := words[:], uint32(0)
	if page == hashes.FirstBase {
		first = words[hashes.PageWords:]
	}
	if err := b.kept.File.ReadPages(page+1-uint64(len(first))/hashes.PageWords, first); err != nil {
		return err
	}
	if page > hashes.FirstBase {
		before = (*hashes.Page)(words[:]).Check(page - 1)
	}
	b.items = b.items[:0]
	err := b.kept.Header.ReadBase((*hashes.Page)(words[hashes.PageWords:]), page, before, func(it hashes.Item) {
		b.items = append(b.items, it.Hash)
	})
	if err == nil {
		b.number = page
	}
	return err
}

// find returns the last page that begins before a hash, or the first page. Hashes are uniform. So find
// first looks where this page would be if the hashes were spread evenly, counted from the page that
// was loaded last. From there it goes on in steps that double, until it has gone too far. Then it
// bisects.
func (b *Base) find(hash uint64) (uint64, error) {
	low, high := uint64(hashes.FirstBase), b.kept.Header.FirstTail() // the page is from low to high-1
	guess, _ := bits.Mul64(hash, high-low)
	guess += low
	if b.number > 0 && hash > b.items[0] {
		ahead, _ := bits.Mul64(hash-b.items[0], high-low)
		low, guess = b.number, b.number+ahead
	}
	var p hashes.Page
	up, down := false, false
	for step := uint64(1); low+1 < high; step *= 2 {
		if up && down {
			guess = low + (high-low)/2
		}
		guess = min(max(guess, low+1), high-1)
		if err := b.kept.File.ReadPages(guess, p[:]); err != nil {
			return 0, err
		}
		if p.FirstHash() < hash {
			low, up = guess, true
			guess += step
		} else {
			high, down = guess, true
			guess -= min(step, guess)
		}
	}
	return low, nil
}
