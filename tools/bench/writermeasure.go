package main

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// The calls that are timed.
const (
	callInsert = iota
	callBatch
	callDelete
	callSync
	callLookup // of another process
	calls
)

var callNames = [calls]string{"Insert", "InsertBatch of 64", "Delete", "Sync", "Contains, in another process"}

// A writerMeasure is what a measurement finds.
type writerMeasure struct {
	took       time.Duration
	operations int
	waits      [calls]histogram
	device     int64 // bytes written, -1 if unknown
	faults     int64
	stats      mmapfilter.Stats // those of the end
	before     mmapfilter.Stats
	marks      []time.Duration // ends of checkpoints
	peaks      []time.Duration // the longest operation in each tick
	recovery   mmapfilter.Recovery
	recovered  time.Duration
}

// tick is the resolution of the picture.
const tick = 20 * time.Millisecond

// peak notes how long an operation took that ended at a time.
func (m *writerMeasure) peak(at, took time.Duration) {
	for int(at/tick) >= len(m.peaks) {
		m.peaks = append(m.peaks, 0)
	}
	p := &m.peaks[at/tick]
	*p = max(*p, took)
}

func (m *writerMeasure) report(rates, waits *figures.Table, size string, every int) {
	often := figures.Grouped(int64(every))
	if every == 0 {
		often = "timer"
	}
	per := func(n int64) string { return figures.Digits(float64(n) / float64(m.operations)) }
	device := "unknown"
	if m.device >= 0 {
		device = per(m.device)
	}
	var intervals []time.Duration
	for i := 1; i < len(m.marks); i++ {
		intervals = append(intervals, m.marks[i]-m.marks[i-1])
	}
	interval := "-"
	if len(intervals) > 0 {
		interval = "every " + figures.Brief(figures.Median(intervals))
	}
	rates.Row(size, often, per(m.took.Nanoseconds()), device, per(m.faults),
		fmt.Sprintf("%d, %d", m.stats.Commits-m.before.Commits, m.stats.Checkpoints-m.before.Checkpoints),
		figures.Mebibytes(m.stats.LogBytes), figures.Brief(m.stats.LongestStall), interval,
		fmt.Sprintf("%s, %s records in %s", figures.Brief(m.recovered), figures.Grouped(int64(m.recovery.Records)), figures.Mebibytes(m.recovery.LogBytes)))
	for call := range m.waits {
		h := &m.waits[call]
		if h.total == 0 {
			continue
		}
		waits.Row(size, often, callNames[call], figures.Brief(h.quantile(0.5)), figures.Brief(h.quantile(0.99)), figures.Brief(h.quantile(0.999)), figures.Brief(h.quantile(0.9999)), figures.Brief(h.longest))
	}
}

// A histogram counts durations in 16 buckets for each power of two of nanoseconds.
type histogram struct {
	counts  [64 * 16]uint64
	total   uint64
	longest time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(uint64(d))]++
	h.total++
	h.longest = max(h.longest, d)
}

func bucketOf(n uint64) int {
	if n < 16 {
		return int(n)
	}
	shift := bits.Len64(n) - 5
	return (shift+1)*16 + int(n>>shift&15)
}

// quantile returns the duration below which the given share of the samples lies, to 6 %.
func (h *histogram) quantile(share float64) time.Duration {
	left := uint64(share * float64(h.total))
	for i, n := range h.counts {
		if left < n {
			if i < 16 {
				return time.Duration(i)
			}
			return time.Duration((16 + uint64(i%16)) << (i/16 - 1))
		}
		left -= n
	}
	return h.longest
}
