package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A target is where a selection looks up keys: one filter or, with --follow, that of the newest
// file.
type target struct {
	filter   *mmapfilter.Filter   // nil with --follow
	follower *mmapfilter.Follower // nil without --follow
	refused  error                // why a new file was not taken over
	told     bool                 // the user knows that all answers are "maybe"

	note     string // the note of the filter by which the keys of the input are made
	recorded format // the format in that note; zero with --plain
}

// open opens the filter and sets the format of keys.
func (s *selection) open(stderr io.Writer) (err error) {
	if s.follow {
		s.opening.FollowInterval = -1 // newest checks for a new file
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

// setFormat sets the format of keys to that recorded by a filter.
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

// newest returns the filter in which to look up the block, and makes the keys of the block again
// if that filter records another format. If a key cannot be made, newest cuts it and the keys
// after it off the block; the error says why.
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

// takeOver looks up the keys read so far, and reports whether a new file with another format has
// arrived.
func (s *selection) takeOver() bool {
	before := s.note
	s.ask()
	if s.err == nil {
		_, err := s.newest()
		s.fail(err)
	}
	return s.err == nil && s.note != before
}

// remake makes the keys of the block again in the format of a new file. That format may change
// what is done to a key, but not which part of a file is a key, since the input is already being
// split in the old format.
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

// waits reports whether a follower is still waiting for its first file.
func (s *selection) waits(filter *mmapfilter.Filter) bool {
	return s.opening.WaitForFile && errors.Is(filter.Err(), fs.ErrNotExist)
}

// refuse reports once why a follower did not take over a new file, unless the flags accept that
// reason.
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

// fault returns an error that makes answers worthless. If a filter can only answer "maybe" and
// the flags allow that, fault says so once instead.
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
