package layout_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"os"
	"testing"

	. "github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
)

var (
	one  = Params{Quotients: 41, RemainderBits: 7}  // 1 %
	rare = Params{Quotients: 25, RemainderBits: 26} // the lowest rate
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// testHead returns the head of a sealed file. Its first slot has a superblock to which change was
// applied; the other slots are zero.
func testHead(t testing.TB, change func(*Superblock)) []byte {
	t.Helper()
	g, err := NewGeometry(Compact, one, 100)
	must(t, err)
	var sb Superblock
	sb.SetGeneration(7)
	sb.SetState(Sealed)
	sb.SetGeometry(g)
	sb.SetSeed(42)
	sb.SetUUID([16]byte{1, 2, 3})
	sb.SetCapacity(3800)
	sb.SetTargetRate(0.01)
	sb.SetDesignLoad(0.95)
	sb.SetLength(3000)
	sb.SetNormalisation("hex")
	sb.Sign()
	if change != nil {
		change(&sb)
		binary.LittleEndian.PutUint32(sb[AtCRC:], sb.Checksum())
	}
	head := make([]byte, OffRuntime)
	copy(head, sb[:])
	return head
}

func TestSuperblockKeepsItsFields(t *testing.T) {
	slot, sb, g, err := Newest(testHead(t, nil))
	must(t, err)
	if slot != 0 || sb.Generation() != 7 || sb.State() != Sealed || sb.Seed() != 42 || sb.UUID() != [16]byte{1, 2, 3} ||
		sb.Capacity() != 3800 || sb.TargetRate() != 0.01 || sb.DesignLoad() != 0.95 || sb.Length() != 3000 ||
		sb.Normalisation() != "hex" || sb.Version() != 1 || sb.HashID() != HashXXH3 {
		t.Errorf("slot %d holds %x", slot, sb[:512])
	}
	if g.Lines != 100 || g.Params != one || g.Kind != Compact {
		t.Errorf("geometry %+v", g)
	}
}

// TestNewestWins covers F2.
func TestNewestWins(t *testing.T) {
	head := testHead(t, nil)
	put := func(slot int, generation uint64) *Superblock {
		s := SlotAt(head, slot)
		copy(s[:], testHead(t, func(s *Superblock) { s.SetGeneration(generation) }))
		return s
	}
	put(1, 9)
	put(2, 8)
	if slot, sb, _, err := Newest(head); err != nil || slot != 1 || sb.Generation() != 9 {
		t.Errorf("slot %d, %v", slot, err)
	}
	// A newer copy that is not intact is ignored ...
	put(3, 10)[300] ^= 1
	if slot, _, _, err := Newest(head); err != nil || slot != 1 {
		t.Errorf("slot %d, %v", slot, err)
	}
	// ... but one that is intact and invalid is an error.
	copy(SlotAt(head, 3)[:], testHead(t, func(s *Superblock) {
		s.SetGeneration(10)
		s[AtState] = 9
	}))
	if _, _, _, err := Newest(head); !errors.Is(err, ErrCorrupt) {
		t.Errorf("an older copy was used in place of a newer one: %v", err)
	}
	copy(SlotAt(head, 3)[:], testHead(t, func(s *Superblock) {
		s.SetGeneration(10)
		binary.LittleEndian.PutUint32(s[AtVersion:], 2)
	}))
	if _, _, _, err := Newest(head); !errors.Is(err, ErrVersion) {
		t.Errorf("an older copy was used in place of one with a newer version: %v", err)
	}
}

// TestErrorsNameTheirSlot: an error has the offset in the file, not in the copy. Of two equal copies,
// the first counts.
func TestErrorsNameTheirSlot(t *testing.T) {
	for slot := range SuperblockSlots {
		head := make([]byte, OffRuntime)
		copy(SlotAt(head, slot)[:], testHead(t, func(s *Superblock) { s[AtState] = 9 }))
		_, _, _, err := Newest(head)
		if e, ok := err.(*CorruptError); !ok || e.Offset != int64(slot*SuperblockBytes+AtState) {
			t.Errorf("slot %d: %v", slot, err)
		}
	}
	head := testHead(t, nil)
	copy(SlotAt(head, 2)[:], head[:SuperblockBytes])
	if slot, _, _, err := Newest(head); err != nil || slot != 0 {
		t.Errorf("of two equal copies, that in slot %d counts, %v", slot, err)
	}
	// An intact copy that has the same generation, but differs, is damage.
	copy(SlotAt(head, 2)[:], testHead(t, func(s *Superblock) { s.SetLength(7) }))
	if d := CheckSlots(head, SlotAt(head, 0)); len(d) != 1 || d[0].Offset != 2*SuperblockBytes+AtLength {
		t.Errorf("%v", d)
	}
}

// TestOtherCopies covers F1: what the copies of the superblock that do not count may be in a sealed
// file.
func TestOtherCopies(t *testing.T) {
	for _, c := range []struct {
		name  string
		other []byte
		ok    bool
	}{
		{"the same", testHead(t, nil), true},
		{"intact, of a lower generation", testHead(t, func(s *Superblock) { s.SetGeneration(6) }), true},
		{"zero bytes", make([]byte, SuperblockBytes), true},
		{"a CRC of 0", testHead(t, func(s *Superblock) { s.SetGeneration(8) })[:AtCRC], true},
		{"a CRC of 0, without the magic", testHead(t, func(s *Superblock) { s[0] ^= 1 })[:AtCRC], false},
		{"a valid CRC, without the magic", testHead(t, func(s *Superblock) { s[0] ^= 1; s.SetGeneration(8) }), false},
	} {
		head := testHead(t, nil)
		copy(SlotAt(head, 1)[:], c.other)
		slot, sb, _, err := Newest(head)
		if err != nil || slot != 0 {
			t.Errorf("%s: copy %d counts, %v", c.name, slot, err)
			continue
		}
		if damage := CheckSlots(head, sb); (damage == nil) != c.ok {
			t.Errorf("%s: %v", c.name, damage)
		}
	}
}

// TestEachRule breaks one rule at a time in a superblock that is otherwise valid, and has a valid
// checksum.
func TestEachRule(t *testing.T) {
	put := func(off int, v uint64) func(*Superblock) {
		return func(s *Superblock) { s.Put64(off, v) }
	}
	for _, c := range []struct {
		name   string
		change func(*Superblock)
		rule   string // also with CorruptError.What; "" if the error is a VersionError
		offset int64
	}{
		{"version 0", func(s *Superblock) { s[AtVersion] = 0 }, "F3", AtVersion},
		{"version 2", func(s *Superblock) { s[AtVersion] = 2 }, "", 0},
		{"generation 0", put(AtGeneration, 0), "F2", AtGeneration},
		{"incompat flag", put(AtIncompat, 1<<40), "", 0},
		{"reserved after the version", func(s *Superblock) { s[AtVersion+5] = 1 }, "F4", AtVersion + 5},
		{"reserved after the hash", func(s *Superblock) { s[AtHashID+3] = 1 }, "F4", AtHashID + 3},
		{"reserved after the times to stay", func(s *Superblock) { s[AtReserved] = 1 }, "F4", AtReserved},
		{"reserved before the last time", func(s *Superblock) { s[AtLastTime-1] = 1 }, "F4", AtLastTime - 1},
		{"reserved after the set", func(s *Superblock) { s[AtReservedEnd] = 1 }, "F4", AtReservedEnd},
		{"reserved, and hashes are kept", func(s *Superblock) { s.SetKeepsHashes(true); s[AtLastTime-1] = 1 }, "F4", AtLastTime - 1},
		{"reserved at the end", func(s *Superblock) { s[AtCRC-1] = 1 }, "F4", AtCRC - 1},
		{"another hash", func(s *Superblock) { s[AtHashID] = 2 }, "F5", AtHashID},
		{"another seed", put(AtSeed, 43), "F5", AtCanary},
		{"another canary", put(AtCanary, 1), "F5", AtCanary},
		{"no layout", func(s *Superblock) { s[AtKind] = 0 }, "F6", AtKind},
		{"unknown layout", func(s *Superblock) { s[AtKind] = 200 }, "F6: unknown layout kind 200", AtKind},
		{"Q", func(s *Superblock) { s[AtFirst] = 65 }, "F6: layout compact does not allow Q=65 r=7", AtKind},
		{"r", func(s *Superblock) { s[AtSecond] = 3 }, "F6: layout compact does not allow Q=41 r=3", AtKind},
		{"too many fingerprints", func(s *Superblock) { s[AtSecond] = 26 }, "F6", AtKind},
		{"no lines", put(AtLines, 0), "F6", AtKind},
		{"lines that overflow the region", put(AtLines, 1<<58), "F6", AtKind},
		{"lines that overflow the file", put(AtLines, 1<<40), "F6", AtKind},
		{"all lines", put(AtLines, math.MaxUint64), "F6", AtKind},
		{"hashes of a file that keeps none", func(s *Superblock) { s.SetHashes(Hashes{Pages: 1}) }, "F4", AtHashes},
		{"the check of a last page, likewise", func(s *Superblock) { s.SetHashes(Hashes{Last: 1}) }, "F4", AtHashes},
		{"region size", put(AtRegionBytes, 6401), "F6", AtRegionBytes},
		{"rate 0", put(AtTargetRate, 0), "F6", AtTargetRate},
		{"rate 1", put(AtTargetRate, math.Float64bits(1)), "F6", AtTargetRate},
		{"rate NaN", put(AtTargetRate, math.Float64bits(math.NaN())), "F6", AtTargetRate},
		{"more capacity than slots", put(AtCapacity, 5501), "F6", AtCapacity},
		{"load 2", put(AtDesignLoad, math.Float64bits(2)), "F6", AtDesignLoad},
		{"load 0", put(AtDesignLoad, 0), "F6", AtDesignLoad},
		{"load NaN", put(AtDesignLoad, math.Float64bits(math.NaN())), "F6", AtDesignLoad},
		{"state 0", func(s *Superblock) { s[AtState] = 0 }, "F7", AtState},
		{"state 4", func(s *Superblock) { s[AtState] = 4 }, "F7", AtState},
		{"length", put(AtLength, math.MaxUint64), "F13", AtLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := Newest(testHead(t, c.change))
			if c.rule == "" {
				if _, ok := err.(*VersionError); !ok || !errors.Is(err, ErrVersion) {
					t.Errorf("got %v", err)
				}
				return
			}
			e, ok := err.(*CorruptError)
			if !ok || !errors.Is(err, ErrCorrupt) || e.Region != RegionSuperblock || e.Offset != c.offset || e.Rule != c.rule && e.Rule+": "+e.What != c.rule {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCompatFlags covers F3 and the exception of F4.
func TestCompatFlags(t *testing.T) {
	for name, change := range map[string]func(*Superblock){
		"compat": func(s *Superblock) {
			s.Put64(AtCompat, 1<<3)
			s[AtReserved] = 77 // a field of that feature
		},
		"read-only compat": func(s *Superblock) { s.Put64(AtReadOnlyCompat, 1<<3) },
		"hashes": func(s *Superblock) {
			s.SetKeepsHashes(true)
			s.SetHashes(Hashes{1, 2, 3, 4})
			s.SetKept(Kept{Position{5, 6}, 7, 8, Position{}, 0})
			s.SetDescent(9)
			s.SetLastTime(10)
			s.SetExpireAfter(11)
			s.SetExpiredBefore(12)
			s.SetKeepChanges(13)
		},
	} {
		if _, _, _, err := Newest(testHead(t, change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHistoryInTheSuperblock covers F4: the superblock of a file that keeps its hashes has fields for
// its history; in any other file they are zero.
func TestHistoryInTheSuperblock(t *testing.T) {
	set := func(s *Superblock) {
		s.SetHashes(Hashes{0x11, 0x12, 0x13, 0x14})
		s.SetDescent(0x15)
		s.SetKept(Kept{Position{0x16, 0x17}, 0x18, 0x19, Position{}, 0})
		s.SetLastTime(0x1A)
		s.SetExpireAfter(0x1B)
		s.SetExpiredBefore(0x1C)
		s.SetKeepChanges(0x1D)
	}
	_, sb, _, err := Newest(testHead(t, func(s *Superblock) { s.SetKeepsHashes(false); set(s) }))
	must(t, err)
	if sb.Hashes() != (Hashes{0x11, 0x12, 0x13, 0x14}) || sb.Descent() != 0x15 || sb.LastTime() != 0x1A ||
		sb.Kept() != (Kept{Position{0x16, 0x17}, 0x18, 0x19, Position{}, 0}) || sb.ExpireAfter() != 0x1B || sb.ExpiredBefore() != 0x1C || sb.KeepChanges() != 0x1D {
		t.Errorf("%+v, %+v, descent %#x, times %#x, %#x, %#x, %#x", sb.Hashes(), sb.Kept(), sb.Descent(), sb.LastTime(), sb.ExpireAfter(), sb.ExpiredBefore(), sb.KeepChanges())
	}
	for at, v := range map[int]byte{176: 0x11, 184: 0x12, 192: 0x13, 196: 0x14, 216: 0x15, 224: 0x16, 232: 0x17, 240: 0x18, 248: 0x19, 512: 0x1B, 520: 0x1D, 536: 0x1A, 544: 0x1C} {
		if sb[at] != v {
			t.Errorf("byte %d is %#x, not %#x", at, sb[at], v)
		}
		for i := range 4 { // each field has at least 4 bytes
			_, _, _, err := Newest(testHead(t, func(s *Superblock) { s[at+i] = 1 }))
			if e, ok := err.(*CorruptError); !ok || e.Rule != "F4" {
				t.Errorf("byte %d, and no hashes are kept: %v", at+i, err)
			}
		}
	}
}

// TestReplica covers F4: of the fields for kept hashes, a replica without hashes has only a descent and
// a position. ForgetHashes makes it a file like any other.
func TestReplica(t *testing.T) {
	replica := func(s *Superblock) { s.SetReplica(0x15, Position{0x16, 0x17}) }
	_, sb, _, err := Newest(testHead(t, replica))
	if err != nil || !sb.IsReplica() || sb.KeepsHashes() || sb.Descent() != 0x15 || sb.Kept() != (Kept{At: Position{0x16, 0x17}}) || sb.CheckWritable() != nil {
		t.Fatalf("descent %#x, %+v, %v", sb.Descent(), sb.Kept(), err)
	}
	set := func(s *Superblock) { s.SetKept(Kept{At: sb.Kept().At, Set: 0x18}) }
	_, applies, _, err := Newest(testHead(t, func(s *Superblock) { replica(s); set(s) }))
	if err != nil || applies.Kept() != (Kept{At: Position{0x16, 0x17}, Set: 0x18}) || applies[552] != 0x18 {
		t.Errorf("a replica that applies a set: %+v, %v", applies.Kept(), err)
	}
	for name, change := range map[string]func(*Superblock){
		"a plain file":             set,
		"a file that keeps hashes": func(s *Superblock) { s.SetKeepsHashes(false); s.SetHashes(Hashes{1, 2, 3, 4}); set(s) },
	} {
		_, _, _, err := Newest(testHead(t, change))
		if e, ok := err.(*CorruptError); !ok || e.Rule != "F4" {
			t.Errorf("%s that applies a set: %v", name, err)
		}
	}
	for name, change := range map[string]func(*Superblock){
		"hashes":   func(s *Superblock) { s.SetHashes(Hashes{Pages: 1}) },
		"left out": func(s *Superblock) { s.SetKept(Kept{Position{0x16, 0x17}, 1, 0, Position{}, 0}) },
		"waiting":  func(s *Superblock) { s.SetKept(Kept{Position{0x16, 0x17}, 0, 1, Position{}, 0}) },
		"time":     func(s *Superblock) { s.SetLastTime(1) },
		"expiry":   func(s *Superblock) { s.SetExpireAfter(1) },
		"expired":  func(s *Superblock) { s.SetExpiredBefore(1) },
		"changes":  func(s *Superblock) { s.SetKeepChanges(1) },
		"keeping":  func(s *Superblock) { s.SetKeepsHashes(false) },
		"reserved": func(s *Superblock) { s[AtReservedEnd] = 1 },
	} {
		_, _, _, err := Newest(testHead(t, func(s *Superblock) { replica(s); change(s) }))
		if e, ok := err.(*CorruptError); !ok || e.Rule != "F4" {
			t.Errorf("a replica, and %s: %v", name, err)
		}
	}
	plain, forgets := testHead(t, nil), testHead(t, func(s *Superblock) {
		s.SetKeepsHashes(true)
		s.SetHashes(Hashes{1, 2, 3, 4})
		s.SetKept(Kept{Position{5, 6}, 7, 8, Position{}, 0})
		s.SetDescent(9)
		s.SetLastTime(10)
		s.SetExpireAfter(11)
		s.SetExpiredBefore(12)
		s.SetKeepChanges(13)
		s.ForgetHashes()
	})
	if !bytes.Equal(plain, forgets) || !bytes.Equal(plain, testHead(t, func(s *Superblock) { replica(s); s.ForgetHashes() })) {
		t.Error("a file that forgets its hashes differs from one that never kept any")
	}
	other := *sb
	other.Put64(AtReadOnlyCompat, 1<<3|1<<1)
	if e := new(VersionError); !errors.As(other.CheckWritable(), &e) || e.Features != 1<<3 {
		t.Errorf("an unknown flag: %v", other.CheckWritable())
	}
}

// TestEveryBitOfTheSuperblock covers F1: it flips each bit of a file head with one slot in use. In this
// slot a flipped bit is an error; in an empty slot CheckSlots finds it at its offset.
func TestEveryBitOfTheSuperblock(t *testing.T) {
	head := testHead(t, nil)
	for bit := range 8 * len(head) {
		head[bit/8] ^= 1 << (bit % 8)
		_, sb, _, err := Newest(head)
		if bit/8 < SuperblockBytes {
			if e, ok := err.(*CorruptError); !ok || e.Region != RegionSuperblock {
				t.Fatalf("bit %d: %v", bit, err)
			}
		} else {
			if err != nil {
				t.Fatalf("bit %d: %v", bit, err)
			}
			if d := CheckSlots(head, sb); len(d) != 1 || d[0].Offset != int64(bit/8) || d[0].Region != RegionSuperblock {
				t.Fatalf("bit %d: %v", bit, d)
			}
		}
		head[bit/8] ^= 1 << (bit % 8)
	}
}

// TestShortHead covers F1: if a file is shorter than its superblocks, the error has the offset of its
// end.
func TestShortHead(t *testing.T) {
	head := testHead(t, nil)
	for n := range head {
		_, _, _, err := Newest(head[:n])
		if e, ok := err.(*CorruptError); !ok || e.Region != RegionFile || e.Offset != int64(n) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// TestForeignFile covers F1: a file without any magic is not a filter file.
func TestForeignFile(t *testing.T) {
	head := bytes.Repeat([]byte("SQLite format 3\x00"), OffRuntime/16)
	_, _, _, err := Newest(head)
	if e, ok := err.(*CorruptError); !ok || e.Rule != "F1" || !e.NoFilter {
		t.Errorf("got %v", err)
	}
}

func TestFileSize(t *testing.T) {
	_, sb, g, err := Newest(testHead(t, nil))
	must(t, err)
	for size := range g.SealedBytes + 4096 {
		if err := sb.CheckFileSize(g, size); (err == nil) != (size == g.SealedBytes) {
			t.Fatalf("sealed, %d bytes: %v", size, err)
		}
	}
	sb.SetState(Clean)
	for size := range g.SealedBytes + 4096 {
		if err := sb.CheckFileSize(g, size); (err == nil) != (size == g.SealedBytes || size == g.OffTable) {
			t.Fatalf("clean, %d bytes: %v", size, err)
		}
	}
}

// TestGeometryOfKnownSizes compares geometries with numbers worked out by hand.
func TestGeometryOfKnownSizes(t *testing.T) {
	for _, c := range []struct {
		lines                                  uint64
		offTable, chunks, offTrailer, fileSize int64
	}{
		{1, 36864, 1, 36928, 40960},
		{64, 36864, 1, 36928, 40960},
		{65, 40960, 1, 41024, 45056},
		{768, 81920, 1, 81984, 86016},     // fills the first chunk: 16384 + 65536
		{769, 86016, 2, 86080, 90112},     // needs a second chunk
		{1792, 147456, 2, 147520, 151552}, // fills the second chunk
		{1 << 24, 32768 + 1<<30, 16385, 32768 + 1<<30 + 65600, 32768 + 1<<30 + 69632},
	} {
		g, err := NewGeometry(Compact, one, c.lines)
		if err != nil || g.OffTable != c.offTable || g.Chunks != c.chunks || g.OffTrailer != c.offTrailer || g.SealedBytes != c.fileSize {
			t.Errorf("%d lines: %+v, %v; want %+v", c.lines, g, err, c)
		}
		if from, to := g.LineFrom(0), g.LineFrom(g.OffTable); from != 0 || to != c.lines {
			t.Errorf("%d lines: lines %d to %d", c.lines, from, to)
		}
		if line := g.LineFrom(OffRegion + 1); line != 1 || g.LineOffset(line) != OffRegion+64 {
			t.Errorf("line %d at %d", line, g.LineOffset(line))
		}
	}
	// 2^30 lines with 25·2^26 fingerprints take 30 bits for the line, 31 + 1, and 2 to spare (F6).
	for lines, ok := range map[uint64]bool{1 << 30: true, 1<<30 + 1: false} {
		if _, err := NewGeometry(Compact, rare, lines); (err == nil) != ok {
			t.Errorf("%d lines with %v: %v", lines, rare, err)
		}
	}
}

// TestGeometryBounds tries the number of lines at the limits of F6, and just beyond them.
func TestGeometryBounds(t *testing.T) {
	for _, kind := range Kinds() {
		for _, p := range LegalParams(kind) {
			// The line may have the bits of a hash that are left by the fingerprint, the spare bits and,
			// in Compact, one bit for guests.
			guest, lineBits := 0, uint64(p.BucketSize*p.FingerprintBits)
			switch kind {
			case Compact:
				guest, lineBits = 1, 512
			case SemiSorted:
				lineBits -= 4
			}
			most := uint64(1) << (64 - guest - bits.Len64(p.Fingerprints()-1) - SpareHashBits)
			limit := min(most, 8*MaxRegionBytes/lineBits)
			g, err := NewGeometry(kind, p, limit)
			if err != nil {
				t.Errorf("%s %v: %d lines: %v", kind, p, limit, err)
			}
			if g.SealedBytes <= g.OffTrailer || g.OffTrailer < g.OffTable+4*g.Chunks || g.SealedBytes > 2*MaxRegionBytes {
				t.Errorf("%s %v: %+v", kind, p, g)
			}
			if bytes := (limit*lineBits + 7) / 8; uint64(g.RegionBytes) < bytes || uint64(g.RegionBytes) >= bytes+64 {
				t.Errorf("%s %v: %d bytes for %d", kind, p, g.RegionBytes, bytes)
			}
			for _, n := range []uint64{0, limit + 1, 1 << 62, 1<<64 - 1} {
				if g, err := NewGeometry(kind, p, n); err == nil {
					t.Errorf("%s %v: %d lines are accepted: %+v", kind, p, n, g)
				}
			}
		}
	}
}

// FuzzNewest: any head of a file is accepted, or refused with a typed error.
func FuzzNewest(f *testing.F) {
	f.Add(testHead(f, nil))
	f.Add([]byte{})
	image, err := os.ReadFile("../testdata/compact-q25.mmf")
	must(f, err)
	f.Add(image[:OffRuntime])
	f.Fuzz(func(t *testing.T, head []byte) {
		if len(head) >= SuperblockBytes && len(head) >= OffRuntime {
			// Most inputs are not intact. Make them intact, so that Newest checks their fields.
			s := SlotAt(head, 0)
			copy(s[:], Magic[:])
			binary.LittleEndian.PutUint32(s[AtCRC:], s.Checksum())
		}
		_, sb, g, err := Newest(head)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if g.SealedBytes > 2*MaxRegionBytes || g.Lines == 0 || sb.CheckFileSize(g, g.SealedBytes) != nil {
			t.Fatalf("accepted %+v", g)
		}
		CheckSlots(head, sb)
		_ = sb.Normalisation()
	})
}

// TestFollows covers F4: a replica that keeps its hashes also has a position in another history, and a
// flag of each of two kinds says so. In any other file these fields are zero.
func TestFollows(t *testing.T) {
	kept := func(s *Superblock) { s.SetKeepsHashes(true); s.SetHashes(Hashes{1, 2, 3, 4}) }
	at := Kept{At: Position{5, 6}, Followed: Position{0x22, 0x23}, Set: 0x24}
	follows := func(s *Superblock) { kept(s); s.SetSource(0x21); s.SetKept(at) }
	_, sb, _, err := Newest(testHead(t, follows))
	if err != nil || !sb.Follows() || sb.IsReplica() || sb.Source() != 0x21 || sb.Kept() != at || sb.CheckWritable() != nil {
		t.Fatalf("the replica follows %#x, %+v, %v", sb.Source(), sb.Kept(), err)
	}
	for at, v := range map[int]byte{24: 7, 32: 5, 552: 0, 560: 0x21, 568: 0x22, 576: 0x23, 584: 0x24} {
		if sb[at] != v {
			t.Errorf("byte %d is %#x, not %#x", at, sb[at], v)
		}
	}
	for name, change := range map[string]func(*Superblock){
		"the set of a replica without hashes": func(s *Superblock) { follows(s); s[552] = 1 },
		"the flag for readers alone":          func(s *Superblock) { follows(s); s.Put64(AtReadOnlyCompat, 1) },
		"the flag for writers alone":          func(s *Superblock) { kept(s); s.Put64(AtReadOnlyCompat, 5) },
		"no hashes":                           func(s *Superblock) { s.SetSource(0) },
		"a replica":                           func(s *Superblock) { s.SetReplica(1, Position{2, 3}); s.SetSource(0) },
		"a descent of another history":        func(s *Superblock) { kept(s); s[560] = 1 },
		"a position there":                    func(s *Superblock) { kept(s); s[568] = 1 },
		"a chain there":                       func(s *Superblock) { kept(s); s[576] = 1 },
		"a set":                               func(s *Superblock) { kept(s); s[584] = 1 },
		"a set, and no hashes":                func(s *Superblock) { s[584] = 1 },
	} {
		_, _, _, err := Newest(testHead(t, change))
		if e, ok := err.(*CorruptError); !ok || e.Rule != "F4" {
			t.Errorf("%s: %v", name, err)
		}
	}
	forgets := func(s *Superblock) { follows(s); s.ForgetSource() }
	keeps := func(s *Superblock) { kept(s); s.SetKept(Kept{At: at.At}) }
	if !bytes.Equal(testHead(t, keeps), testHead(t, forgets)) {
		t.Error("a file that no longer follows a history differs from one that never did")
	}
	if !bytes.Equal(testHead(t, nil), testHead(t, func(s *Superblock) { follows(s); s.ForgetHashes() })) {
		t.Error("a file that forgets its hashes still follows another history")
	}
}
