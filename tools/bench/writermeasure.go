package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// The calls that are timed.
const (
	callInsert = iota
	callDelete
	callSync
	callLookup // of another process
	calls
)

var callNames = [calls]string{"Insert", "Delete", "Sync", "Contains, in another process"}

// A writerMeasure has the results of a measurement.
type writerMeasure struct {
	took       time.Duration
	operations int
	waits      [calls]*hdrhistogram.Histogram // in nanoseconds, up to a minute
	device     int64                          // bytes written, -1 if unknown
	faults     int64
	stats      mmapfilter.Stats // as of the end
	before     mmapfilter.Stats
	recovery   mmapfilter.Recovery
	recovered  time.Duration
}

func newWriterMeasure() *writerMeasure {
	m := new(writerMeasure)
	for i := range m.waits {
		m.waits[i] = hdrhistogram.New(1, time.Minute.Nanoseconds(), 2)
	}
	return m
}

func (m *writerMeasure) report(rates, waits *Table, size string, every int) {
	often := Grouped(int64(every))
	if every == 0 {
		often = "timer"
	}
	per := func(n int64) string { return Digits(float64(n) / float64(m.operations)) }
	device := "unknown"
	if m.device >= 0 {
		device = per(m.device)
	}
	interval, checkpoints := "-", m.stats.Checkpoints-m.before.Checkpoints
	if checkpoints > 0 {
		interval = "every " + Brief(m.took/time.Duration(checkpoints))
	}
	rates.Row(size, often, per(m.took.Nanoseconds()), device, per(m.faults),
		fmt.Sprintf("%d, %d", m.stats.Commits-m.before.Commits, checkpoints),
		Mebibytes(m.stats.LogBytes), Brief(m.stats.LongestStall), interval,
		fmt.Sprintf("%s, %s records in %s", Brief(m.recovered), Grouped(int64(m.recovery.Records)), Mebibytes(m.recovery.LogBytes)))
	for call, h := range m.waits {
		if h.TotalCount() == 0 {
			continue
		}
		row := []string{size, often, callNames[call]}
		for _, percent := range []float64{50, 99, 99.9, 99.99, 100} {
			row = append(row, Brief(time.Duration(h.ValueAtPercentile(percent))))
		}
		waits.Row(row...)
	}
}
