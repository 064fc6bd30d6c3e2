package layout

// A Direct is a table and what lookups read, for keys that are looked up one by one:
// the kernel makes the hash of a key as well, and there is neither a call of an interface nor
// a question which kernel is in use: what is around it costs a lookup as much as the look.
type Direct struct {
	blockedConstants // of a Blocked
	mix              [2]uint64
	region, runtime  *uint64
	compact          *compact
	// One of them may be the Direct itself, which an instruction tells: a Blocked, or a Compact of
	// remainders of up to 8 bits, that is looked up with AVX-512; a Blocked without; a Compact of
	// longer ones, with AVX-512.
	wide, slotted, narrow, twice *Direct
	buckets                      *bucketVectors // of wide
	slots                        *slotVectors   // of slotted and twice
	compactSlotted                              // of those, too

	hash     *Hasher
	contains func(h uint64) bool
}

// NewDirect gives that of a table. contains answers for the hashes that a first look leaves
// open, and for all where t is nil, or its layout has no such kernel, or this machine, or pure
// Go is in use. As long as a lookup is under way, what contains refers to is in use.
func NewDirect(t Table, v *View, h *Hasher, contains func(h uint64) bool) *Direct {
	d := &Direct{mix: h.mix, hash: h, contains: contains}
	k := kernel(inUse.Load())
	if t == nil || !k.single() {
		return d
	}
	d.region, d.runtime = &v.Region[0], &v.Runtime[0]
	switch t := t.(type) {
	case *blocked:
		d.blockedConstants = t.blockedConstants
		if k == avx512 {
			d.wide, d.buckets = d, newBucketVectors()
		} else {
			d.narrow = d
		}
	case *compact:
		switch {
		case t.countWords > 2 || compactKernel() == pureGo:
		case k == avx512 && hasVBMI:
			d.lines, d.slots = t.lines, new(slotVectors)
			d.compactSlotted, *d.slots = t.bySlots()
			if t.r <= 8 {
				d.slotted = d
			} else {
				d.twice = d
			}
		default:
			d.compact = t
		}
	}
	return d
}

// Contains reports whether a key may be in the table.
func (d *Direct) Contains(key []byte) bool { return directKey(d, key) }

// ContainsHash is Contains for a hash.
func (d *Direct) ContainsHash(h uint64) bool { return directHash(d, h) }

// What directKey and directHash jump to in place of a return, from assembly.
var _, _ = directKeyInGo, directHashInGo

func directKeyInGo(d *Direct, key []byte) bool { return d.contains(d.hash.Hash(key)) }
func directHashInGo(d *Direct, h uint64) bool  { return d.contains(h) }
