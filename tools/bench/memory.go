package main

import (
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// A memoryRun measures what filters ask of the memory of a machine.
type memoryRun struct {
	*session
	parts     string
	processes int
	limit     figures.Size
	steady    time.Duration
	file      string // the path of the filter
}

// filled builds the filter that is measured, once, and returns its path.
func (m *memoryRun) filled() (string, error) {
	if m.file != "" {
		return m.file, nil
	}
	n := byDefault.keys(int64(m.size))
	path, f, err := m.build("memory.mmf", byDefault.options(n), n)
	if err != nil {
		return "", err
	}
	m.file = path
	return path, f.Close()
}

type openArgs struct {
	File      string
	Residency mmapfilter.Residency
}

func (w *worker) open(a openArgs) (mmapfilter.Stats, error) {
	f, err := mmapfilter.OpenReadOnly(a.File, &mmapfilter.OpenOptions{Residency: a.Residency})
	if err != nil {
		return mmapfilter.Stats{}, err
	}
	w.filter = f
	return f.Stats(), nil
}

// lookUp looks the next absent key up.
func (w *worker) lookUp() {
	var key peer.Key
	key.Set(0, peer.Absent+w.asked)
	w.asked++
	w.filter.Contains(key[:])
}

// look looks absent keys up for a time, and returns how many.
func (w *worker) look(d time.Duration) (n int, err error) {
	for begun := time.Now(); time.Since(begun) < d; n += 16 {
		for range 16 {
			w.lookUp()
		}
	}
	return n, nil
}
