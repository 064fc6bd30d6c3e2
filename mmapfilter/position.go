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
// the zero value if the filter has no history. Filters with equal positions, which can be compared with
// ==, have the same keys.
//
// Its text, such as 0123456789abcdef-42-fedcba9876543210, is the same on every machine.
type Position struct {
	// Descent is the number that the history got when it began. A rebuild, a repair and a snapshot
	// continue the history.
	Descent uint64
	// Number is how many operations are before the position, including those before a rebuild.
	Number uint64
	// Chain is a hash over these operations. Two filters of one descent have different Chains once
	// they went different ways, as when one of them was restored from a backup.
	Chain uint64
}

func positionOf(descent uint64, at layout.Position) Position {
	return Position{descent, at.Number, at.Chain}
}

// IsZero reports whether the filter has no history.
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
// it is the position of the last checkpoint; after a rebuild, this may be earlier than a position of
// the old file that was returned before. Position returns zero if the filter keeps no hashes, and
// after Close. A snapshot has the position at which it was made, or to which [Filter.Apply] has
// brought it, until its first operation of its own.
func (f *Filter) Position() Position {
	for {
		o := f.open.Load()
		if o == nil {
			return Position{}
		}
		if o.work == nil {
			sb := o.newest()
			if sb.Kept().Set == layout.Departed {
				return Position{}
			}
			return positionOf(sb.Descent(), sb.Kept().At)
		}
		p := positionOf(o.work.Writer.Position())
		if f.open.Load() == o { // otherwise a rebuild has replaced it, or has failed to
			return p
		}
	}
}
