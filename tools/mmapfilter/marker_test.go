package main

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestMarkerRoundTrip checks that decoding inverts encoding.
func TestMarkerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := marker{
			kind:    runKind(rapid.IntRange(0, int(runKinds)-1).Draw(t, "kind")),
			ended:   rapid.Bool().Draw(t, "ended"),
			records: rapid.Uint64Range(0, maxRecords).Draw(t, "records"),
		}
		extra := rapid.Uint8().Draw(t, "extra")
		if m.records > 0 {
			m.all = rapid.Uint16Range(0, 1<<markerAllBits-1).Draw(t, "all")
		}
		switch {
		case !m.ended && m.kind.adds():
			m.length = extra
		case !m.ended || m.records > 0:
			m.first = extra
		}
		if got, ok := decodeMarker(m.encode()); !ok || got != m {
			t.Fatalf("%+v became %+v, %v", m, got, ok)
		}
	})
}

// FuzzMarker checks that a sequence is not a marker, or is the encoding of the marker that it decodes
// to.
func FuzzMarker(f *testing.F) {
	for _, seq := range []uint64{0, 1 << 36, 0xafff << 48, 0xb0 << 56, 0xb000<<48 | 1, 0xb1ff << 48, 0xb1ff<<48 | 7, 0xb5 << 56, 0xb6 << 56, 0xb0_00_fff << 36, 1<<64 - 1} {
		f.Add(seq, uint64(0))
		f.Add(seq, uint64(5))
	}
	f.Fuzz(func(t *testing.T, seq, operations uint64) {
		m, ok := decodeMarker(seq)
		tag := seq >> 56
		if ok && (m.encode() != seq || tag < 0xb0 || tag > 0xb5) {
			t.Errorf("%#x is taken for %+v, which is encoded as %#x", seq, m, m.encode())
		}
		name, text := describeSequence(seq, operations)
		if ok != (name == "input") || !ok && text != formatSequence(seq, operations) {
			t.Errorf("%#x: %s %s", seq, name, text)
		}
	})
}

// TestNoMarker checks that sequences, times and numbers of records are not taken for markers, and that a
// marker of no records must not have a check.
func TestNoMarker(t *testing.T) {
	for _, seq := range []uint64{0, 1, 1 << 40, 1_790_000_000_000_000_000, 1<<63 - 1, 0xafff_ffff_ffff_ffff, 0xb600_0000_0000_0000, 0xb001_0010_0000_0000, 0xb101_0000_0000_0000} {
		if m, ok := decodeMarker(seq); ok {
			t.Errorf("%#x is taken for %+v", seq, m)
		}
	}
}

// TestMarkersStay checks that the encoding of markers stays the same, because files contain markers.
func TestMarkersStay(t *testing.T) {
	var c recordCheck
	for _, key := range []string{"pear", "apple", "", "plum"} {
		c.add([]byte(key))
	}
	for _, x := range []struct {
		m    marker
		seq  uint64
		name string
	}{
		{new(recordCheck).marker(addRun, false, 0x1234), 0xb034_0000_0000_0000, "add, 0 records"},
		{new(recordCheck).marker(delRun, true, 0x1234), 0xb500_0000_0000_0000, "del, 0 records"},
		{c.marker(addRun, false, 0x104), 0xb004_e890_0000_0004, "add, 4 records"},
		{c.marker(addRun, true, 0x104), 0xb10d_e890_0000_0004, "add, 4 records"},
		{c.marker(addUniqueRun, true, 0x104), 0xb30d_e890_0000_0004, "add --unique, 4 records"},
		{c.marker(delRun, false, 0x100), 0xb40d_e890_0000_0004, "del, 4 records"},
	} {
		if seq := x.m.encode(); seq != x.seq {
			t.Errorf("%+v is %#x, want %#x", x.m, seq, x.seq)
		}
		ending := map[bool][2]string{true: {", ended", ", ended, and 3 operations after it"}, false: {", not ended", " and 3 more, not ended"}}[x.m.ended]
		for i, operations := range []uint64{0, 3} {
			if name, text := describeSequence(x.seq, operations); name != "input" || text != x.name+ending[i] {
				t.Errorf("%#x, %d: %s %s", x.seq, operations, name, text)
			}
		}
	}
}

// TestRecordCheck checks that the check of records depends on the records, their order and where they
// end.
func TestRecordCheck(t *testing.T) {
	seen := make(map[string]string)
	for _, records := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"b", "a"}, {"ab"}, {"a", "b", "c"}, {"ab", "c"}, {"a", "bc"}, {"abc"}} {
		var c recordCheck
		for _, r := range records {
			c.add([]byte(r))
		}
		m := c.marker(addRun, true, 0)
		is := fmt.Sprint(m.all, m.records)
		if len(records) > 0 {
			var first recordCheck
			first.add([]byte(records[0]))
			if m.first != first.marker(delRun, true, 7).first {
				t.Errorf("%q: the check of the first record depends on the others", records)
			}
		}
		if other, ok := seen[is]; ok {
			t.Errorf("%q is taken for %s", records, other)
		}
		seen[is] = fmt.Sprintf("%q", records)
	}
}
