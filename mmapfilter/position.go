package mmapfilter

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Position is a place in the history of a filter that keeps its hashes (see [Options.KeepHashes]), or
// the zero value if the filter has no history. Compare positions with ==: filters with equal
// positions have the same keys.
//
// Its text, such as 0123456789abcdef-42-fedcba9876543210, is the same on every machine.
type Position struct {
	// Descent is the number that the history got when it began. A rebuild and a repair continue the
	// history. A snapshot stays in the history of its source until the first operation of its own.
	Descent uint64
	// Number is how many operations are before the position, including those before a rebuild.
	Number uint64
	// Chain is a hash over these operations. Two filters of one descent have different Chains once they
	// have had different operations, as after one of them was restored from a backup.
	Chain uint64
}

func positionOf(descent uint64, at layout.Position) Position {
	return Position{descent, at.Number, at.Chain}
}

// IsZero reports whether p is zero, because the filter has no history.
func (p Position) IsZero() bool { return p == Position{} }

// String returns the text of p.
func (p Position) String() string { return fmt.Sprintf("%016x-%d-%016x", p.Descent, p.Number, p.Chain) }

// ParsePosition returns the position with the given text.
func ParsePosition(text string) (Position, error) {
	part := strings.Split(text, "-")
	var p Position
	ok := len(part) == 3 && parseHex(part[0], &p.Descent) && parseHex(part[2], &p.Chain)
	if ok {
		n, err := strconv.ParseUint(part[1], 10, 64)
		p.Number, ok = n, err == nil
	}
	if !ok || p.String() != text {
		return Position{}, fmt.Errorf("%q is not a position, such as 0123456789abcdef-42-fedcba9876543210", text)
	}
	return p, nil
}

func parseHex(digits string, v *uint64) bool {
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 8 {
		return false
	}
	*v = binary.BigEndian.Uint64(b)
	return true
}

// MarshalText returns the text of p.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePosition.
func (p *Position) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePosition(string(text))
	return err
}

// Position returns the position up to which operations are durable. In a process that reads the file,
// it is the position of the last checkpoint; after a rebuild, this may be earlier than a position
// that Position has returned for the old file. Position returns zero if the filter keeps no hashes,
// and after Close. Until its first operation of its own, a snapshot has the position at which it was
// made, or the one to which [Filter.Apply] has brought it. From then on, a snapshot with hashes returns
// the position in its own history.
func (f *Filter) Position() Position { return f.position((*openFile).followed) }

// ownPosition returns the position in the filter's own history, the one that Changes and Snapshot
// use, even if the filter is a replica with hashes.
func (f *Filter) ownPosition() Position { return f.position((*openFile).position) }

func (f *Filter) position(of func(*openFile) Position) Position {
	for {
		o := f.open.Load()
		if o == nil {
			return Position{}
		}
		p := of(o)
		if o.work == nil || f.open.Load() == o { // otherwise a rebuild has replaced the file, or has failed to
			return p
		}
	}
}

// position returns the position in the history of the file.
func (o *openFile) position() Position {
	if o.work != nil {
		return positionOf(o.work.Writer.Position())
	}
	sb := o.newest()
	if sb.IsReplica() && sb.Kept().Set == layout.Departed {
		return Position{}
	}
	return positionOf(sb.Descent(), sb.Kept().At)
}

// followed returns the position in the history that the file follows, or in the file's own history
// if it follows none.
func (o *openFile) followed() Position {
	if o.work != nil {
		if descent, at, ok := o.work.Writer.Source(); ok {
			return positionOf(descent, at)
		}
		return o.position()
	}
	sb := o.newest()
	if sb.Follows() && sb.Kept().Set != layout.Departed {
		return positionOf(sb.Source(), sb.Kept().Followed)
	}
	return o.position()
}
