//go:build unix

package kill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A process is the state that the test and each child process have.
type process struct {
	*page
	dir, role string
	number    int
	seed      uint64
	path      string // of the filter
	rng       *rand.Rand
	out       io.Writer
	told      atomic.Int64
}

func newProcess(dir, role string, number int, seed uint64, out io.Writer) (*process, error) {
	p, err := openPage(dir)
	if err != nil {
		return nil, err
	}
	salt := uint64(0)
	for _, c := range role {
		salt = salt*31 + uint64(c)
	}
	return &process{
		page: p, dir: dir, role: role, number: number, seed: seed, path: filepath.Join(dir, "filter"),
		rng: rand.New(rand.NewPCG(seed, salt<<32+uint64(number))), out: out,
	}, nil
}

// roleVariable tells a child process its role, number, seed and directory.
const roleVariable = "MMAPFILTER_TEST_KILL"

// roles has the functions of child processes, by role.
var roles = map[string]func(*process) error{
	"writer":  (*process).write,
	"reader":  (*process).read,
	"recover": (*process).recoverFile,
	"build":   (*process).build,
}

// TestMain also runs the child processes.
func TestMain(m *testing.M) {
	var role, dir string
	var number int
	var seed uint64
	if _, err := fmt.Sscanf(os.Getenv(roleVariable), "%s %d %d %q", &role, &number, &seed, &dir); err != nil {
		os.Exit(m.Run())
	}
	p, err := newProcess(dir, role, number, seed, os.Stdout)
	if err != nil {
		panic(err)
	}
	untilParentEnds()
	if err := roles[role](p); err != nil {
		p.violation("%v", err)
	}
	if p.told.Load() > 0 {
		os.Exit(exitViolation)
	}
	os.Exit(0)
}

const exitViolation = 3

// untilParentEnds ends the process when the parent ends for any reason, since that closes the standard
// input of the process.
func untilParentEnds() {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(exitViolation)
	}()
}

// maxTold limits how many violations a process prints. The process counts all of them.
const maxTold = 10

// violation counts a violation, and prints it.
func (p *process) violation(format string, args ...any) {
	p.count(countViolations, 1)
	if p.told.Add(1) > maxTold {
		return
	}
	fmt.Fprintf(p.out, "VIOLATION: %s %d: %s\n\tfile %d, seed %d; %d operations returned, %d issued; the writer is at %q\n",
		p.role, p.number, fmt.Sprintf(format, args...), p.get(wordFile), p.seed, p.returnedOps(), p.issuedOps(), phaseNames[p.get(wordPhase)%phases])
}

// patience limits waiting for something that should take milliseconds, such as the end of a process, or
// the end of a recovery that holds the lock. If it takes longer, it is taken to hang.
const patience = 2 * time.Minute

// retry repeats f while f fails because another process has the file.
func retry[T any](f func() (T, error)) (T, error) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		v, err := f()
		if !isPassing(err) || time.Since(begun) > patience {
			return v, err
		}
	}
}

// isPassing reports whether an error goes away when another process is done with the file.
func isPassing(err error) bool {
	passing := errors.Is(err, mmapfilter.ErrLocked) || errors.Is(err, mmapfilter.ErrNeedsRecovery) || errors.Is(err, mmapfilter.ErrBusy)
	return passing && !errors.Is(err, mmapfilter.ErrCorrupt)
}

// recoverFile recovers the file, in a process of its own.
func (p *process) recoverFile() error {
	_, err := retry(func() (mmapfilter.Recovery, error) { return mmapfilter.Recover(p.path) })
	return err
}

// fileOptions returns the options of the next file.
func (p *process) fileOptions() *mmapfilter.Options {
	return &mmapfilter.Options{
		Capacity:          p.get(wordCapacity),
		Layout:            layout.Kind(p.get(wordLayout)),
		FingerprintBits:   int(p.get(wordBits)),
		FalsePositiveRate: math.Float64frombits(p.get(wordRate)),
		KeepHashes:        p.keeps(),
		Seed:              p.get(wordSeed),
	}
}

// build builds a new file of the keys in the model over the old one, in a process of its own.
func (p *process) build() error {
	keys := func(yield func([]byte, error) bool) {
		var key []byte
		for id := range keyCount {
			if stateOf(p.key(id)).in() {
				if key = appendKey(key[:0], p.seed, id); !yield(key, nil) {
					return
				}
			}
		}
	}
	f, err := retry(func() (*mmapfilter.Filter, error) {
		return mmapfilter.Build(context.Background(), p.path, p.fileOptions(), keys)
	})
	if err != nil {
		return err
	}
	return f.Close()
}

