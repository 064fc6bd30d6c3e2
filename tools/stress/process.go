package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

const (
	exitGood = iota
	exitViolation
	exitError
)

// options holds the flags.
type options struct {
	length time.Duration
	lives  int
	seed   uint64
	dir    string

	// Only for processes that the parent starts.
	role   string
	number int
}

// A process is what the parent and its child processes have in common.
type process struct {
	options
	*page
	path string // of the filter
	rng  *rand.Rand
	out  io.Writer
	told atomic.Int64
}

func newProcess(o options, out io.Writer) (*process, error) {
	p, err := openPage(o.dir)
	if err != nil {
		return nil, err
	}
	role := uint64(0)
	for _, c := range o.role {
		role = role*31 + uint64(c)
	}
	return &process{
		options: o, page: p, path: filepath.Join(o.dir, "filter"),
		rng: rand.New(rand.NewPCG(o.seed, role<<32+uint64(o.number))), out: out,
	}, nil
}

// maxTold bounds how many violations a process prints. It counts them all.
const maxTold = 10

// violation counts a violation, and prints it.
func (p *process) violation(format string, args ...any) {
	p.count(countViolations, 1)
	if p.told.Add(1) > maxTold {
		return
	}
	role := p.role
	if role == "" {
		role = "parent"
	}
	fmt.Fprintf(p.out, "VIOLATION: %s %d: %s\n\tfile %d, seed %d; %d operations returned, %d issued; the writer is at %q; %d kills\n",
		role, p.number, fmt.Sprintf(format, args...), p.get(wordFile), p.seed,
		p.returnedOps(), p.issuedOps(), phaseNames[p.get(wordPhase)%phases], p.kills())
}

func (p *process) kills() (n uint64) {
	for c := countKills; c <= countKillsBuild; c++ {
		n += p.counted(c)
	}
	return n
}

// patience bounds waiting for something that should take milliseconds, such as the lock of a
// process that recovers the file, or the end of a process. Anything longer hangs.
const patience = 60 * time.Second

// retry repeats f while it fails because another process has the file.
func retry[T any](f func() (T, error)) (T, error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		v, err := f()
		passing := errors.Is(err, mmapfilter.ErrLocked) || errors.Is(err, mmapfilter.ErrNeedsRecovery) || errors.Is(err, mmapfilter.ErrBusy)
		if !passing || errors.Is(err, mmapfilter.ErrCorrupt) || time.Since(begun) > patience {
			return v, err
		}
	}
}

// An asker looks up many keys at once.
type asker struct {
	*process
	rng   *rand.Rand
	own   bool // in the writer process
	ids   [askBlock]int
	words [askBlock]uint64
	keys  [][]byte
	found []bool
	asked int
}

const askBlock = 64

func (p *process) newAsker(n int, own bool) *asker {
	a := &asker{process: p, own: own, rng: rand.New(rand.NewPCG(p.rng.Uint64(), uint64(n)))}
	for range askBlock {
		a.keys = append(a.keys, nil)
		a.found = append(a.found, false)
	}
	return a
}

// ask looks up keys, and checks the answers against their words before and after. A key that
// was synced before and has not changed must be found (C1). file is the number of the file that
// f is. If a new file has replaced it meanwhile, nothing can be said, and ask returns false.
func (a *asker) ask(f *mmapfilter.Filter, file uint64) bool {
	limit := int(a.get(wordLimit))
	batch := a.rng.IntN(2) == 0
	for i := range a.ids {
		a.ids[i] = a.rng.IntN(limit)
		a.keys[i] = appendKey(a.keys[i][:0], a.seed, a.ids[i])
	}
	if batch {
		for i, id := range a.ids {
			a.words[i] = a.key(id)
		}
		f.ContainsBatch(a.keys, a.found)
	}
	var lookups, absents, maybes uint64
	for i, id := range a.ids {
		if !batch {
			a.words[i] = a.key(id)
			a.found[i] = f.Contains(a.keys[i])
		}
		after := a.key(id)
		if a.get(wordFile) != file {
			return false
		}
		lookups++
		if after != a.words[i] {
			continue
		}
		switch stateOf(after) {
		case synced:
			if !a.found[i] {
				a.missing(f, id, after, batch)
			}
		case absent:
			absents++
			if a.found[i] {
				maybes++
			}
		}
	}
	if a.own {
		a.count(countOwnLookups, lookups)
	} else {
		a.count(countLookups, lookups)
		a.count(countAbsent, absents)
		a.count(countMaybe, maybes)
	}
	return true
}

// pause leaves the processors to others about half of the time.
func (a *asker) pause() {
	if a.asked++; a.asked%pauseBlocks == 0 {
		time.Sleep(time.Duration(a.rng.IntN(300)) * time.Microsecond)
	}
}

// pauseBlocks is the number of blocks of lookups between pauses.
const pauseBlocks = 16

// missing reports a key that should have been found, and how often further lookups miss it.
func (a *asker) missing(f *mmapfilter.Filter, id int, word uint64, batch bool) {
	again := 0
	const tries = 1000
	for range tries {
		if !f.Contains(appendKey(nil, a.seed, id)) {
			again++
		}
	}
	a.violation("key %d (%x) was synced, and not found (batch: %t); its word is %d, then %d, %s; asked again it was missing %d times of %d; hash %x, err %v",
		id, appendKey(nil, a.seed, id), batch, word, a.key(id), stateOf(a.key(id)), again, tries, f.Hash(appendKey(nil, a.seed, id)), f.Err())
}

// untilParentEnds ends the process when the parent ends for any reason, since that closes its
// standard input.
func untilParentEnds() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(exitViolation)
	}()
}

// fileOptions returns the options of the next file, for about 95 % of its slots in use.
func (p *process) fileOptions() *mmapfilter.Options {
	return &mmapfilter.Options{
		Capacity:          p.get(wordCapacity),
		Layout:            mmapfilter.Layout(p.get(wordLayout)),
		FingerprintBits:   int(p.get(wordBits)),
		FalsePositiveRate: math.Float64frombits(p.get(wordRate)),
		Seed:              p.get(wordSeed),
	}
}

// buildOver builds a new file of keys over the old one.
func (p *process) buildOver(keys iter.Seq2[[]byte, error]) error {
	f, err := retry(func() (*mmapfilter.Filter, error) {
		return mmapfilter.Build(context.Background(), p.path, p.fileOptions(), keys)
	})
	if err != nil {
		return err
	}
	return f.Close()
}
