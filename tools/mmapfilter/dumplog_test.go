package main

import (
	"io"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestDumpOfADamagedCount tests commit records that count too few records. They lead the dump
// into the middle of a record, at the end of the log too.
func TestDumpOfADamagedCount(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var sb layout.Superblock
		sb.SetGeneration(2)
		sb.SetState(layout.Live)
		sb.SetLogSalt(77)
		log := make([]uint64, 64*wal.PageWords)
		store := func(i, v uint64) { log[i] = v }
		wal.PutHeader(store, wal.Header{UUID: sb.UUID(), Generation: 2, Salt: 77, Bytes: int64(len(log)) * 8})
		w := wal.NewWriter(log, func(word uint64, values []uint64) { copy(log[word:], values) }, 2, 77, 0)
		operations := uint64(0)
		for past := w.End(); operations < 60 || past < 20 || past > 60; past = w.End() % wal.PageWords { // a little into a page
			operations++
			r := wal.Record{Block: layout.WordStash/8 + rng.Uint64N(500), Words: uint8(1 + rng.IntN(255)), Last: true, Operation: uint32(operations)}
			for i := range r.Values {
				if r.Words>>i&1 != 0 {
					r.Values[i] = rng.Uint64()
				}
			}
			w.Append(&r)
		}
		end := w.End()
		w.Commit(wal.Commit{Operation: operations})
		log[wal.FirstWord+segmentCommit+commitRecords] = 1
		d := &dump{records: true, w: io.Discard, newest: &sb}
		d.log(log[:end:end], nil)
		if d.err != nil {
			t.Fatal(d.err)
		}
	}
}
