package wal

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// followed writes a log with two segments of generation 8 and one of generation 9, and returns the
// superblock of the file.
func followed(words []uint64, kept bool) *layout.Superblock {
	var change func(*layout.Superblock)
	if kept {
		change = keepsHashes
	}
	sb := testLive(change)
	store := func(at uint64, values []uint64) { copy(words[at:], values) }
	w := NewWriter(words, store, sb.Generation(), sb.LogSalt(), sb.CheckpointLSN())
	c := Commit{}
	if kept {
		c.History, c.Mark, c.At = true, 2e18, layout.Position{Number: 71, Chain: 5}
	}
	commit := func(records ...uint64) {
		for _, value := range records {
			r := Record{Block: layout.WordRegion / 8, Words: 1, Last: true}
			r.Values[0] = value
			w.Append(&r)
		}
		c.Length++
		w.Commit(c)
	}
	commit(1, 2)
	commit(3)
	w = w.Next(words, store)
	commit(4)
	return sb
}

// follow reads all records that a Follower finds up to the LSN durable, and returns their values.
func follow(t *testing.T, f *Follower, words []uint64, durable uint64) (values []uint64) {
	t.Helper()
	for more := true; more; more = f.Turn(words) {
		for f.Next(words, durable) {
			if err := f.Each(func(r *Record) { values = append(values, r.Values[0]) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return values
}

// TestFollower: a Follower reads whole segments up to an LSN, in one generation and in the next.
func TestFollower(t *testing.T) {
	for _, kept := range []bool{false, true} {
		words := make([]uint64, testWords)
		sb := followed(words, kept)
		// The commits are at 1003, 1005 and 1007.
		for durable, want := range map[uint64]int{0: 0, 1002: 0, 1003: 2, 1004: 2, 1005: 3, 1006: 3, 1007: 4, 1 << 40: 4} {
			f := NewFollower(sb)
			if got := follow(t, f, words, durable); !slices.Equal(got, []uint64{1, 2, 3, 4}[:want]) {
				t.Errorf("up to LSN %d it reads %d", durable, got)
			}
			if want == 4 && (f.LSN != 1007 || f.Length != 3 || kept && f.At.Number != 71) {
				t.Errorf("it ends with %+v", f.Commit)
			}
			if want == 0 && (f.LSN != 1000 || f.Length != 100 || f.UserSeq != 40 || f.Operation != 5) {
				t.Errorf("it begins with %+v", f.Commit)
			}
		}
		f := NewFollower(sb) // stops, and goes on later
		got := follow(t, f, words, 1003)
		if got = append(got, follow(t, f, words, 1007)...); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
			t.Errorf("in two steps: %d", got)
		}
	}
}

// TestFollowerStops flips one bit of each word of a log in turn, and checks that a Follower stops before
// the segment with this bit.
func TestFollowerStops(t *testing.T) {
	words := make([]uint64, testWords)
	sb := followed(words, true)
	for at := range uint64(len(words)) {
		if words[at] == 0 {
			continue
		}
		before := 0 // values before the segment
		switch from, _ := Half(testWords, 9); {
		case at < FirstWord:
			continue
		case at >= from && from > FirstWord: // generation 9 is in the second half
			before = 3
		case at >= FirstWord+PageWords:
			before = 2
		}
		words[at] ^= 1 << 17
		if got := follow(t, NewFollower(sb), words, 1<<40); !slices.Equal(got, []uint64{1, 2, 3, 4}[:before]) {
			t.Errorf("with a wrong word %d of %d, it reads %d", at, len(words), got)
		}
		words[at] ^= 1 << 17
	}
}

// TestFollowerLeftBehind checks that a Follower does not go on with a generation before it has read all
// of the previous one, nor with segments of another log or generation.
func TestFollowerLeftBehind(t *testing.T) {
	words := make([]uint64, testWords)
	sb := followed(words, false)
	f := NewFollower(sb)
	if f.Turn(words) {
		t.Error("it has read nothing of generation 8, but goes on with 9")
	}
	if !f.Next(words, 1<<40) || f.Turn(words) {
		t.Error("it has not read all of generation 8, but goes on with 9")
	}
	for name, change := range map[string]func(*layout.Superblock){
		"salt":       func(sb *layout.Superblock) { sb.SetLogSalt(1) },
		"generation": func(sb *layout.Superblock) { sb.SetGeneration(10) },
		"LSN":        func(sb *layout.Superblock) { sb.SetCheckpointLSN(999) },
	} {
		if got := follow(t, NewFollower(testLive(change)), words, 1<<40); len(got) > 0 {
			t.Errorf("with another %s it reads %d", name, got)
		}
	}
	// A segment with the right LSN, but chained to another segment.
	f = NewFollower(sb)
	f.Next(words, 1<<40)
	f.check++
	if f.Next(words, 1<<40) {
		t.Error("it goes on after another record")
	}
}

// TestFollowerInAShortLog checks that a Follower does not read past the end of a log.
func TestFollowerInAShortLog(t *testing.T) {
	words := make([]uint64, testWords)
	sb := followed(words, false)
	for n := range 2 * PageWords {
		follow(t, NewFollower(sb), words[:FirstWord+n], 1<<40)
	}
}
