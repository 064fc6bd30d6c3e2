package guard

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// The first byte of an entry's key says what the entry is. There is at most one entry each of keyStamp,
// keyOwner, keyFailed and keyTrimmed. The keys of other entries have a number after that byte.
const (
	keyStamp   = 's' // names the filter that has all keys except those in the outbox
	keyOwner   = 'o' // names the filter of the guard that opened the store last; see OwnerName
	keyFailed  = 'x' // the filter has failed and must not be used
	keyInserts = 'i' // hashes inserted by consecutive operations; the key has the number of the first
	keyLoose   = 'u' // hashes that found no room
	keyDeletes = 'd' // hashes to delete
	keyTrimmed = 't' // the number of an operation; the outbox has none before it
)

func entryKey(kind byte, number ...uint64) []byte {
	key := []byte{kind}
	for _, n := range number {
		key = binary.BigEndian.AppendUint64(key, n)
	}
	return key
}

// allEntries is the range of all entries.
func allEntries() []Range { return []Range{{From: []byte{0}, To: []byte{0xff}}} }

// just returns the range of a single entry.
func just(key []byte) Range { return Range{From: key, To: append(key[:len(key):len(key)], 0)} }

// A record is an entry of inserted hashes.
type record struct {
	key  []byte
	end  uint64 // the operation after its last one
	done bool   // the transaction has ended
}

// A deletion has the hashes that a transaction has deleted, or that an aborted transaction has put.
type deletion struct {
	key    []byte // of the entry; nil if there is none
	hashes []uint64
}

// entriesOfDeletes returns the ranges of the entries of deletes.
func entriesOfDeletes(deletes []*deletion) (ranges []Range) {
	for _, d := range deletes {
		if d.key != nil {
			ranges = append(ranges, just(d.key))
		}
	}
	return ranges
}

// An identity tells a filter from other filters. It is in the filter's normalisation note.
type identity [16]byte

func newIdentity(random func() uint64) (id identity) {
	binary.LittleEndian.PutUint64(id[:], random())
	binary.LittleEndian.PutUint64(id[8:], random())
	return id
}

const identityPrefix = "guard "

// ofGuard reports whether a guard has created the filter, for this store or another one.
func ofGuard(f guarded.Filter) bool { return strings.HasPrefix(f.Normalisation(), identityPrefix) }

func (id identity) String() string { return identityPrefix + hex.EncodeToString(id[:]) }

// owner returns the entry that makes a guard with this filter the owner.
func (id identity) owner() Entry { return Entry{entryKey(keyOwner), []byte(id.String())} }

// A token names the last mark. 0 means that there is none.
type token uint32

const (
	tokenBits = 24
	baseBits  = 64 - tokenBits
)

// newToken returns a random token other than the last.
func newToken(random func() uint64, last token) token {
	for {
		if t := token(random() >> baseBits); t != 0 && t != last {
			return t
		}
	}
}

// pack returns the user sequence of a filter after a mark: the token, and base, which is the
// number of operations before the mark, or the position.
func pack(t token, base uint64) uint64 { return uint64(t)<<baseBits | base&(1<<baseBits-1) }

func unpack(seq uint64) (t token, base uint64) {
	return token(seq >> baseBits), seq & (1<<baseBits - 1)
}

// A stamp says which filter has all keys of the store except those in the outbox: the filter with this
// identity and token. If a crash comes between the two steps of a mark, this filter has the previous
// token, and at least previousAt operations.
type stamp struct {
	id              identity
	mode            DeleteMode
	ordered         bool // there are positions, but no outbox
	reset           bool // after the mark, operations are counted anew, and positions may be reused
	token, previous token
	previousAt      uint64 // with positions: the position of the filter when it was opened
	gone            uint64 // about how many keys are in the filter but not in the store
	unknown         bool   // more keys than that may be gone
	capacity        uint64 // Options.Capacity, or 0 if it is not known
	covers          uint64 // see Options.covered
}

const (
	stampVersion = 3
	stampReset   = 1 << 0
	stampOrdered = 1 << 1
	stampUnknown = 1 << 2
	stampBytes   = 3 + len(identity{}) + 4 + 4 + 8 + 8 + 8 + 8
)

func (s *stamp) encode() []byte {
	b := append([]byte{stampVersion, byte(s.mode), 0}, s.id[:]...)
	if s.reset {
		b[2] |= stampReset
	}
	if s.ordered {
		b[2] |= stampOrdered
	}
	if s.unknown {
		b[2] |= stampUnknown
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(s.token))
	b = binary.LittleEndian.AppendUint32(b, uint32(s.previous))
	b = binary.LittleEndian.AppendUint64(b, s.previousAt)
	b = binary.LittleEndian.AppendUint64(b, s.gone)
	b = binary.LittleEndian.AppendUint64(b, s.capacity)
	return binary.LittleEndian.AppendUint64(b, s.covers)
}

