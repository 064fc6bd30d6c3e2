package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// read looks up keys until the parent ends it.
//
// wordFile is stored after a new file has replaced the old one, and before a writer changes the
// new one. So a file opened after loading wordFile is either the file with that number or the
// next one, which has the same keys as long as the number stays.
func (p *process) read() int {
	a := p.newAsker(0, false)
	for p.get(wordEnd) == 0 {
		file, reopen := p.get(wordFile), p.get(wordReopen)
		opts := &mmapfilter.OpenOptions{
			Checked:   p.rng.IntN(4) == 0,
			Residency: []mmapfilter.Residency{mmapfilter.ResidencyDefault, mmapfilter.ResidencyRandom, mmapfilter.ResidencyWillNeed}[p.rng.IntN(3)],
		}
		f, err := retry(func() (*mmapfilter.Filter, error) { return mmapfilter.OpenReadOnly(p.path, opts) })
		if err != nil {
			p.violation("OpenReadOnly: %v", err)
			return exitViolation
		}
		p.count(countOpens, 1)
		p.set(wordReopened+p.number, reopen)
		for n := 1 + p.rng.IntN(maxAsks); n > 0 && p.get(wordEnd) == 0 && p.get(wordReopen) == reopen; n-- {
			if !a.ask(f, file) {
				break
			}
			a.pause()
		}
		if err := f.Err(); err != nil && !errors.Is(err, mmapfilter.ErrSuperseded) {
			p.violation("a reader has met %v", err)
		}
		if err := f.Close(); err != nil && !errors.Is(err, mmapfilter.ErrSuperseded) {
			p.violation("Close: %v", err)
		}
	}
	return exitGood
}

// maxAsks bounds how many blocks of keys a reader looks up before it reopens the file.
const maxAsks = 20_000

// recoverFile recovers the file, in a process of its own.
func (p *process) recoverFile() int {
	r, err := retry(func() (mmapfilter.Recovery, error) { return mmapfilter.Recover(p.path) })
	if err != nil {
		p.violation("Recover: %v", err)
		return exitViolation
	}
	if r.Recovered {
		p.count(countByChild, 1)
	}
	return exitGood
}

// build builds a new file of the keys in the model over the old one, in a process of its own.
func (p *process) build() int {
	err := p.buildOver(func(yield func([]byte, error) bool) {
		var key []byte
		for id := range keyCount {
			if stateOf(p.key(id)).in() {
				if key = appendKey(key[:0], p.seed, id); !yield(key, nil) {
					return
				}
			}
		}
	})
	if err != nil {
		p.violation("Build: %v", err)
		return exitViolation
	}
	return exitGood
}
