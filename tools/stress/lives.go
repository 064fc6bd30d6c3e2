package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// run lets one writer live after another, until the context ends, or for the given number of lives,
// or until a violation.
func (p *parent) run(ctx context.Context, lives int) error {
	p.set(wordFile, 1)
	if err := p.create(); err != nil {
		return err
	}
	for i := range p.readers {
		var err error
		if p.readers[i], err = p.start("reader", i); err != nil {
			return err
		}
	}
	if err := p.startOthers(); err != nil {
		return err
	}
	for n := 0; (lives == 0 || n < lives) && ctx.Err() == nil && !p.violated(); n++ {
		p.lookAtOthers()
		if err := p.life(n); err != nil {
			return err
		}
	}
	if !p.violated() { // finish the file, and seal it
		if err := p.last(); err != nil {
			return err
		}
	}
	p.set(wordEnd, 1)
	for _, c := range slices.Concat(p.readers[:], p.others) {
		p.wait(c)
	}
	return nil
}

// choose chooses the next file. Layouts move items in different ways, so it may have any of
// them. It may be for any order of magnitude of keys that has room for those of the model.
func (p *parent) choose() {
	const least, most = 4000, keyCount * 3 / 4
	capacity := least
	for capacity < most && p.rng.IntN(4) > 0 {
		capacity += capacity * (1 + p.rng.IntN(100)) / 100
	}
	kinds := layout.Kinds()
	kind := kinds[p.rng.IntN(len(kinds))]
	p.set(wordCapacity, uint64(min(max(capacity, p.keysIn()*21/20), most)))
	p.set(wordLayout, uint64(kind))
	if p.set(wordBits, 0); kind != layout.Compact {
		params := layout.LegalParams(kind)
		p.set(wordBits, uint64(params[p.rng.IntN(len(params))].FingerprintBits))
	}
	p.set(wordRate, math.Float64bits(math.Pow(10, -1-6.9*p.rng.Float64()))) // if there are no bits
	p.set(wordSeed, p.rng.Uint64()|1)
}

func (p *parent) create() error {
	p.choose()
	p.limit()
	f, err := mmapfilter.Create(p.path, p.fileOptions())
	if err != nil {
		return err
	}
	return f.Close()
}

// limit lets the writer use a third more keys than the file has room for.
func (p *parent) limit() { p.set(wordLimit, min(p.get(wordCapacity)*4/3, keyCount)) }

// keysIn counts the keys in the model.
func (p *parent) keysIn() (n int) {
	for id := range keyCount {
		if stateOf(p.key(id)).in() {
			n++
		}
	}
	return n
}

// overTarget is how many keys beyond its target the writer may have for a while: a batch of each
// goroutine, and the difference that it tolerates. No insert is refused below capacity.
const overTarget = 500

// life runs one life of the writer, and what follows it.
func (p *parent) life(n int) error {
	capacity := p.get(wordCapacity)
	target := capacity*uint64(95+p.rng.IntN(6))/100 - overTarget
	if p.rng.IntN(8) == 0 {
		target = capacity / 2 // the next file can be smaller
	}
	p.set(wordTarget, target)
	p.set(wordLogBytes, uint64(wal.MinBytes+p.rng.IntN(3)*p.rng.IntN(32)*wal.PageBytes))
	p.set(wordInterval, uint64(p.rng.IntN(2)*p.rng.IntN(20_000_000)))
	p.set(wordStop, stopNo)
	w, err := p.start("writer", n)
	if err != nil {
		return err
	}
	if p.rng.IntN(4) == 0 {
		p.end(w)
	} else {
		p.kill(w)
		if p.violated() {
			return nil
		}
		if err := p.afterKill(n); err != nil {
			return err
		}
	}
	if p.violated() || p.rng.IntN(4) > 0 {
		return nil
	}
	if err := p.examine(false); err != nil || p.violated() {
		return err
	}
	if p.rng.IntN(2) == 0 {
		return p.replace(n)
	}
	return nil
}

// work lets the writer work for up to d, or until it ends.
func (p *parent) work(w *child, d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until) && w.running() && !p.violated(); {
		time.Sleep(min(time.Until(until), time.Duration(p.rng.IntN(int(20*time.Millisecond)))))
		switch p.rng.IntN(8) {
		case 0:
			p.beside(w)
		case 1:
			p.suspend(w)
		}
	}
}

// longestLife bounds how long a writer works.
const longestLife = time.Second

// end tells the writer to end, and either to seal the file or not.
func (p *parent) end(w *child) {
	p.work(w, time.Duration(p.rng.Int64N(int64(longestLife))))
	sealed := p.rng.IntN(2) == 0
	if sealed {
		p.set(wordStop, stopSeal)
	} else {
		p.set(wordStop, stopClose)
	}
	p.wait(w)
	p.set(wordPhase, phaseNone)
	if p.violated() {
		return
	}
	p.verify(sealed)
}

