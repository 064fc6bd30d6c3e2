package layout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// FuzzScanLog scans any words as a log, with any superblock: it ends, and what
// it says agrees with what it gives.
func FuzzScanLog(f *testing.F) {
	l := newTestLog(make([]uint64, LogStart+4*LogPageWords), testLive(nil))
	l.do(2, 1)
	l.commit()
	l.further = 5
	l.do(3, -1)
	l.further = 0
	l.commitAt(9)
	l.do(1, 1)
	pages := make([]byte, 0, 4*LogPageBytes)
	for _, w := range l.words[LogStart:] {
		pages = binary.LittleEndian.AppendUint64(pages, w)
	}
	for _, forged := range []bool{false, true} {
		f.Add(pages, uint64(7), uint64(0x5A17), uint64(1000), uint64(0), uint64(100), forged)
		f.Add(pages[:3*LogPageBytes/2], uint64(7), uint64(0x5A17), uint64(1000), uint64(1003), uint64(100), forged)
		f.Add(pages[LogPageBytes:], uint64(7), uint64(0x5A17), uint64(1003), uint64(0), uint64(101), forged)
		f.Add(pages[:200], uint64(6), uint64(0x5A17), uint64(1000), uint64(0), uint64(100), forged)
		f.Add([]byte{}, uint64(1), uint64(0), ^uint64(0), ^uint64(0), uint64(0), forged)
	}
	f.Fuzz(func(t *testing.T, data []byte, generation, salt, lsn, promised, length uint64, forged bool) {
		log := make([]uint64, LogStart+len(data)/8)
		for i := range log[LogStart:] {
			log[LogStart+i] = binary.LittleEndian.Uint64(data[8*i:])
		}
		sb := testLive(func(sb *Superblock) {
			sb.SetGeneration(generation)
			sb.SetLogSalt(salt)
			sb.SetCheckpointLSN(lsn)
			sb.SetLength(length)
		})
		PutLogHeader(func(i, v uint64) { log[i] = v }, LogHeader{UUID: sb.UUID(), Generation: generation, Salt: salt, Bytes: int64(len(log)) * 8})
		if forged {
			forge(log, sb)
		}
		before := slices.Clone(log)
		n, grown, open := uint64(0), length, false
		s, err := ScanLog(log, sb, promised, func(r Record) {
			n++
			open = !r.Last
			grown += uint64(int64(r.Grow))
			if r.Words == 0 || r.Block >= 1<<recordWordBits/wordsPerBlock || r.Grow < -1 || r.Grow > 1 {
				t.Fatalf("%+v", r)
			}
		})
		if open || n != s.Records || n > uint64(len(log))/recordWords || grown != s.Length && err == nil {
			t.Fatalf("%d records, %d items: %+v, %v", n, grown, s, err)
		}
		if s.LSN-lsn < n || s.LSN-lsn > n+uint64(len(log))/LogPageWords || s.End < LogStart || s.End > uint64(len(log)) {
			t.Fatalf("%d records: %+v", n, s)
		}
		if err == nil && promised > s.LSN {
			t.Fatalf("%d is promised: %+v", promised, s)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if again, err2 := ScanLog(log, sb, promised, nil); !reflect.DeepEqual(again, s) || fmt.Sprint(err2) != fmt.Sprint(err) {
			t.Fatalf("%+v, %v; again %+v, %v", s, err, again, err2)
		}
		LaterGeneration(log, sb)
		if !slices.Equal(log, before) {
			t.Fatal("a scan changed the log")
		}
	})
}

// TestScanOfAnyDamage changes random words of a good log: the scan gives the
// first operations or an error, and never others.
func TestScanOfAnyDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	l := newTestLog(make([]uint64, testLogWords), testLive(nil))
	for i := range 60 {
		l.further = uint64(i % 8)
		l.do(1+i%9, i%3-1)
		if i%5 == 4 {
			l.commit()
		}
	}
	good := slices.Clone(l.words)
	for range 20_000 {
		copy(l.words, good)
		for range 1 + rng.IntN(4) {
			i := LogStart + rng.Uint64N(l.w.End()-LogStart)
			switch rng.IntN(3) {
			case 0:
				l.words[i] ^= 1 << rng.IntN(64)
			case 1:
				l.words[i] = good[LogStart+rng.Uint64N(l.w.End()-LogStart)]
			case 2:
				from, to := i/LogPageWords*LogPageWords, LogStart+rng.Uint64N(12)*LogPageWords
				copy(l.words[to:to+LogPageWords], good[from:from+LogPageWords])
			}
		}
		if _, err := l.scan(t, 0); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
}