// A lookUp answers lookups: a filter, a follower, or a program in another language.
type lookUp interface {
	Contains(key []byte) bool
	ContainsBatch(keys [][]byte, found []bool)
	Err() error
	Close() error
}

// read looks up keys until the test ends it.
//
// wordFile is stored after a new file has replaced the old one, and before a writer changes the new one.
// So a file opened after loading wordFile is either the file with that number or the next one, which has
// the same keys as long as the number stays. A follower must switch by itself.
func (p *process) read() error {
	a := p.newAsker(0, countLookups+p.number)
	follows := p.number%2 == 1
	for p.get(wordEnd) == 0 {
		file, reopen := p.get(wordFile), p.get(wordReopen)
		opts := &mmapfilter.OpenOptions{
			Checked:        p.rng.IntN(4) == 0,
			Residency:      []mmapfilter.Residency{mmapfilter.ResidencyDefault, mmapfilter.ResidencyRandom, mmapfilter.ResidencyWillNeed}[p.rng.IntN(3)],
			FollowInterval: time.Millisecond,
		}
		f, err := retry(func() (lookUp, error) {
			if follows {
				return mmapfilter.Follow(p.path, opts)
			}
			return mmapfilter.OpenReadOnly(p.path, opts)
		})
		if err != nil {
			return err
		}
		p.set(wordReopened+p.number, reopen)
		for n := 1 + p.rng.IntN(maxAsks); n > 0 && p.get(wordEnd) == 0 && p.get(wordReopen) == reopen; n-- {
			if !a.ask(f, file, follows) {
				break
			}
			a.pause()
		}
		for _, err := range []error{f.Err(), f.Close()} {
			// Another file may have replaced this one, and a follower may be unable to open that yet.
			if err != nil && !errors.Is(err, mmapfilter.ErrSuperseded) && !(follows && isPassing(err)) {
				return err
			}
		}
	}
	return nil
}

// maxAsks limits how many blocks of keys a reader looks up before it reopens the file.
const maxAsks = 20_000

// An asker looks up blocks of keys.
type asker struct {
	*process
	rng     *rand.Rand
	counter int // counts its lookups
	ids     [askBlock]int
	words   [askBlock]uint64
	keys    [][]byte
	found   []bool
	asked   int
}

const askBlock = 64

func (p *process) newAsker(n, counter int) *asker {
	return &asker{
		process: p, counter: counter, rng: rand.New(rand.NewPCG(p.rng.Uint64(), uint64(n))),
		keys: make([][]byte, askBlock), found: make([]bool, askBlock),
	}
}

// ask looks up keys, and checks the answers against the words of the keys before and after. A key that
// was synced before and has not changed must be found (C1). file is the number of the file of f. If a
// new file has replaced it meanwhile, the answers prove nothing, and ask returns false, unless f
// follows.
func (a *asker) ask(f lookUp, file uint64, follows bool) bool {
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
	nos := uint64(0)
	for i, id := range a.ids {
		if !batch {
			a.words[i] = a.key(id)
			a.found[i] = f.Contains(a.keys[i])
		}
		after := a.key(id)
		if a.get(wordFile) != file && !follows {
			return false
		}
		if a.found[i] {
			continue
		}
		if nos++; after == a.words[i] && stateOf(after) == synced {
			a.missing(f, id, after, batch)
		}
	}
	a.count(a.counter, askBlock)
	if a.counter >= countLookups {
		a.count(a.counter-countLookups+countNos, nos)
	}
	return true
}

// pause leaves the processors to other processes about half of the time.
func (a *asker) pause() {
	if a.asked++; a.asked%pauseBlocks == 0 {
		time.Sleep(time.Duration(a.rng.IntN(300)) * time.Microsecond)
	}
}

// pauseBlocks is the number of blocks of lookups between pauses.
const pauseBlocks = 16

// missing reports a key that should have been found, and how many of 1,000 further lookups miss it.
func (a *asker) missing(f lookUp, id int, word uint64, batch bool) {
	again := 0
	const tries = 1000
	for range tries {
		if !f.Contains(appendKey(nil, a.seed, id)) {
			again++
		}
	}
	a.violation("key %d (%x) was synced, but not found (batch: %t); its word is %d, then %d, %s; further lookups miss it %d times of %d; err %v",
		id, appendKey(nil, a.seed, id), batch, word, a.key(id), stateOf(a.key(id)), again, tries, f.Err())
}
