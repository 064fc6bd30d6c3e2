package peers

// dleft is the d-left counting Bloom filter (Bonomi, Mitzenmacher, Panigrahy, Singh,
// Varghese, "An Improved Construction for Counting Bloom Filters", ESA 2006): d = 4
// subtables of B buckets of 8 cells. A cell is a remainder of r bits and a counter
// of 2 bits, 0 for an empty one. A key has one remainder and one bucket in each
// subtable; it goes to the bucket with the fewest cells in use, and of equal ones to
// the leftmost.
//
// Deleting has a trap (the source has it too): if the d buckets of a key were d
// hashes of it, a second key could share the remainder and one of the buckets, and
// cells with that remainder in buckets of both would not tell whose they are.
// So a key is first reduced to a fingerprint, a pair of a bucket and a remainder,
// and each subtable has a permutation of the pairs. Then a cell stands for exactly
// one fingerprint. Here a permutation leaves the remainder as it is, and turns the
// buckets by a hash of the remainder and of the number of the subtable, modulo B,
// which need not be a power of two. (The source multiplies the pair by an odd number
// modulo a power of two.)
//
// A key whose fingerprint is in one of its buckets adds 1 to the counter of that
// cell. Where the counter is at its 3, the next copy takes another cell: nothing is
// forgotten, and the filter is a multiset of fingerprints. A cell whose counter is 0
// is all 0. A key is refused when its
// four buckets have no cell left.
//
// An absent key has B·2^r fingerprints to fall on, of which a load of a fills at most
// 32·a·B: the rate is 32·a/2^r, and a key costs (r+2)/a bits. The load at the first
// refusal is what four choices make of it, and falls slowly with size. The paper has
// four subtables, 192 MiB, 103.82 million keys, 15.51 bits a key, 0.76 %. A
// simulation of the loads alone, in 192 MiB, says what comes of other choices:
//
//	cells  r   counter   load    million keys   bits a key   rate
//	4      10  2         0.782   105.0          15.3         1.22 %
//	4      11  2         0.776    96.2          16.7         0.61 %
//	4      11  1         0.782   105.0          15.3         0.61 %
//	8      11  2         0.890   110.3          14.6         1.39 %
//	8      12  2         0.883   101.6          15.9         0.69 %
//
// Cells and counter in the last row are those of the source, and its three results
// are the nearest to the paper's together: r = 12 in [All].
type dleft struct {
	cells     packed // remainder << 2 | counter: subtable by subtable, bucket by bucket
	buckets   uint64 // B
	remainder int    // r
}

const (
	subtables   = 4
	bucketCells = 8
	counterBits = 2
	maxCopies   = 1<<counterBits - 1
)

// NewDLeft makes a d-left counting Bloom filter with remainders of so many bits, 1 to
// 24, in as much of so many bytes as whole buckets fill. A [ParameterError] says what
// cannot be.
func NewDLeft(bytes uint64, remainder int) (Deleter, error) {
	if remainder < 1 || remainder > 24 {
		return nil, &ParameterError{"dl-CBF", "remainder", remainder, "a remainder has 1 to 24 bits"}
	}
	width := remainder + counterBits
	// Eight cells of w bits are w bytes.
	if err := checkBytes("dl-CBF", bytes, uint64(subtables*width)); err != nil {
		return nil, err
	}
	buckets := bytes / uint64(subtables*width)
	return &dleft{newPacked(buckets*subtables*bucketCells, width), buckets, remainder}, nil
}

// split gives the fingerprint of a key: a bucket, by the high bits of the hash, and
// a remainder, its low ones. 2^40 bytes have less than 2^38 buckets: no bit is in both.
func (f *dleft) split(key uint64) (bucket, r uint64) {
	h := hash(key)
	return scale(h, f.buckets), h & (1<<f.remainder - 1)
}

// first gives the first cell of the bucket that a fingerprint has in a subtable.
func (f *dleft) first(subtable, bucket, r uint64) uint64 {
	bucket += scale(hash(subtable<<32|r), f.buckets)
	if bucket >= f.buckets {
		bucket -= f.buckets
	}
	return (subtable*f.buckets + bucket) * bucketCells
}

func (f *dleft) Contains(key uint64) bool { return f.contains(f.split(key)) }

func (f *dleft) contains(bucket, r uint64) bool {
	for i := range uint64(subtables) {
		first := f.first(i, bucket, r)
		for c := first; c < first+bucketCells; c++ {
			if cell := f.cells.get(c); cell>>counterBits == r && cell&maxCopies != 0 {
				return true
			}
		}
	}
	return false
}

func (f *dleft) Insert(key uint64) bool { return f.insert(f.split(key)) }

func (f *dleft) insert(bucket, r uint64) bool {
	least, empty := bucketCells, uint64(0) // the least cells in use, and an empty one beside them
	for i := range uint64(subtables) {
		first := f.first(i, bucket, r)
		used, room := 0, uint64(0)
		for c := first; c < first+bucketCells; c++ {
			cell := f.cells.get(c)
			copies := cell & maxCopies
			if copies == 0 {
				room = c
				continue
			}
			if cell>>counterBits == r && copies < maxCopies {
				f.cells.set(c, cell+1)
				return true
			}
			used++
		}
		if used < least {
			least, empty = used, room
		}
	}
	if least == bucketCells {
		return false
	}
	f.cells.set(empty, r<<counterBits|1)
	return true
}

func (f *dleft) Delete(key uint64) bool { return f.delete(f.split(key)) }

func (f *dleft) delete(bucket, r uint64) bool {
	for i := range uint64(subtables) {
		first := f.first(i, bucket, r)
		for c := first; c < first+bucketCells; c++ {
			cell := f.cells.get(c)
			switch copies := cell & maxCopies; {
			case copies == 0 || cell>>counterBits != r:
				continue
			case copies == 1:
				f.cells.set(c, 0)
			default:
				f.cells.set(c, cell-1)
			}
			return true
		}
	}
	return false
}

// Bytes leaves out the one word after the cells.
func (f *dleft) Bytes() uint64 { return f.buckets * subtables * f.cells.width }
