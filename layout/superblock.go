package layout

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/klauspost/crc32"
	"github.com/zeebo/xxh3"
)

// hashXXH3 is the only hash id: 64-bit XXH3 with a seed.
const hashXXH3 = 1

// NormalisationBytes is the longest note that a superblock has room for.
const NormalisationBytes = 256

// A State says whether a file is complete without its log, and whether it has checksums.
type State uint8

const (
	Clean  State = 1 // closed, complete without a log; no chunk checksums
	Live   State = 2 // a writer has it open or has died; complete only with its log
	Sealed State = 3 // as Clean, with chunk checksums
)

// String returns "clean", "live", "sealed" or "unknown".
func (s State) String() string {
	switch s {
	case Clean:
		return "clean"
	case Live:
		return "live"
	case Sealed:
		return "sealed"
	}
	return "unknown"
}

// Feature flags. If a file has a flag that a program does not know, the field of the flag says
// what the program may do (F3): in Compat, everything; in ReadOnlyCompat, read; in Incompat, nothing.
const (
	// KeepsHashes says, in Compat and in ReadOnlyCompat, that NAME.hashes belongs to the file. A
	// program that does not know the flag would write operations that NAME.hashes lacks.
	KeepsHashes = 1 << 0
	// growsFlag says, in Compat, that a writer rebuilds the filter when it is full.
	growsFlag = 1 << 1
	// replicaFlag says, in ReadOnlyCompat, that the file is a replica without hashes: it has the items
	// of another filter's history up to the position in the superblock. A program that does not know
	// the flag would write operations of its own, which the history lacks.
	replicaFlag = 1 << 1
	// followsFlag says, in Compat and in ReadOnlyCompat, that the file keeps its hashes and follows the
	// history of another filter. A program that does not know the flag would write operations of its
	// own, which that history lacks.
	followsFlag = 1 << 2
	// shardFlag says, in Incompat, that the file has the keys of one [Shard]. A program that does not
	// know the flag would look in the wrong line.
	shardFlag = 1 << 0

	knownCompat         = KeepsHashes | growsFlag | followsFlag
	knownReadOnlyCompat = KeepsHashes | replicaFlag | followsFlag
	knownIncompat       = shardFlag
)