// kill kills the writer, either when it reaches a chosen phase or at a random time.
func (p *parent) kill(w *child) {
	switch p.rng.IntN(4) {
	case 0: // soon
		time.Sleep(time.Duration(p.rng.Int64N(int64(60 * time.Millisecond))))
	case 1:
		p.work(w, time.Duration(p.rng.Int64N(int64(longestLife))))
	default:
		phase := uint64(phaseOpen + p.rng.IntN(phases-phaseOpen))
		if phase != phaseOpen {
			p.work(w, time.Duration(p.rng.Int64N(int64(longestLife/2))))
		}
		switch phase {
		case phaseClose:
			p.set(wordStop, []uint64{stopClose, stopSeal}[p.rng.IntN(2)])
		case phaseSeal:
			p.set(wordStop, stopSeal)
		}
		for until := time.Now().Add(longestLife); p.get(wordPhase) != phase && time.Now().Before(until) && w.running(); {
			time.Sleep(20 * time.Microsecond)
		}
		time.Sleep(time.Duration(p.rng.Int64N(int64(4*time.Millisecond)) >> p.rng.IntN(12)))
	}
	w.kill()
	killed := p.wait(w)
	if phase := p.get(wordPhase); killed {
		p.count(countKills+int(max(phase, phaseOpen))-1, 1)
	}
	if p.get(wordServed)%2 == 1 {
		p.add(wordServed, 1)
	}
	p.set(wordPhase, phaseNone)
}

