package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// FuzzScanLog scans any words as a log, with any superblock. The scan must end, and its
// result must agree with the records that it passes on.
func FuzzScanLog(f *testing.F) {
	image := func(change func(*layout.Superblock)) (pages []byte) {
		l := newTestLog(make([]uint64, FirstWord+4*PageWords), testLive(change))
		l.do(2, 1)
		l.commit()
		l.further = 5
		l.do(3, -1)
		if l.sb.KeepsHashes() {
			l.note(layout.Delete)
		}
		l.further = 0
		l.commitAt(9)
		l.do(1, 1)
		for _, w := range l.words[FirstWord:] {
			pages = binary.LittleEndian.AppendUint64(pages, w)
		}
		return pages
	}
	pages := image(nil)
	for _, forged := range []bool{false, true} {
		f.Add(pages, uint64(7), uint64(0x5A17), uint64(1000), uint64(0), uint64(100), forged, false)
		f.Add(pages[:3*PageBytes/2], uint64(7), uint64(0x5A17), uint64(1000), uint64(1003), uint64(100), forged, false)
		f.Add(pages[PageBytes:], uint64(7), uint64(0x5A17), uint64(1003), uint64(0), uint64(101), forged, false)
		f.Add(pages[:200], uint64(6), uint64(0x5A17), uint64(1000), uint64(0), uint64(100), forged, false)
		f.Add([]byte{}, uint64(1), uint64(0), ^uint64(0), ^uint64(0), uint64(0), forged, false)
		f.Add(image(keepsHashes), uint64(8), uint64(0x5A17), uint64(1000), uint64(0), uint64(100), forged, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, generation, salt, lsn, promised, length uint64, forged, kept bool) {
		log := make([]uint64, FirstWord+len(data)/8)
		for i := range log[FirstWord:] {
			log[FirstWord+i] = binary.LittleEndian.Uint64(data[8*i:])
		}
		sb := testLive(func(sb *layout.Superblock) {
			sb.SetGeneration(generation)
			sb.SetLogSalt(salt)
			sb.SetCheckpointLSN(lsn)
			sb.SetLength(length)
			if kept {
				keepsHashes(sb)
			}
		})
		PutHeader(func(i, v uint64) { log[i] = v }, Header{UUID: sb.UUID(), Generation: generation, Salt: salt, Bytes: int64(len(log)) * 8})
		if forged {
			forge(log, sb)
		}
		before := slices.Clone(log)
		n, grown, open, history := uint64(0), length, false, sb.Kept()
		s, err := Scan(log, log, sb, promised, func(r *Record) {
			n++
			open = !r.Last
			grown += uint64(int64(r.Grow))
			history.Add(r.Op, r.Grow, r.Hash)
			if r.Words == 0 && r.Op == 0 || r.Block >= 1<<recordWordBits/layout.BlockWords || r.Grow < -1 || r.Grow > 1 {
				t.Fatalf("%+v", r)
			}
		})
		if open || n != s.Records || n > uint64(len(log))/recordWords || (grown != s.Length || history != s.Kept) && err == nil {
			t.Fatalf("%d records, %d items: %+v, %v", n, grown, s, err)
		}
		if s.LSN-lsn < n || s.LSN-lsn > n+uint64(len(log))/PageWords || s.End[0] < FirstWord || max(s.End[0], s.End[1]) > uint64(len(log)) {
			t.Fatalf("%d records: %+v", n, s)
		}
		if err == nil && promised > s.LSN {
			t.Fatalf("%d is promised: %+v", promised, s)
		}
		if err != nil && !errors.Is(err, layout.ErrCorrupt) {
			t.Fatal(err)
		}
		if again, err2 := Scan(log, log, sb, promised, nil); !reflect.DeepEqual(again, s) || fmt.Sprint(err2) != fmt.Sprint(err) {
			t.Fatalf("%+v, %v; again %+v, %v", s, err, again, err2)
		}
		LaterGeneration(log, sb)
		if !slices.Equal(log, before) {
			t.Fatal("a scan changed the log")
		}
	})
}

// TestScanOfAnyDamage changes random words of a good log. The scan must return some prefix
// of the operations, or an error.
func TestScanOfAnyDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	l := newTestLog(make([]uint64, testWords), testLive(keepsHashes))
	for i := range 60 {
		l.further = uint64(i % 8)
		l.do(1+i%9, i%3-1)
		l.note(layout.Delete)
		if i%5 == 4 {
			l.commit()
		}
	}
	good := slices.Clone(l.words)
	for range 20_000 {
		copy(l.words, good)
		for range 1 + rng.IntN(4) {
			i := FirstWord + rng.Uint64N(l.w.End()-FirstWord)
			switch rng.IntN(3) {
			case 0:
				l.words[i] ^= 1 << rng.IntN(64)
			case 1:
				l.words[i] = good[FirstWord+rng.Uint64N(l.w.End()-FirstWord)]
			case 2:
				from, to := i/PageWords*PageWords, FirstWord+rng.Uint64N(12)*PageWords
				copy(l.words[to:to+PageWords], good[from:from+PageWords])
			}
		}
		if _, err := l.scan(t, 0); err != nil && !errors.Is(err, layout.ErrCorrupt) {
			t.Fatal(err)
		}
	}
}
