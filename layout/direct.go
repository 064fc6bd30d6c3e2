package layout

// A Direct looks up single keys in a view of a table, with no more instructions around a
// look than there must be: out of the cache they cost a lookup as much as the look
// itself. A layout that has a kernel for single keys puts a Direct at the beginning of a
// struct of its own, with the constants of the kernel behind it; the code, in assembly,
// also hashes the key, and there is neither an interface call nor a check which kernel is
// in use. The code of every layout knows the offsets of these fields.
type Direct struct {
	mix                    [2]uint64 // of the Hasher
	region, runtime, stash *uint64
	lookHash, lookKey      uintptr // where in the program hash and key lookups go
	hash                   *Hasher
	contains               func(h uint64) bool
	_                      uint64 // to a multiple of 16 bytes
}

// A directTable is a Table with kernels for single keys.
type directTable interface {
	// Direct returns a struct that begins with a copy of d, or nil if the kernel in use,
	// on this machine, has no code for single lookups in this table.
	Direct(d Direct) *Direct
}

// NewDirect returns the Direct for a table. contains answers for hashes that the kernel
// does not settle. It answers for all if t is nil or has no kernel. While a lookup is in
// progress, contains and what it refers to stay reachable.
func NewDirect(t Table, v *View, h *Hasher, contains func(h uint64) bool) *Direct {
	d := Direct{mix: h.mix, hash: h, contains: contains}
	if t, ok := t.(directTable); ok {
		d.region, d.runtime, d.stash = &v.Region[0], &v.Runtime[0], &v.Stash[0]
		if own := t.Direct(d); own != nil {
			return own
		}
	}
	d.lookHash, d.lookKey = lookAddresses()
	return &d
}

// Look sets the code that looks a hash up, and a key: the addresses of functions in
// assembly with the arguments and the result of ContainsHash and Contains. Only the
// packages of layouts call it.
func (d *Direct) Look(hash, key uintptr) { d.lookHash, d.lookKey = hash, key }

// Contains reports whether key may be in the table.
func (d *Direct) Contains(key []byte) bool { return directKey(d, key) }

// ContainsHash is Contains for a hash.
func (d *Direct) ContainsHash(h uint64) bool { return directHash(d, h) }

// KeyInGo and HashInGo answer with contains. They are where a kernel goes with what it
// does not settle.
func KeyInGo(d *Direct, key []byte) bool { return d.contains(d.hash.Hash(key)) }
func HashInGo(d *Direct, h uint64) bool  { return d.contains(h) }
