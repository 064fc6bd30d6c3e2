package main

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
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
	interval, checkpoints := "-", m.stats.Checkpoints-m.before.Checkpoints
	if checkpoints > 0 {
		interval = "every " + figures.Brief(m.took/time.Duration(checkpoints))
	}
	rates.Row(size, often, per(m.took.Nanoseconds()), device, per(m.faults),
		fmt.Sprintf("%d, %d", m.stats.Commits-m.before.Commits, checkpoints),
		figures.Mebibytes(m.stats.LogBytes), figures.Brief(m.stats.LongestStall), interval,
		fmt.Sprintf("%s, %s records in %s", figures.Brief(m.recovered), figures.Grouped(int64(m.recovery.Records)), figures.Mebibytes(m.recovery.LogBytes)))
	for call, h := range m.waits {
		if h.TotalCount() == 0 {
			continue
		}
		row := []string{size, often, callNames[call]}
		for _, percent := range []float64{50, 99, 99.9, 99.99, 100} {
			row = append(row, figures.Brief(time.Duration(h.ValueAtPercentile(percent))))
		}
		waits.Row(row...)
	}
}
