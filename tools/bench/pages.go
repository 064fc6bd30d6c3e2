package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// newPages returns the command that compares lookups in files that the page cache holds in pages of
// different sizes.
func newPages() command {
	blocks := 8
	return command{
		flags: func(s *session) {
			s.flags.IntVar(&blocks, "blocks", blocks, "how many times 16,384 keys a turn has")
		},
		short: map[string]string{"size": "4MiB", "rounds": "1", "blocks": "1"},
		run:   func(s *session) error { return s.pages(blocks) },
	}
}

// A pageState is how a file comes into memory.
type pageState struct {
	name      string
	prepare   func(path string) error
	residency mmapfilter.Residency
}

var pageStates = []pageState{
	{"pages of 4 KiB, as a writer leaves them", machine.SmallPages, mmapfilter.ResidencyRandom},
	{"as the copy of a file left them", func(string) error { return nil }, mmapfilter.ResidencyRandom},
	{"as the system reads ahead", readAgain, mmapfilter.ResidencyRandom},
	{"default, from a disk", machine.DropCache, mmapfilter.ResidencyDefault},
	{"heap", machine.DropCache, mmapfilter.ResidencyHeap},
}

// readAgain has a file in the page cache as a program leaves it that reads it.
func readAgain(path string) error {
	if err := machine.DropCache(path); err != nil {
		return err
	}
	return readInto(path, io.Discard)
}

// readInto reads a file in pieces of 128 KiB, and writes them to another.
func readInto(path string, to io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{f}, make([]byte, 128<<10))
	return err
}

func (s *session) pages(blocks int) (err error) {
	v := variants()[0]
	n := v.keys(int64(s.size))
	path, f, err := s.build("pages.mmf", v.options(n), n)
	if err != nil {
		return err
	}
	s.printf("\n%s\n", s.describe(f.Stats()))
	if err := f.Close(); err != nil {
		return err
	}
	questions := []question{{"Contains", 1, absent}, {"Contains", 1, present}, {"ContainsBatch", 64, mixed}, {"ContainsBatch", 1024, mixed}}
	askers, names, took := make([]*asker, len(pageStates)), make([]string, len(pageStates)), make([]time.Duration, len(pageStates))
	for i, state := range pageStates {
		s.note("%s", state.name)
		to := s.path(fmt.Sprintf("pages-%d.mmf", i))
		out, err := os.Create(to)
		if err != nil {
			return err
		}
		if err := errors.Join(readInto(path, out), out.Sync(), out.Close(), state.prepare(to)); err != nil {
			return err
		}
		begun := time.Now()
		f, err := mmapfilter.OpenReadOnly(to, &mmapfilter.OpenOptions{Residency: state.residency})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := f.Warm(s.ctx); err != nil {
			return err
		}
		took[i] = time.Since(begun)
		real, err := filepath.EvalSymlinks(to)
		if err != nil {
			return err
		}
		names[i] = state.name
		if pages := machine.Pages(real); pages != "" {
			names[i] += ": " + pages
		}
		askers[i] = newAsker(f, n, s.seed)
	}
	times, err := s.takeTurns(len(askers)*len(questions), func(i int) (float64, error) {
		return askers[i%len(askers)].turn(questions[i/len(askers)], blocks)
	})
	if err != nil {
		return err
	}
	head := []string{"ns a key (times that in pages of 4 KiB)", "into memory"}
	for _, q := range questions {
		head = append(head, fmt.Sprintf("%s of %d, %s", q.call, q.batch, q.keys))
	}
	t := figures.NewTable(head...)
	for i, name := range names {
		row := []string{name, figures.Brief(took[i])}
		for q := range questions {
			mine, first := times[q*len(askers)+i], times[q*len(askers)]
			row = append(row, fmt.Sprintf("%s (%.2f)", figures.Digits(figures.Median(mine)), figures.MedianRatio(mine, first)))
		}
		t.Row(row...)
	}
	s.print(t)
	return nil
}
