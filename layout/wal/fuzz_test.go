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

// FuzzScanLog scans any words as a log, with any superblock. The scan must end, and its result must
// match the records that it passes on.
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

// TestScanOfAnyDamage changes random words of an intact log, and replaces pages with other pages of it
// or with pages of a log that has other records with the same LSNs. The scan must return a prefix of
// the operations, or an error. If more operations were promised, it must return an error.
func TestScanOfAnyDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	var logs [2]*testLog
	for other := range logs {
		l := newTestLog(make([]uint64, testWords), testLive(follows))
		for i := range 60 {
			l.further = uint64((i + other) % 8)
			l.do(1+i%9, i%3-1)
			l.note(layout.Delete)
			if i%10 == 9 {
				l.mark(layout.Position{Number: uint64(i), Chain: 1}, uint64(i))
			}
			if i%5 == 4 {
				l.commit()
			}
		}
		logs[other] = l
	}
	l, pages := logs[0], logs[0].w.End()/PageWords-FirstWord/PageWords
	good := slices.Clone(l.words)
	for range 20_000 {
		copy(l.words, good)
		for range 1 + rng.IntN(4) {
			i := FirstWord + rng.Uint64N(l.w.End()-FirstWord)
			to := FirstWord + rng.Uint64N(pages)*PageWords
			switch rng.IntN(5) {
			case 0:
				l.words[i] ^= 1 << rng.IntN(64)
			case 1:
				l.words[i] = good[FirstWord+rng.Uint64N(l.w.End()-FirstWord)]
			case 2:
				copy(l.words[to:to+PageWords], good[i/PageWords*PageWords:])
			case 3: // not the first page: nothing before it would show that it is of another log
				to = max(to, FirstWord+PageWords)
				copy(l.words[to:to+PageWords], logs[1].words[to:])
			case 4:
				clear(l.words[to : to+PageWords])
			}
		}
		if _, err := l.scan(t, 0); err != nil && !errors.Is(err, layout.ErrCorrupt) {
			t.Fatal(err)
		}
		if s, err := l.scan(t, l.durable); s.LSN < l.durable && rule(err) != "L5" {
			t.Fatalf("%d is promised: %+v, %v", l.durable, s, err)
		}
	}
}
