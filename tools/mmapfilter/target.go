package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// setFormat sets the format of keys to the format that a filter records.
func (s *selection) setFormat(answers answering) error {
	note := answers.Normalisation()
	recorded, err := s.format.read(s.in, s.path, note, s.plain)
	if err == nil {
		s.note, s.recorded = note, recorded
	}
	return err
}

// newest returns the filter or set in which to look up the block. If it records another format than
// the last one did, newest makes the keys of the block again. If a key cannot be made, newest cuts
// it and the keys after it off the block; the error says why.
func (s *selection) newest() (answers answering, cut error) {
	if !s.follow {
		return s.answers(), nil
	}
	var err error
	if s.set != nil {
		_, err = s.set.Refresh()
	} else {
		_, err = s.follower.Refresh()
	}
	answers = s.answers()
	s.refuse(answers, err)
	if answers.Normalisation() == s.note {
		return answers, nil
	}
	return answers, s.remake(answers)
}

// remake makes the keys of the block again in the format of a new file. The format of the filter
// may change what is done to a key, but not which part of a file is a key, since the old format is
// already splitting the input.
func (s *selection) remake(answers answering) error {
	old, oldNote := s.in.format.extraction, s.note
	err := s.setFormat(answers)
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
func (s *selection) waits(answers answering) bool {
	if s.set != nil {
		return s.set.Shards() == 0
	}
	return s.opening.WaitForFile && errors.Is(answers.Err(), fs.ErrNotExist)
}

// refuse reports once why a follower or a set did not switch to a new file, unless the flags accept
// that reason.
func (s *selection) refuse(answers answering, err error) {
	if s.waits(answers) && errors.Is(err, fs.ErrNotExist) || s.opening.ServeUnrecovered && errors.Is(err, mmapfilter.ErrNeedsRecovery) {
		err = nil
	}
	if e := new(sets.ShardError); errors.As(err, &e) {
		s.flush()
		s.reportShard(e)
		err = nil
	}
	if err != nil && (s.refused == nil || err.Error() != s.refused.Error()) {
		s.flush()
		s.report(err)
	}
	s.refused = err
}

// fault returns an error if it makes the answers worthless. If a filter can only answer "maybe" and
// the flags allow such answers, fault only prints a message, once. The errors of a set do not end a
// check: fault reports the errors of shards, and if a new manifest was refused, the set of the old
// manifest answers.
func (s *selection) fault(answers answering) error {
	err := answers.Err()
	what := ""
	switch {
	case s.waits(answers):
		what = "no such file yet"
	case s.set != nil:
		if e := new(sets.ShardError); s.follow && errors.As(err, &e) {
			s.reportShard(e) // now, since the error may be gone when the shard is next opened
		}
		return nil
	case s.opening.ServeUnrecovered && errors.Is(err, mmapfilter.ErrNeedsRecovery):
		what = "its writer has died, and it has not been recovered"
	default:
		return err
	}
	s.tell(what)
	return nil
}

// tell says once why all answers are "maybe".
func (s *selection) tell(what string) {
	if !s.told {
		s.told = true
		s.flush()
		s.say(fmt.Sprintf("%s: %s: any key may be in it", s.path, what))
	}
}
