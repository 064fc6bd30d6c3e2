package layout

// A Direct looks up single keys in a view of a table. Its kernel also hashes the key,
// and there is neither an interface call nor a check which kernel is in use: these
// would take as long as the lookup itself. The kernel knows the offsets of the fields.
type Direct struct {
	blockedConstants // of a Blocked
	mix              [2]uint64
	region, runtime  *uint64
	stash            *uint64
	compact          *compact
	lookHash         uintptr // where in the program directHash goes, and directKey
	lookKey          uintptr
	compactSlotted   // of a Compact with AVX-512, and so is what is behind contains

	look     look
	hash     *Hasher
	contains func(h uint64) bool

	_ [3]uint64 // to 8 bytes before a line of the cache: an allocation of this size begins that far behind one
	slotVectors
	pairs [256]uint64 // the overflow bits of the low 8 bits of a fingerprint
}

// A look is how a Direct looks up a hash. The order is that of directLooks in
// _asm/direct.go.
type look uint64

const (
	lookSlotted   look = iota // a Compact of remainders of 6 to 8 bits, with AVX-512 VBMI
	lookWide                  // a Blocked, with AVX-512
	lookTwice                 // a Compact of remainders of 9 to 15 bits, with AVX-512 VBMI
	lookNarrow                // a Blocked, without
	lookAtCompact             // any other Compact whose counts are in two words
	lookInGo
)

// NewDirect returns the Direct for a table. contains answers for hashes that the kernel
// does not settle. It answers for all if t is nil, or if the kernel in use, on this
// machine and for this layout, has no code for single lookups. While a lookup is in
// progress, contains and what it refers to stay reachable.
func NewDirect(t Table, v *View, h *Hasher, contains func(h uint64) bool) *Direct {
	d := &Direct{mix: h.mix, look: lookInGo, hash: h, contains: contains}
	if k := kernel(inUse.Load()); t != nil && k.single() {
		d.choose(t, v, k)
	}
	d.lookHash, d.lookKey = d.look.addresses()
	return d
}

func (d *Direct) choose(t Table, v *View, k kernel) {
	d.region, d.runtime, d.stash = &v.Region[0], &v.Runtime[0], &v.Stash[0]
	switch t := t.(type) {
	case *blocked:
		d.blockedConstants = t.blockedConstants
		d.look = lookNarrow
		if k == avx512 {
			d.look = lookWide
		}
	case *compact:
		if t.countWords > 2 || compactKernel() == pureGo {
			break
		}
		d.lines, d.compact, d.look = t.lines, t, lookAtCompact
		if k != avx512 || !hasVBMI {
			break
		}
		slotted, vectors, ok := t.bySlots()
		if !ok {
			break
		}
		d.look = lookTwice
		if t.r <= 8 {
			d.look = lookSlotted
		}
		d.compactSlotted, d.slotVectors = slotted, vectors
		for i := range d.pairs {
			d.pairs[i] = t.overflowBits(uint64(i))
		}
	}
}

// Contains reports whether key may be in the table.
func (d *Direct) Contains(key []byte) bool { return directKey(d, key) }

// ContainsHash is Contains for a hash.
func (d *Direct) ContainsHash(h uint64) bool { return directHash(d, h) }

// What directKey and directHash jump to in place of a return, from assembly.
var _, _ = directKeyInGo, directHashInGo

func directKeyInGo(d *Direct, key []byte) bool { return d.contains(d.hash.Hash(key)) }
func directHashInGo(d *Direct, h uint64) bool  { return d.contains(h) }
