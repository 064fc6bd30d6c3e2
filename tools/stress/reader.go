package main

import (
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// read asks for keys until the parent ends it.
//
// The number of the file is stored after a new one has taken the place of the
// old, and before a writer changes that. So a file that was opened after a number
// was loaded is that one, or the next, which has the same keys as long as the
// number stays.
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
		if err := f.Err(); err != nil {
			p.violation("a reader has met %v", err)
		}
		if err := f.Close(); err != nil {
			p.violation("Close: %v", err)
		}
	}
	return exitGood
}

// maxAsks is for how many blocks of lookups a reader has the file open, at most.
const maxAsks = 20_000

// recoverFile is a process that recovers the file.
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

// build is a process that makes a new file of the keys of the model, over the old.
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