var (
	magic      = [8]byte{'M', 'M', 'A', 'P', 'F', 'L', 'T', 'R'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// The hash of canaryKey with the seed of a file is the canary of the file. It shows that
// a reader hashes as the writer did.
const canaryKey = "mmapfilter canary"

// Offsets of the fields of a superblock; the package essay has them in a table.
const (
	offMagic          = 0
	offVersion        = 8
	offGeneration     = 16
	offCompat         = 24
	offReadOnlyCompat = 32
	offIncompat       = 40
	offUUID           = 48
	offState          = 64
	offKind           = 65
	offFirst          = 66 // the first parameter: Q or f
	offSecond         = 67 // the second parameter: r or b
	offHashID         = 68
	offSeed           = 72
	offCanary         = 80
	offLines          = 88
	offRegionBytes    = 96
	offCapacity       = 104
	offTargetRate     = 112
	offDesignLoad     = 120
	offLength         = 128
	offLogSalt        = 136
	offCheckpointLSN  = 144
	offUserSeq        = 152
	offOperation      = 160
	offLogBytes       = 168
	offHashesIdentity = 176
	offHashesPages    = 184
	offHashesCheck    = 192
	offHashesLast     = 196
	offShard          = 200
	offShards         = 204
	offShardIdentity  = 208
	offDescent        = 216
	offPosition       = 224
	offChain          = 232
	offLeftOut        = 240
	offWaiting        = 248
	offNormalisation  = 256
	offExpireAfter    = offNormalisation + NormalisationBytes
	offKeepChanges    = 520
	offReserved       = 528
	offLastTime       = 536
	offExpiredBefore  = 544
	offSet            = 552
	offSource         = 560
	offFollowed       = 568
	offFollowedChain  = 576
	offFollowedSet    = 584
	offReservedEnd    = 592
	offCRC            = SuperblockBytes - 4
)

// reservedSpans are the bytes of a superblock that no field uses (F4).
var reservedSpans = [][2]int{
	{offVersion + 4, offGeneration},
	{offHashID + 1, offSeed},
	{offReserved, offLastTime},
	{offReservedEnd, offCRC},
}

var zeros Superblock // for comparisons

// A Superblock is one of the four slots of 4 KiB at the head of a file. The getters check
// nothing, but [Newest], which returns the superblock of a file, checks it. The package
// essay describes the fields.
type Superblock [SuperblockBytes]byte

func (s *Superblock) u64(off int) uint64        { return binary.LittleEndian.Uint64(s[off:]) }
func (s *Superblock) put64(off int, v uint64)   { binary.LittleEndian.PutUint64(s[off:], v) }
func (s *Superblock) f64(off int) float64       { return math.Float64frombits(s.u64(off)) }
func (s *Superblock) putF64(off int, v float64) { s.put64(off, math.Float64bits(v)) }

func (s *Superblock) Version() uint32        { return binary.LittleEndian.Uint32(s[offVersion:]) }
func (s *Superblock) Generation() uint64     { return s.u64(offGeneration) }
func (s *Superblock) Compat() uint64         { return s.u64(offCompat) }
func (s *Superblock) ReadOnlyCompat() uint64 { return s.u64(offReadOnlyCompat) }
func (s *Superblock) Incompat() uint64       { return s.u64(offIncompat) }
func (s *Superblock) UUID() (u [16]byte)     { copy(u[:], s[offUUID:]); return u }
func (s *Superblock) State() State           { return State(s[offState]) }
func (s *Superblock) Kind() Kind             { return Kind(s[offKind]) }
func (s *Superblock) HashID() uint8          { return s[offHashID] }
func (s *Superblock) Seed() uint64           { return s.u64(offSeed) }
func (s *Superblock) Lines() uint64          { return s.u64(offLines) }
func (s *Superblock) Capacity() uint64       { return s.u64(offCapacity) }
func (s *Superblock) TargetRate() float64    { return s.f64(offTargetRate) }
func (s *Superblock) DesignLoad() float64    { return s.f64(offDesignLoad) }
func (s *Superblock) Length() uint64         { return s.u64(offLength) }
func (s *Superblock) LogSalt() uint64        { return s.u64(offLogSalt) }
func (s *Superblock) CheckpointLSN() uint64  { return s.u64(offCheckpointLSN) }
func (s *Superblock) UserSeq() uint64        { return s.u64(offUserSeq) }
func (s *Superblock) Operation() uint64      { return s.u64(offOperation) }
func (s *Superblock) LogBytes() int64        { return int64(s.u64(offLogBytes)) }
func (s *Superblock) KeepsHashes() bool      { return s.Compat()&KeepsHashes != 0 }
func (s *Superblock) Grows() bool            { return s.Compat()&growsFlag != 0 }

// CheckWritable returns a *VersionError if only a newer program may write to the file (F3).
func (s *Superblock) CheckWritable() error {
	if unknown := s.ReadOnlyCompat() &^ knownReadOnlyCompat; unknown != 0 {
		return &VersionError{Version: s.Version(), Features: unknown}
	}
	return nil
}

// Params returns the parameters of the layout, in its terms.
func (s *Superblock) Params() Params {
	first, second := int(s[offFirst]), int(s[offSecond])
	if s.Kind() == Compact {
		return Params{Quotients: first, RemainderBits: second}
	}
	return Params{FingerprintBits: first, BucketSize: second}
}

// Hashes returns what the superblock says about NAME.hashes.
func (s *Superblock) Hashes() Hashes {
	return Hashes{
		s.u64(offHashesIdentity), s.u64(offHashesPages),
		binary.LittleEndian.Uint32(s[offHashesCheck:]), binary.LittleEndian.Uint32(s[offHashesLast:]),
	}
}

// Hashes identifies the file NAME.hashes and its pages that count. If no pages count, some
// hashes are lost.
type Hashes struct {
	Identity uint64
	Pages    uint64
	Check    uint32 // check of the last full page of the tail, or of the header if the tail has none
	Last     uint32 // check of the page of the tail that is not full (page 1 or 2); 0 if there is none
}

// Descent returns a number that the history got when it began. Files with the same descent have
// parts of the same history.
func (s *Superblock) Descent() uint64 { return s.u64(offDescent) }

// Kept returns what the superblock says about the history.
func (s *Superblock) Kept() Kept {
	return Kept{
		At: Position{s.u64(offPosition), s.u64(offChain)}, LeftOut: s.u64(offLeftOut), Waiting: s.u64(offWaiting),
		Followed: Position{s.u64(offFollowed), s.u64(offFollowedChain)}, Set: s.u64(s.offKeptSet()),
	}
}

// LastTime returns the time of the last commit, in nanoseconds since 1970, if hashes are kept.
func (s *Superblock) LastTime() uint64 { return s.u64(offLastTime) }

// ExpireAfter returns the time after which items expire, in nanoseconds, or 0 if they do not expire.
func (s *Superblock) ExpireAfter() uint64 { return s.u64(offExpireAfter) }

// ExpiredBefore returns a time, in nanoseconds since 1970: the last expiry has deleted all items from
// before this time.
func (s *Superblock) ExpiredBefore() uint64 { return s.u64(offExpiredBefore) }

// KeepChanges returns how long the history before the base of NAME.hashes is kept, in nanoseconds.
func (s *Superblock) KeepChanges() uint64 { return s.u64(offKeepChanges) }

// Shard returns which shard of a set the file is, or the zero value if it is none.
func (s *Superblock) Shard() Shard {
	return Shard{binary.LittleEndian.Uint32(s[offShard:]), binary.LittleEndian.Uint32(s[offShards:])}
}

// ShardIdentity returns a number that a shard got when it was built, from what it held then.
func (s *Superblock) ShardIdentity() uint64 { return s.u64(offShardIdentity) }

// Normalisation returns the note on how the keys were prepared for hashing. This package
// does not interpret it.
func (s *Superblock) Normalisation() string {
	text := s[offNormalisation:offExpireAfter]
	end := 0
	for end < len(text) && text[end] != 0 {
		end++
	}
	return string(text[:end])
}

func (s *Superblock) SetGeneration(v uint64)    { s.put64(offGeneration, v) }
func (s *Superblock) SetUUID(u [16]byte)        { copy(s[offUUID:], u[:]) }
func (s *Superblock) SetState(v State)          { s[offState] = byte(v) }
func (s *Superblock) SetCapacity(v uint64)      { s.put64(offCapacity, v) }
func (s *Superblock) SetTargetRate(v float64)   { s.putF64(offTargetRate, v) }
func (s *Superblock) SetDesignLoad(v float64)   { s.putF64(offDesignLoad, v) }
func (s *Superblock) SetLength(v uint64)        { s.put64(offLength, v) }
func (s *Superblock) SetLogSalt(v uint64)       { s.put64(offLogSalt, v) }
func (s *Superblock) SetCheckpointLSN(v uint64) { s.put64(offCheckpointLSN, v) }
func (s *Superblock) SetUserSeq(v uint64)       { s.put64(offUserSeq, v) }
func (s *Superblock) SetOperation(v uint64)     { s.put64(offOperation, v) }
func (s *Superblock) SetLogBytes(v int64)       { s.put64(offLogBytes, uint64(v)) }

// SetKeepsHashes sets the flags of a file that keeps its hashes and, if grows is set, the flag of a
// file that grows.
func (s *Superblock) SetKeepsHashes(grows bool) {
	s.put64(offReadOnlyCompat, s.ReadOnlyCompat()|KeepsHashes)
	s.put64(offCompat, s.Compat()|KeepsHashes)
	if grows {
		s.put64(offCompat, s.Compat()|growsFlag)
	}
}

// ForgetHashes clears everything about hashes: the file keeps none, does not grow and has no
// history.
func (s *Superblock) ForgetHashes() {
	s.put64(offReadOnlyCompat, s.ReadOnlyCompat()&^(KeepsHashes|replicaFlag))
	s.put64(offCompat, s.Compat()&^(KeepsHashes|growsFlag))
	s.ForgetSource()
	s.SetHashes(Hashes{})
	s.SetKept(Kept{})
	s.SetDescent(0)
	s.SetLastTime(0)
	s.SetExpireAfter(0)
	s.SetExpiredBefore(0)
	s.SetKeepChanges(0)
}

func (s *Superblock) SetHashes(h Hashes) {
	s.put64(offHashesIdentity, h.Identity)
	s.put64(offHashesPages, h.Pages)
	binary.LittleEndian.PutUint32(s[offHashesCheck:], h.Check)
	binary.LittleEndian.PutUint32(s[offHashesLast:], h.Last)
}

func (s *Superblock) SetDescent(v uint64)  { s.put64(offDescent, v) }
func (s *Superblock) SetLastTime(v uint64) { s.put64(offLastTime, v) }

func (s *Superblock) SetExpireAfter(v uint64)   { s.put64(offExpireAfter, v) }
func (s *Superblock) SetExpiredBefore(v uint64) { s.put64(offExpiredBefore, v) }
func (s *Superblock) SetKeepChanges(v uint64)   { s.put64(offKeepChanges, v) }

func (s *Superblock) SetKept(k Kept) {
	s.put64(offPosition, k.At.Number)
	s.put64(offChain, k.At.Chain)
	s.put64(offLeftOut, k.LeftOut)
	s.put64(offWaiting, k.Waiting)
	s.put64(s.offKeptSet(), k.Set)
	s.put64(offFollowed, k.Followed.Number)
	s.put64(offFollowedChain, k.Followed.Chain)
}

// SetShard makes the file a shard, if v is not the zero value.
func (s *Superblock) SetShard(v Shard) {
	if v == (Shard{}) {
		return
	}
	s.put64(offIncompat, s.Incompat()|shardFlag)
	binary.LittleEndian.PutUint32(s[offShard:], v.Number)
	binary.LittleEndian.PutUint32(s[offShards:], v.Count)
}

func (s *Superblock) SetShardIdentity(v uint64) { s.put64(offShardIdentity, v) }

func (s *Superblock) SetNormalisation(v string) {
	text := s[offNormalisation:offExpireAfter]
	clear(text)
	copy(text, v)
}

// SetSeed sets the seed and its canary.
func (s *Superblock) SetSeed(seed uint64) {
	s.put64(offSeed, seed)
	s.put64(offCanary, canary(seed))
}

// SetGeometry sets the layout and its sizes.
func (s *Superblock) SetGeometry(g Geometry) {
	s[offKind] = byte(g.Kind)
	p := g.Params // two of the four are 0
	s[offFirst], s[offSecond] = byte(p.FingerprintBits+p.Quotients), byte(p.BucketSize+p.RemainderBits)
	s.put64(offLines, g.Lines)
	s.put64(offRegionBytes, uint64(g.RegionBytes))
}

// Sign sets the fields that are equal in every superblock, and the checksum. Call it
// last: any later change makes the superblock invalid.
func (s *Superblock) Sign() {
	copy(s[offMagic:], magic[:])
	binary.LittleEndian.PutUint32(s[offVersion:], formatVersion)
	s[offHashID] = hashXXH3
	binary.LittleEndian.PutUint32(s[offCRC:], s.checksum())
}

func (s *Superblock) checksum() uint32 { return crc32.Checksum(s[:offCRC], castagnoli) }

// canary returns the hash of a fixed key with a seed.
func canary(seed uint64) uint64 { return xxh3.HashStringSeed(canaryKey, seed) }

// intact reports whether s has the magic and a valid checksum (F1), whatever its
// version.
func (s *Superblock) intact() bool {
	return [8]byte(s[offMagic:offMagic+8]) == magic &&
		binary.LittleEndian.Uint32(s[offCRC:]) == s.checksum()
}

// unfinished reports whether s has the magic and no checksum. Before a writer stores another
// superblock over s, it clears the checksum of s. It stores the new checksum as the last word.
func (s *Superblock) unfinished() bool {
	return [8]byte(s[offMagic:offMagic+8]) == magic && binary.LittleEndian.Uint32(s[offCRC:]) == 0
}

// blank reports whether the slot was never written.
func (s *Superblock) blank() bool { return *s == zeros }

// IsFilter reports whether a file begins like a filter file, even a damaged one: whether some
// slot has the magic. head is as for [Newest].
func IsFilter(head []byte) bool {
	for ; len(head) >= len(magic); head = head[min(SuperblockBytes, len(head)):] {
		if [8]byte(head[offMagic:]) == magic {
			return true
		}
	}
	return false
}

// Newest returns the newest superblock at the head of a file, the intact one with the
// highest generation (F2), with its slot and its geometry, after checking it. head is
// the first OffRuntime bytes of the file, or all of a shorter file.
//
// Newest skips only slots that are not intact. If the newest intact superblock breaks
// another rule or needs a newer program, Newest returns an error: an older superblock
// beside it describes a file that no longer exists.
func Newest(head []byte) (slot int, sb *Superblock, g Geometry, err error) {
	if n := min(len(head), len(magic)); n > 0 && len(head) < OffRuntime && string(head[:n]) != string(magic[:n]) {
		return 0, nil, g, notFilter(RegionFile, "no magic: not a filter file")
	}
	if len(head) == 0 {
		return 0, nil, g, notFilter(RegionFile, "the file is empty")
	}
	if len(head) < OffRuntime {
		return 0, nil, g, corrupt(RegionFile, int64(len(head)), "F1", "the file ends inside its superblocks")
	}
	slot = -1
	marked := -1 // the first slot that has the magic, intact or not
	for i := range SuperblockSlots {
		s := slotAt(head, i)
		if i > 0 && *s == *slotAt(head, i-1) {
			continue // s equals the slot before, as in a file at rest
		}
		if [8]byte(s[offMagic:offMagic+8]) == magic && marked < 0 {
			marked = i
		}
		if s.intact() && (slot < 0 || s.Generation() > sb.Generation()) {
			slot, sb = i, s
		}
	}
	if slot < 0 && marked < 0 {
		return 0, nil, g, notFilter(RegionSuperblock, "no magic: not a filter file")
	}
	if slot < 0 {
		return 0, nil, g, corrupt(RegionSuperblock, int64(marked*SuperblockBytes), "F1", "no copy has a valid checksum")
	}
	g, err = sb.check(int64(slot * SuperblockBytes))
	return slot, sb, g, err
}

func slotAt(head []byte, i int) *Superblock {
	return (*Superblock)(head[i*SuperblockBytes : (i+1)*SuperblockBytes])
}

// check checks an intact superblock at offset off against the rules F3 to F7. It checks the
// version first, since a later version may change the other fields.
func (s *Superblock) check(off int64) (g Geometry, err error) {
	bad := func(field int, rule, format string, args ...any) (Geometry, error) {
		return Geometry{}, corrupt(RegionSuperblock, off+int64(field), rule, format, args...)
	}
	if s.Version() > formatVersion {
		return g, &VersionError{Version: s.Version()}
	}
	if unknown := s.Incompat() &^ knownIncompat; unknown != 0 {
		return g, &VersionError{Version: s.Version(), Features: unknown}
	}
	if s.Version() == 0 {
		return bad(offVersion, "F3", "the format version is 0")
	}
	if s.Generation() == 0 {
		return bad(offGeneration, "F2", "the generation is 0")
	}
	if i := s.reservedUse(); i >= 0 && s.Compat()&^knownCompat == 0 {
		return bad(i, "F4", "a reserved byte is %#02x, not 0", s[i])
	}
	if field, what := s.historyUse(); what != "" {
		return bad(field, "F4", "%s", what)
	}
	shard := s.Shard()
	if s.Incompat()&shardFlag == 0 && (shard != Shard{} || s.ShardIdentity() != 0) {
		return bad(offShard, "F4", "the file is not a shard, but has the number or the identity of a shard")
	}
	if s.Incompat()&shardFlag != 0 && shard.Number >= shard.Count {
		return bad(offShard, "F4", "there is no shard %d of %d", shard.Number, shard.Count)
	}
	if s.HashID() != hashXXH3 {
		return bad(offHashID, "F5", "unknown hash id %d", s.HashID())
	}
	if got, want := s.u64(offCanary), canary(s.Seed()); got != want {
		return bad(offCanary, "F5", "the canary is %016x, but this program computes %016x", got, want)
	}
	if s.State() < Clean || s.State() > Sealed {
		return bad(offState, "F7", "unknown state %d", s.State())
	}
	g, err = NewGeometry(s.Kind(), s.Params(), s.Lines())
	if err != nil {
		return bad(offKind, "F6", "%v", err)
	}
	if err := g.CheckShard(shard); err != nil {
		return bad(offShards, "F6", "%v", err)
	}
	if s.u64(offRegionBytes) != uint64(g.RegionBytes) {
		return bad(offRegionBytes, "F6", "the region has %d bytes, but %d lines take %d", s.u64(offRegionBytes), g.Lines, g.RegionBytes)
	}
	if r := s.TargetRate(); !(r > 0 && r < 1) {
		return bad(offTargetRate, "F6", "the target rate %v is not between 0 and 1", r)
	}
	if d := s.DesignLoad(); !(d > 0 && d <= 1) {
		return bad(offDesignLoad, "F6", "the design load %v is not in (0, 1]", d)
	}
	if s.Capacity() > g.Slots() {
		return bad(offCapacity, "F6", "a capacity of %d is more than %d slots hold", s.Capacity(), g.Slots())
	}
	if s.State() == Sealed && s.Length() > g.Slots()+StashEntries*maxStashCount {
		return bad(offLength, "F13", "%d items are more than %d slots and the stash hold", s.Length(), g.Slots())
	}
	return g, nil
}

// reservedUse returns the first reserved byte that is not 0, or -1.
func (s *Superblock) reservedUse() int {
	for _, span := range reservedSpans {
		if bytes.Equal(s[span[0]:span[1]], zeros[span[0]:span[1]]) {
			continue
		}
		for i := span[0]; i < span[1]; i++ {
			if s[i] != 0 {
				return i
			}
		}
	}
	return -1
}

// CheckFileSize checks the size of a file against F6: a sealed file has the sealed size
// of its geometry; any other file has this size or ends at OffTable.
func (s *Superblock) CheckFileSize(g Geometry, size int64) error {
	if size == g.SealedBytes || size == g.OffTable && s.State() != Sealed {
		return nil
	}
	return corrupt(RegionFile, min(size, g.SealedBytes), "F6", "the file has %d bytes, but its superblock says %d", size, g.SealedBytes)
}

// CheckSlots checks every slot of a file that nobody writes to against F1. A slot must
// be blank, or a copy of the newest superblock, or intact and older, or have no
// checksum because a writer died while it stored the copy. The offset of an error is the
// first byte at which the slot differs from what it most likely was: blank or a copy.
func CheckSlots(head []byte, newest *Superblock) (damage []*CorruptError) {
	for i := range SuperblockSlots {
		s := slotAt(head, i)
		if !SlotIsCut(head, i, newest) || s.unfinished() {
			continue
		}
		first, n := differences(s, newest)
		if zeroFirst, zeros := differences(s, &zeros); zeros < n {
			first = zeroFirst
		}
		damage = append(damage, corrupt(RegionSuperblock, int64(i*SuperblockBytes+first),
			"F1", "copy %d of the superblock is damaged", i))
	}
	return damage
}

// SlotIsCut reports whether slot i of a file that nobody writes to is neither blank,
// nor a copy of the newest superblock, nor intact and older: a store to it was cut
// short, or it is damaged.
func SlotIsCut(head []byte, i int, newest *Superblock) bool {
	s := slotAt(head, i)
	return *s != *newest && !s.blank() && !(s.intact() && s.Generation() < newest.Generation())
}

// differences returns the first byte in which two superblocks differ, and the number of such
// bytes.
func differences(a, b *Superblock) (first, n int) {
	for i := range a {
		if a[i] != b[i] {
			if n == 0 {
				first = i
			}
			n++
		}
	}
	return first, n
}

// Word returns word i of the superblock.
func (s *Superblock) Word(i int) uint64 { return s.u64(8 * i) }

// SlotGeneration returns the generation of slot i at the head of a file, or 0 if the
// slot is not intact.
func SlotGeneration(head []byte, i int) uint64 {
	if s := slotAt(head, i); s.intact() {
		return s.Generation()
	}
	return 0
}

// SpareSlot returns the slot with the lowest generation, other than newest, the slot of the newest
// superblock. A damaged slot counts as generation 0. A writer stores the next superblock there.
func SpareSlot(head []byte, newest int) int {
	best, lowest := -1, uint64(0)
	for i := range SuperblockSlots {
		if i == newest {
			continue
		}
		if g := SlotGeneration(head, i); best < 0 || g < lowest {
			best, lowest = i, g
		}
	}
	return best
}