// beside tries to open, recover or build the file as a second writer. That must fail with
// ErrLocked while the first writer has the file open.
func (p *parent) beside(w *child) {
	before := p.get(wordServed)
	var f *mmapfilter.Filter
	var err error
	what := ""
	switch p.rng.IntN(3) {
	case 0:
		what = "Open"
		f, err = mmapfilter.Open(p.path, nil)
	case 1:
		what = "Recover"
		_, err = mmapfilter.Recover(p.path)
	case 2:
		what = "Build"
		stop := errors.New("it goes on")
		f, err = mmapfilter.Build(context.Background(), p.path, nil, func(yield func([]byte, error) bool) { yield(nil, stop) })
		if errors.Is(err, stop) {
			err = nil
		}
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	if before%2 == 1 && p.get(wordServed) == before {
		p.count(countLocked, 1)
		if !errors.Is(err, mmapfilter.ErrLocked) {
			p.violation("%s beside the writer: %v", what, err)
		}
	} else if err != nil && !errors.Is(err, mmapfilter.ErrLocked) {
		p.violation("%s: %v", what, err)
	}
}

// suspend stops the writer for a moment, wherever it is.
func (p *parent) suspend(w *child) {
	if suspend(w.Process) != nil { // it has ended, or the system cannot suspend it
		return
	}
	p.count(countSuspended, 1)
	time.Sleep(time.Duration(p.rng.Int64N(int64(10 * time.Millisecond))))
	resume(w.Process)
}

// live reports whether the file is live. It is called when nobody writes, so the writer died.
func (p *parent) live() bool {
	h, err := p.head()
	if err != nil {
		p.violation("after the death of the writer: %v", err)
		return false
	}
	return h.Superblock.State() == layout.Live
}

// afterKill has the file recovered, or leaves that to the next writer.
func (p *parent) afterKill(n int) error {
	if !p.live() {
		return nil
	}
	p.count(countDead, 1)
	others := func() uint64 { return p.counted(countByParent) + p.counted(countByChild) }
	before := others()
	switch p.rng.IntN(5) {
	case 0:
		r, err := retry(func() (mmapfilter.Recovery, error) { return mmapfilter.Recover(p.path) })
		if err != nil {
			p.violation("Recover: %v", err)
		}
		if r.Recovered {
			p.count(countByParent, 1)
		}
	case 1, 2:
		if err := p.recoverByChild(n); err != nil {
			return err
		}
	case 3:
		if err := p.recoverByReaders(); err != nil {
			return err
		}
	}
	if others() == before && !p.live() {
		p.count(countByReader, 1)
	}
	return nil
}

// recoverByChild starts one to three processes, one after another, that recover the file, and
// kills most of them meanwhile.
func (p *parent) recoverByChild(n int) error {
	for range 1 + p.rng.IntN(3) {
		c, err := p.start("recover", n)
		if err != nil {
			return err
		}
		if p.rng.IntN(4) > 0 {
			time.Sleep(time.Duration(p.rng.Int64N(int64(20 * time.Millisecond))))
			c.kill()
		}
		if p.wait(c) {
			p.count(countKillsRecovery, 1)
		}
	}
	return nil
}

// recoverByReaders tells the readers to open the file again. Now and then it kills one of them
// meanwhile.
func (p *parent) recoverByReaders() error {
	request := p.add(wordReopen, 1)
	if p.rng.IntN(3) == 0 {
		i := p.rng.IntN(readers)
		time.Sleep(time.Duration(p.rng.Int64N(int64(10 * time.Millisecond))))
		p.readers[i].kill()
		if p.wait(p.readers[i]) {
			p.count(countKillsReader, 1)
		}
		var err error
		if p.readers[i], err = p.start("reader", i); err != nil {
			return err
		}
	}
	for i, c := range p.readers {
		for until := time.Now().Add(patience); p.get(wordReopened+i) < request && c.running() && !p.violated(); {
			if time.Now().After(until) {
				p.violation("reader %d does not open the file again", i)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil
}

// verify verifies a file that nobody writes to.
func (p *parent) verify(sealed bool) {
	r, err := retry(func() (mmapfilter.Report, error) { return mmapfilter.Verify(context.Background(), p.path) })
	if err != nil {
		p.violation("Verify: %v", err)
	}
	if sealed && !r.Sealed {
		p.violation("the file is not sealed")
	}
	p.count(countVerified, 1)
}

// examine opens the file, which recovers it if necessary, and compares it with the model. If
// full is true, no operation may be in progress.
func (p *parent) examine(full bool) error {
	live := p.live()
	f, err := retry(func() (*mmapfilter.Filter, error) { return mmapfilter.OpenReadOnly(p.path, nil) })
	if err != nil {
		p.violation("OpenReadOnly: %v", err)
		return nil
	}
	defer f.Close()
	if live {
		p.count(countByParent, 1)
	}
	m, err := p.newModel(f)
	if err != nil {
		return err
	}
	if full && p.issuedOps() != p.returnedOps() {
		p.violation("%d operations were issued, and %d have returned", p.issuedOps(), p.returnedOps())
	}
	if !m.resolve(f) {
		return nil
	}
	m.check(f)
	p.verify(full)
	return nil
}

// replace has a process build a new file of the keys in the model over the old one, and
// sometimes kills it.
func (p *parent) replace(n int) error {
	p.countMoves()
	old, err := os.Stat(p.path)
	if err != nil {
		return err
	}
	chosen := [...]int{wordCapacity, wordLayout, wordBits, wordRate, wordSeed}
	var before [len(chosen)]uint64
	for i, word := range chosen {
		before[i] = p.get(word)
	}
	p.choose()
	c, err := p.start("build", n)
	if err != nil {
		return err
	}
	if p.rng.IntN(2) == 0 {
		time.Sleep(time.Duration(p.rng.Int64N(int64(40 * time.Millisecond))))
		c.kill()
	}
	killed := p.wait(c)
	if killed {
		p.count(countKillsBuild, 1)
	}
	left, err := filepath.Glob(p.path + ".tmp-*")
	if err != nil {
		return err
	}
	if !killed && left != nil {
		p.violation("a build that was not killed left %v", left)
	}
	now, err := os.Stat(p.path)
	if err != nil {
		return err
	}
	if os.SameFile(old, now) {
		for i, word := range chosen {
			p.set(word, before[i])
		}
		return nil
	}
	p.count(countReplaced, 1)
	p.limit()
	for i := range streams { // the new file has exactly the operations that returned
		p.stream(i).drop()
	}
	p.add(wordFile, 1)
	return p.examine(true)
}

// countMoves counts the moves of items: how often a line lost an item, by the removal counters,
// minus the deletes. The result is approximate: a delete may take an item from the stash, a
// recovery does not count, and in compact every change of a line counts.
func (p *parent) countMoves() {
	f, _, err := osfile.OpenFile(p.path)
	if err != nil {
		p.violation("%v", err)
		return
	}
	defer f.Close()
	m, err := osfile.Map(f, layout.OffStash, false)
	if err != nil {
		p.violation("%v", err)
		return
	}
	defer m.Unmap()
	words := recovery.Words(m.Data)[layout.WordRuntime:]
	removals := uint64(0)
	layout.Counters(func(word uint64) {
		if word != layout.RuntimeStashCounter {
			removals += words[word] / 2
		}
	})
	deletes := p.counted(countDeletes)
	if d := deletes - p.deletes; removals > d {
		p.count(countMoves, removals-d)
	}
	p.deletes = deletes
}

// last has a writer repeat the operations in progress, and seal the file.
func (p *parent) last() error {
	p.set(wordStop, stopSeal)
	w, err := p.start("writer", -1)
	if err != nil {
		return err
	}
	p.wait(w)
	p.set(wordPhase, phaseNone)
	if p.violated() {
		return nil
	}
	p.countMoves()
	return p.examine(true)
}
