package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A target is what a selection asks: one filter, or with --follow that of the newest
// file.
type target struct {
	filter   *mmapfilter.Filter   // nil with --follow
	follower *mmapfilter.Follower // nil without
	refused  error                // why a new file was not taken over
	told     bool                 // that answers are no answers

	note     string // what the filter records, as the keys of the input are made
	recorded format // that, unless it is to be forgotten
}

// open opens the filter, and sets how keys are made.
func (s *selection) open(stderr io.Writer) (err error) {
	if s.follow {
		s.opening.FollowInterval = -1 // newest looks
		s.follower, err = mmapfilter.Follow(s.path, &s.opening)
	} else {
		s.filter, err = openFilter(s.path, &s.opening, stderr)
	}
	if err != nil {
		return err
	}
	filter := s.filter
	if s.follow {
		filter = s.follower.Filter()
		s.in.misfits = s.takeOver
	}
	if err := s.setFormat(filter); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

func (t *target) close() error {
	if t.follower != nil {
		return t.follower.Close()
	}
	return t.filter.Close()
}

// setFormat makes the keys of the input as a filter records it.
func (s *selection) setFormat(filter *mmapfilter.Filter) error {
	recorded, err := recordedFormat(s.path, filter, s.plain)
	if err != nil {
		return err
	}
	if s.in.format, err = s.format.format(recorded); err != nil {
		return err
	}
	s.note, s.recorded = filter.Normalisation(), recorded
	return nil
}

// newest gives the filter that the block is to be asked of, and makes its keys as
// that records it. Where some cannot be, they are cut off the block; the error
// says why.
func (s *selection) newest() (filter *mmapfilter.Filter, cut error) {
	if s.follower == nil {
		return s.filter, nil
	}
	_, err := s.follower.Refresh()
	filter = s.follower.Filter()
	s.refuse(filter, err)
	if filter.Normalisation() == s.note {
		return filter, nil
	}
	return filter, s.remake(filter)
}

// takeOver asks for the keys that were read, and reports whether a new file has come
// that records another way to read them.
func (s *selection) takeOver() bool {
	before := s.note
	s.ask()
	if s.err == nil {
		_, err := s.newest()
		s.fail(err)
	}
	return s.err == nil && s.note != before
}

// remake makes the keys of the block once more, which were made as an older file
// records it. What is done to a key may be another thing in the new file; which part
// of a file is a key may not, since the input is being cut up as the old one says.
func (s *selection) remake(filter *mmapfilter.Filter) error {
	old, oldNote := s.in.format.extraction, s.note
	err := s.setFormat(filter)
	if err == nil && s.in.format.extraction != old {
		err = &fileError{s.path, fmt.Errorf("the new file records that keys are read as: %s; so far they were read as: %s; run check again",
			describeNote(s.note), describeNote(oldNote))}
	}
	if err != nil {
		s.block.clear()
		return err
	}
	for i, at := range s.block.spans {
		key, err := s.in.decode(s.block.raw(i))
		if err != nil {
			s.block.spans = s.block.spans[:i]
			return explainMisfit(s.in.wrap(fmt.Errorf("record %d: %w", at.number, err)), s.in.format, s.recorded, s.path)
		}
		s.block.setKey(i, key, len(s.in.text))
	}
	return nil
}

// waits reports whether a follower has had no file yet.
func (s *selection) waits(filter *mmapfilter.Filter) bool {
	return s.opening.WaitForFile && errors.Is(filter.Err(), fs.ErrNotExist)
}

// refuse reports why a follower did not take the file under its path over, once,
// and not where somebody asked for that.
func (s *selection) refuse(filter *mmapfilter.Filter, err error) {
	if s.waits(filter) && errors.Is(err, fs.ErrNotExist) || s.opening.ServeUnrecovered && errors.Is(err, mmapfilter.ErrNeedsRecovery) {
		err = nil
	}
	if err != nil && (s.refused == nil || err.Error() != s.refused.Error()) {
		s.flush()
		s.report(err)
		s.reported = true
	}
	s.refused = err
}

// fault is an error that makes answers worthless. Where a filter can say nothing but
// "maybe", and that is what was asked for, it says so once.
func (s *selection) fault(filter *mmapfilter.Filter) error {
	err := filter.Err()
	what := ""
	switch {
	case s.waits(filter):
		what = "no such file yet"
	case s.opening.ServeUnrecovered && errors.Is(err, mmapfilter.ErrNeedsRecovery):
		what = "its writer has died, and it has not been recovered"
	default:
		return err
	}
	if !s.told {
		s.told = true
		s.flush()
		s.say(fmt.Sprintf("%s: %s: any key may be in it", s.path, what))
	}
	return nil
}
