package peer

import "fmt"

// DLeft is the d-left counting Bloom filter (Bonomi, Mitzenmacher, Panigrahy, Singh, Varghese, "An
// Improved Construction for Counting Bloom Filters", ESA 2006): d = 4 subtables of B buckets of 8
// cells. A cell is a remainder of r bits and a counter of 2 bits, which is 0 in an empty cell. A key
// has one remainder, and one bucket in each subtable. It goes to the bucket with the fewest cells in
// use, and among equal ones to the leftmost.
//
// Deletes have a trap, which the source points out. If the d buckets of a key were d hashes of it, a
// second key could share the remainder and one of the buckets, and cells with that remainder in
// buckets of both would be ambiguous. So a key is first reduced to a fingerprint, a pair of a bucket
// and a remainder, and each subtable has a permutation of the pairs. Then a cell stands for exactly
// one fingerprint. Here a permutation keeps the remainder, and rotates the bucket by a hash of the
// remainder and the number of the subtable, modulo B, which need not be a power of two. (The source
// multiplies the pair by an odd number modulo a power of two.)
//
// A key whose fingerprint is in one of its buckets increments the counter of that cell. If the
// counter is at its maximum of 3, the next copy takes another cell. So no key is forgotten, and the
// filter is a multiset of fingerprints. A cell whose counter is 0 is all 0. A key is refused when its
// four buckets have no cell left.
//
// An absent key has B·2^r possible fingerprints, of which a load of a fills at most 32·a·B: the rate
// is 32·a/2^r, and a key costs (r+2)/a bits. The load at the first refusal results from the four
// choices, and falls slowly with size. The paper has four subtables, 192 MiB, 103.82 million keys,
// 15.51 bits a key, 0.76 %. A simulation of the loads alone, in 192 MiB, compares other choices:
//
//	cells  r   counter   load    million keys   bits a key   rate
//	4      10  2         0.782   105.0          15.3         1.22 %
//	4      11  2         0.776    96.2          16.7         0.61 %
//	4      11  1         0.782   105.0          15.3         0.61 %
//	8      11  2         0.890   110.3          14.6         1.39 %
//	8      12  2         0.883   101.6          15.9         0.69 %
//
// The last row has the cells and the counter of the source, and its three results together are
// nearest to the results of the paper. So r is 12 here.
type DLeft struct {
	// Each bucket is two halves of four cells, bucket by bucket and subtable by subtable. A
	// cell is remainder << 2 | counter, the first cell in the low bits. Four cells are one
	// value, so that reading a bucket takes two reads instead of eight.
	halves    packed
	buckets   uint64 // B
	remainder int    // r
	width     int    // of a cell: r + 2
}

const (
	subtables   = 4
	bucketCells = 8
	bucketHalf  = bucketCells / 2
	counterBits = 2
	maxCopies   = 1<<counterBits - 1
)

// NewDLeft makes a d-left counting Bloom filter with remainders of 1 to 14 bits (four cells fit in a
// word), and as many whole buckets as fit in bytes.
func NewDLeft(bytes uint64, remainder int) (*DLeft, error) {
	width := remainder + counterBits // eight cells of w bits are w bytes
	if remainder < 1 || remainder > 14 || bytes < uint64(subtables*width) {
		return nil, fmt.Errorf("a d-left filter of %d bytes with remainders of %d bits", bytes, remainder)
	}
	buckets := bytes / uint64(subtables*width)
	return &DLeft{newPacked(buckets*subtables*2, bucketHalf*width), buckets, remainder, width}, nil
}

// split returns the fingerprint of a key: a bucket, from the high bits of the hash, and a
// remainder, its low bits. 2^40 bytes have less than 2^38 buckets, so no bit is in both.
func (f *DLeft) split(key uint64) (bucket, r uint64) {
	h := hash(key)
	return scale(h, f.buckets), h & (1<<f.remainder - 1)
}

// first returns the first half of the bucket of a fingerprint in a subtable.
func (f *DLeft) first(subtable, bucket, r uint64) uint64 {
	bucket += scale(hash(subtable<<32|r), f.buckets)
	if bucket >= f.buckets {
		bucket -= f.buckets
	}
	return (subtable*f.buckets + bucket) * 2
}

// find looks for a cell of a fingerprint. If there are several, any will do.
func (f *DLeft) find(bucket, r uint64) (half uint64, shift int, found bool) {
	for i := range uint64(subtables) {
		first := f.first(i, bucket, r)
		for half := first; half < first+2; half++ {
			cells := f.halves.get(half)
			for c := range bucketHalf {
				cell := cells >> (c * f.width) & (1<<f.width - 1)
				if cell>>counterBits == r && cell&maxCopies != 0 {
					return half, c * f.width, true
				}
			}
		}
	}
	return 0, 0, false
}

func (f *DLeft) Contains(key uint64) bool { return f.contains(f.split(key)) }

func (f *DLeft) contains(bucket, r uint64) bool {
	_, _, found := f.find(bucket, r)
	return found
}

func (f *DLeft) Insert(key uint64) bool { return f.insert(f.split(key)) }

func (f *DLeft) insert(bucket, r uint64) bool {
	least, emptyHalf, emptyShift := bucketCells, uint64(0), 0 // the fewest cells in use, and an empty cell in that bucket
	for i := range uint64(subtables) {
		first := f.first(i, bucket, r)
		used, roomHalf, roomShift := 0, uint64(0), 0
		for half := first; half < first+2; half++ {
			cells := f.halves.get(half)
			for c := range bucketHalf {
				shift := c * f.width
				cell := cells >> shift & (1<<f.width - 1)
				copies := cell & maxCopies
				if copies == 0 {
					roomHalf, roomShift = half, shift
					continue
				}
				if cell>>counterBits == r && copies < maxCopies {
					f.halves.set(half, cells+1<<shift)
					return true
				}
				used++
			}
		}
		if used < least {
			least, emptyHalf, emptyShift = used, roomHalf, roomShift
		}
	}
	if least == bucketCells {
		return false
	}
	f.halves.set(emptyHalf, f.halves.get(emptyHalf)|(r<<counterBits|1)<<emptyShift)
	return true
}

func (f *DLeft) Delete(key uint64) bool { return f.delete(f.split(key)) }

func (f *DLeft) delete(bucket, r uint64) bool {
	half, shift, found := f.find(bucket, r)
	if !found {
		return false
	}
	cells := f.halves.get(half) - 1<<shift
	if cells>>shift&maxCopies == 0 {
		cells &^= (1<<f.width - 1) << shift
	}
	f.halves.set(half, cells)
	return true
}

// Bytes leaves out the one word after the cells.
func (f *DLeft) Bytes() uint64 { return f.buckets * subtables * uint64(f.width) }