func decodeStamp(b []byte) (s stamp, ok bool) {
	if len(b) != stampBytes || b[0] != stampVersion || b[2] > stampReset|stampOrdered|stampUnknown {
		return s, false
	}
	s.mode, s.reset, s.ordered = DeleteMode(b[1]), b[2]&stampReset != 0, b[2]&stampOrdered != 0
	s.unknown = b[2]&stampUnknown != 0
	copy(s.id[:], b[3:])
	b = b[3+len(s.id):]
	s.token, s.previous = token(binary.LittleEndian.Uint32(b)), token(binary.LittleEndian.Uint32(b[4:]))
	s.previousAt, s.gone = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	s.capacity, s.covers = binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
	return s, true
}

func appendHashes(b []byte, hashes []uint64) []byte {
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

func decodeHashes(b []byte) (hashes []uint64) {
	for ; len(b) >= 8; b = b[8:] {
		hashes = append(hashes, binary.LittleEndian.Uint64(b))
	}
	return hashes
}

// A state is the content of the entries.
type state struct {
	stamp   stamp
	owner   string
	trimmed uint64
	inserts []numbered
	loose   []uint64
	deletes []uint64
}

type numbered struct {
	first  uint64 // operation
	hashes []uint64
}

var (
	errNoStamp = errors.New("the store names no filter")
	errFailed  = errors.New("the filter had failed")
	errOther   = errors.New("the filter and the store do not belong together, or one of them is older")
	errTooMany = errors.New("the filter lacks more keys of the store than memory has room for")
	errMode    = errors.New("the filter was used with other options")
	errOwner   = errors.New("another guard may have opened the store since this one did")
	errCovers  = errors.New("the filter may be for other keys: Covers is another function, or has no CoversVersion")
)

func readState(entries []Entry) (*state, error) {
	s, stamped := new(state), false
	for _, e := range entries {
		if len(e.Key) == 0 {
			continue
		}
		kind, number := e.Key[0], uint64(0)
		switch numbered := kind == keyInserts || kind == keyLoose || kind == keyDeletes; {
		case numbered && len(e.Key) == 9:
			number = binary.BigEndian.Uint64(e.Key[1:])
		case numbered || len(e.Key) != 1: // an entry of a guard with a longer prefix
			kind = 0
		}
		switch kind {
		case keyStamp:
			s.stamp, stamped = decodeStamp(e.Value)
		case keyOwner:
			s.owner = string(e.Value)
		case keyTrimmed:
			if s.trimmed = ^uint64(0); len(e.Value) == 8 {
				s.trimmed = binary.LittleEndian.Uint64(e.Value)
			}
		case keyFailed:
			return nil, errFailed
		case keyInserts:
			s.inserts = append(s.inserts, numbered{number, decodeHashes(e.Value)})
		case keyLoose:
			s.loose = append(s.loose, decodeHashes(e.Value)...)
		case keyDeletes:
			s.deletes = append(s.deletes, decodeHashes(e.Value)...)
		default:
			return nil, fmt.Errorf("an entry of the guard has the unknown key %q", e.Key)
		}
	}
	if !stamped {
		return nil, errNoStamp
	}
	return s, nil
}

// isOf reports whether a filter is the filter that the store names.
func (s *state) isOf(f guarded.Filter) bool { return f.Normalisation() == s.stamp.id.String() }

// check returns nil if a filter has all keys of the store except the keys in the outbox (G2), and no
// other guard has opened the store since (G6). With positions, the filter may also lack keys that came
// after its position.
func (s *state) check(f guarded.Filter, o *Options, ordered bool) error {
	if s.owner != s.stamp.id.String() {
		return errOwner
	}
	if s.stamp.mode != o.Deletes || s.stamp.ordered != ordered {
		return errMode
	}
	if covers := o.covered(); covers != s.stamp.covers || covers == unnamed {
		return errCovers
	}
	at, durable := durableIn(f)
	least := s.trimmed
	if at == s.stamp.previous && !ordered {
		// The filter may be from before the mark because it is a backup, not because of a crash. Then
		// the outbox may have been trimmed since, and its numbers may not belong to this filter.
		if s.stamp.reset && (len(s.inserts) > 0 || s.trimmed > 0) {
			return errOther
		}
		least = max(least, s.stamp.previousAt)
	}
	if !s.isOf(f) || at == 0 || at != s.stamp.token && at != s.stamp.previous || durable < least {
		return errOther
	}
	return nil
}

// durableIn returns the token of a filter, and the number of its durable operations.
func durableIn(f guarded.Filter) (token, uint64) {
	at, base := unpack(f.DurableSeq())
	return at, base + f.DurableOps()
}

// missing returns the hashes in the outbox that a filter lacks. durable is how many operations the
// filter has durably.
func (s *state) missing(durable uint64) (hashes []uint64) {
	for _, n := range s.inserts {
		for i, h := range n.hashes {
			if n.first+uint64(i) >= durable {
				hashes = append(hashes, h)
			}
		}
	}
	return append(hashes, s.loose...)
}
