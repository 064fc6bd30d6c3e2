package layout

// A Direct is a table and what lookups read, for keys that are looked up one by one:
// the kernel makes the hash of a key as well, and there is neither a call of an interface nor
// a question which kernel is in use: what is around it costs a lookup as much as the look.
// (Beside other filters, as README has it, Contains takes 75 ns; without it 111.)
type Direct struct {
	blockedConstants // of a Blocked
	mix              [2]uint64
	region, runtime  *uint64

	blocked *blocked
	compact *compact // or else
}

// NewDirect gives that of a table; nil where the layout has none, or this machine, or
// pure Go is in use.
func NewDirect(t Table, v *View, h *Hasher) *Direct {
	if kernel(inUse.Load()) == pureGo {
		return nil
	}
	d := &Direct{mix: h.mix, region: &v.Region[0], runtime: &v.Runtime[0]}
	switch t := t.(type) {
	case *blocked:
		d.blockedConstants, d.blocked = t.blockedConstants, t
	case *compact:
		if t.countWords > 2 || compactKernel() == pureGo {
			return nil
		}
		d.compact = t
	default:
		return nil
	}
	return d
}

// LookBeyond is Contains of the table, for a hash that Look or LookKey leaves open.
func (d *Direct) LookBeyond(v *View, h uint64) bool {
	if d.compact != nil {
		return d.compact.containsBeyond(v, h)
	}
	return d.blocked.containsBeyond(v, h)
}

// Look is FirstLook of the table.
func (d *Direct) Look(h uint64) (found, open bool) { return directHash(d, h) }

// LookKey is Look for the hash of a short key.
func (d *Direct) LookKey(key []byte) (found, open bool) { return directKey(d, &key[0], len(key)) }
