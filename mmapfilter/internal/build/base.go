package build

import (
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A baseReader reads the base of a file of hashes from any hash on. It reads only the pages that it
// needs.
type baseReader struct {
	kept   *recovery.Kept
	page   hashes.Page // the page that was read last
	number uint64      // its number, or 0
}

// read reads and checks a page, and calls each for its items.
func (b *baseReader) read(number uint64, each func(hashes.Item)) (err error) {
	if number > hashes.FirstBase && number != b.number+1 {
		err = b.kept.File.ReadPages(number-1, b.page[:])
	}
	before := b.page.Check(number - 1)
	if number == hashes.FirstBase {
		before = 0
	}
	b.number = 0
	if err == nil {
		err = b.kept.File.ReadPages(number, b.page[:])
	}
	if err == nil {
		err = b.kept.Header.ReadBase(&b.page, number, before, each)
	}
	if err == nil {
		b.number = number
	}
	return err
}

// count returns how many items of a hash the base has. If it is called for ascending hashes, it reads
// each page once or a few times.
func (b *baseReader) count(hash uint64) (n int, err error) {
	end := b.kept.Header.FirstTail()
	if end == hashes.FirstBase {
		return 0, nil
	}
	number := b.number
	if number > 0 {
		if all := b.page.Hashes(); hash <= all[0] || hash > all[len(all)-1] { // earlier pages may have the hash, too
			number = 0
		}
	}
	if number == 0 {
		if number, err = b.find(hash); err != nil {
			return 0, err
		}
	}
	for ; number < end; number++ {
		if number != b.number {
			if err := b.read(number, func(hashes.Item) {}); err != nil {
				return 0, err
			}
		}
		all := b.page.Hashes()
		from, _ := slices.BinarySearch(all, hash)
		to := from
		for to < len(all) && all[to] == hash {
			to++
		}
		if n += to - from; to < len(all) {
			break
		}
	}
	return n, nil
}

// find returns the last page that begins before a hash, or the first page. Hashes are uniform. So find
// first looks where this page would be if the hashes were spread evenly, counted from the page that
// was read last. From there it goes on in steps that double, until it has gone too far. Then it
// bisects.
func (b *baseReader) find(hash uint64) (uint64, error) {
	low, high := uint64(hashes.FirstBase), b.kept.Header.FirstTail() // the page is from low to high-1
	guess, _ := bits.Mul64(hash, high-low)
	guess += low
	if b.number > 0 && hash > b.page.FirstHash() {
		ahead, _ := bits.Mul64(hash-b.page.FirstHash(), high-low)
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
