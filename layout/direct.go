package layout

// A Direct looks up single keys in a view of a table, with as few instructions around the
// look as possible, because if the line is in the cache, the instructions around a look
// take as long as the look. A layout that has a kernel for single keys puts a Direct at the
// beginning of a struct of its own, with the constants of the kernel behind it. Its code,
// in assembly, also hashes the key; it needs no interface call, and no check of which
// kernel is in use. The assembly of every layout knows the offsets of these fields. All
// fields that batches in sets read are in the first cache line.
type Direct struct {
	mix             [2]uint64 // of the Hasher
	region, runtime *uint64
	lines           uint64
	code            Code
	hash            *Hasher
	contains        func(h uint64) bool
	table           Looks // nil if contains answers for all hashes
	view            *View
}

// A Code has the addresses of functions in assembly. Hash and Key have the arguments and the result of
// ContainsHash and Contains. Own is Key for a set (see [Shards]): it takes the Direct and the hash
// from registers. It reads its arguments only if it calls Go.
type Code struct{ Hash, Key, Own uintptr }

// A directTable is a Table with kernels for single keys.
type directTable interface {
	// Direct returns a struct that begins with a copy of d, or nil if the kernel in use,
	// on this machine, has no code for single lookups in this table.
	Direct(d Direct) *Direct
}

// NewDirect returns the Direct for a table. contains answers for the hashes that the kernel
// leaves open, and for all hashes if t is nil or has no kernel. The function contains, and
// everything that it refers to, stays reachable while a lookup is in progress.
func NewDirect(t Table, v *View, h *Hasher, contains func(h uint64) bool) *Direct {
	d := Direct{mix: h.mix, hash: h, contains: contains, region: &unsettled.region[0], runtime: &unsettled.runtime[0]}
	if t != nil {
		d.region, d.runtime, d.lines = &v.Region[0], &v.Runtime[0], t.Lines()
		d.table, d.view = t, v
	}
	if t, ok := t.(directTable); ok {
		if own := t.Direct(d); own != nil {
			return own
		}
	}
	d.code = codeInGo()
	return &d
}

// unsettled is a line that no kernel can answer from, since its epoch is odd.
var unsettled = struct {
	region  [BlockWords]uint64
	runtime [RuntimeWords]uint64
}{runtime: [RuntimeWords]uint64{RuntimeEpoch: 1}}

// Use sets the code of the Direct. Only the packages of layouts call it.
func (d *Direct) Use(c Code) { d.code = c }

// Contains reports whether key may be in the table.
func (d *Direct) Contains(key []byte) bool { return directKey(d, key) }

// ContainsHash is Contains for a hash.
func (d *Direct) ContainsHash(h uint64) bool { return directHash(d, h) }

// KeyInGo and HashInGo call the function contains. A kernel jumps to them for a lookup
// that it leaves open.
func KeyInGo(d *Direct, key []byte) bool { return d.contains(d.hash.Hash(key)) }
func HashInGo(d *Direct, h uint64) bool  { return d.contains(h) }
