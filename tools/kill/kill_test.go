//go:build unix

package kill

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var (
	killLives = flag.Int("lives", 18, "number of lives of the writer in TestKill")
	killFor   = flag.Duration("for", 0, "how long TestKill runs, whatever -lives says")
	killSeed  = flag.Uint64("seed", 0, "seed of TestKill; a seed repeats the choices, but not their times; 0 means a random seed")
)

// A parent runs one life of the writer after another: it starts a writer, kills it or lets it end, has
// the file recovered, and examines the file. Now and then it replaces the file by a new one.
type parent struct {
	*process
	t       *testing.T
	readers [readers]*child
	others  []*child // readers in other languages
	kills   [phases]int
	said    output
}

// An output collects what several processes write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func newParent(t *testing.T) *parent {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	p := &parent{t: t}
	dir, err := os.MkdirTemp("", "mmapfilter-kill-")
	p.must(err)
	p.process, err = newProcess(dir, "test", 0, seed, &p.said)
	p.must(err)
	t.Cleanup(func() {
		p.endAll()
		p.m.Unmap()
		if p.said.b.Len() > 0 {
			t.Errorf("the files are in %s\n%s", dir, p.said.b.String())
		} else {
			os.RemoveAll(dir)
		}
	})
	p.choose(0)
	f, err := mmapfilter.Create(p.path, p.fileOptions())
	p.must(err)
	p.must(f.Close())
	return p
}

func (p *parent) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestKill kills a writer again and again, in each phase of its life, while other processes read.
func TestKill(t *testing.T) {
	lives := *killLives
	if testing.Short() {
		lives = min(lives, 2*len(deaths))
	}
	p := newParent(t)
	for i := range p.readers {
		p.readers[i] = p.start("reader", i)
	}
	p.startOthers()
	begun := time.Now()
	for n := 0; !p.violated() && (n < lives && *killFor == 0 || time.Since(begun) < *killFor); n++ {
		for _, c := range p.others {
			if !c.running() { // the reader has missed a key, or failed
				p.wait(c)
			}
		}
		p.life(n)
	}
	if !p.violated() { // let a last writer seal the file
		p.set(wordStop, phaseSeal)
		p.wait(p.start("writer", -1))
		p.set(wordPhase, phaseNone)
	}
	if !p.violated() {
		p.examine(true)
		left, err := filepath.Glob(p.path + "?*")
		p.must(err)
		hashes := func(name string) bool { return name == p.path+".hashes" } // a killed build may have left those of the old file
		if left = slices.DeleteFunc(left, hashes); len(left) > 0 {
			p.violation("%q are left", left)
		}
		for i := range len(p.readers) + len(p.others) {
			p.await(func() bool { return p.lookups(i) > 0 && p.nos(i) > 0 }, "reader %d does not look up keys, or finds all of them", i)
		}
	}
	p.set(wordEnd, 1)
	for _, c := range slices.Concat(p.readers[:], p.others) {
		p.wait(c)
	}
	p.report()
}

// report logs what was done.
func (p *parent) report() {
	n := p.counted
	p.t.Logf("%d inserts, %d deletes, %d repeated after a death; %d rebuilds; %d files", n(countInserts), n(countDeletes), n(countRepeated), n(countRebuilds), p.get(wordFile)+1)
	for i := range p.readers {
		p.t.Logf("reader %d: %d lookups, %d times certainly not", i, p.lookups(i), p.nos(i))
	}
	for i, c := range p.others {
		p.t.Logf("reader %s: %d lookups, %d times certainly not", c.role, p.lookups(readers+i), p.nos(readers+i))
	}
	for phase, kills := range p.kills {
		if kills > 0 {
			p.t.Logf("killed %d times in %s", kills, phaseNames[phase])
		}
	}
}

func (p *parent) lookups(reader int) uint64 { return p.counted(countLookups + reader) }
func (p *parent) nos(reader int) uint64     { return p.counted(countNos + reader) }

// choose chooses the options of a file. Every second file is compact and keeps its hashes. The layouts
// of the others change in turn, since layouts move items in different ways. The capacity is random, but
// has room for the keys of the model.
func (p *parent) choose(file int) {
	const least, most = 4000, keyCount * 3 / 4
	capacity := least
	for capacity < most && p.rng.IntN(4) > 0 {
		capacity += capacity * (1 + p.rng.IntN(100)) / 100
	}
	capacity = min(max(capacity, p.keysIn()*21/20), most)
	kind, bits, keep, rate := layout.Compact, 0, uint64(1), -6-2*p.rng.Float64()
	if file%2 == 1 {
		kinds := layout.Kinds()
		kind, keep, rate = kinds[file/2%len(kinds)], 0, -1-6.9*p.rng.Float64()
		if kind != layout.Compact {
			params := layout.LegalParams(kind)
			bits = params[p.rng.IntN(len(params))].FingerprintBits
		}
	}
	p.set(wordCapacity, uint64(capacity))
	p.set(wordLayout, uint64(kind))
	p.set(wordBits, uint64(bits))
	p.set(wordRate, math.Float64bits(math.Pow(10, rate)))
	p.set(wordKeep, keep)
	p.set(wordSeed, p.rng.Uint64()|1)
	p.set(wordLimit, p.limit())
}

// limit returns the number of keys that the writer chooses from: a third more than the capacity.
func (p *parent) limit() uint64 { return min(p.get(wordCapacity)*4/3, keyCount) }

// keysIn counts the keys in the model.
func (p *parent) keysIn() (n int) {
	for id := range keyCount {
		if stateOf(p.key(id)).in() {
			n++
		}
	}
	return n
}

// overTarget is how far the writer may exceed its target for a while, in keys: by one batch per
// goroutine, and by near (see some). Targets are lower than the capacity by this much, so
// that no insert is refused.
const overTarget = 500

// A death is how a life of the writer ends: by a kill in a phase or, after phaseSeal or phaseClose,
// without a kill.
type death struct {
	phase uint64
	kill  bool
}

var deaths = []death{
	{phaseWork, true}, {phaseOpen, true}, {phaseSync, true}, {phaseSeal, false}, {phaseCheckpoint, true},
	{phaseRebuild, true}, {phaseClose, true}, {phaseSeal, true}, {phaseClose, false},
}

// livesOfFile is the number of lives after which a new file replaces the file. It has no factor in
// common with the number of deaths, so each death happens with files of each kind.
const livesOfFile = 5

// life runs one life of the writer, and recovers, examines or replaces the file after it.
func (p *parent) life(n int) {
	capacity := p.get(wordCapacity)
	target := capacity*uint64(95+p.rng.IntN(6))/100 - overTarget
	if p.rng.IntN(8) == 0 {
		target = capacity / 2 // so that the next file can be smaller
	}
	p.set(wordTarget, target)
	p.set(wordLogBytes, uint64(wal.MinBytes+p.rng.IntN(3)*p.rng.IntN(32)*wal.PageBytes))
	p.set(wordInterval, uint64(p.rng.IntN(2)*p.rng.IntN(20_000_000)))
	p.set(wordStop, 0)
	p.set(wordWant, phaseNone)
	w := p.start("writer", n)
	if p.die(w, deaths[n%len(deaths)]) {
		p.afterKill((n + n/len(deaths)) % 5)
	}
	last := n%livesOfFile == livesOfFile-1
	if (last || n%4 == 3) && !p.violated() {
		p.examine(false)
	}
	if last && !p.violated() {
		p.replace(n / livesOfFile)
	}
}

// die runs a writer until it dies, and reports whether it was killed.
func (p *parent) die(w *child, d death) (killed bool) {
	if d.phase == phaseRebuild && !p.keeps() {
		d.phase = phaseCheckpoint
	}
	if d.phase != phaseOpen {
		p.work(w)
	}
	if d.phase >= phaseSeal {
		p.set(wordStop, d.phase)
	} else {
		p.set(wordWant, d.phase)
	}
	if d.kill {
		p.await(func() bool { return p.get(wordPhase) == d.phase || !w.running() }, "the writer does not reach phase %q", phaseNames[d.phase])
		most := 4 * time.Millisecond
		if d.phase == phaseRebuild {
			most = 200 * time.Millisecond // the time of some rebuilds
		}
		time.Sleep(time.Duration(p.rng.Int64N(int64(most)) >> p.rng.IntN(12)))
		w.kill()
	}
	if killed = p.wait(w); killed {
		p.kills[p.get(wordPhase)]++
	}
	if p.get(wordServed)%2 == 1 {
		p.add(wordServed, 1)
	}
	p.set(wordPhase, phaseNone)
	if !killed && !p.violated() {
		p.verify(d.phase == phaseSeal)
	}
	return killed && !p.violated()
}

// await waits until is() is true, which should take milliseconds.
func (p *parent) await(is func() bool, format string, args ...any) {
	for until := time.Now().Add(patience); !is() && !p.violated(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(until) {
			p.violation(format, args...)
		}
	}
}

// longestWork limits how long a writer works before its death.
const longestWork = 300 * time.Millisecond

// work lets the writer work for a while, or until it ends.
func (p *parent) work(w *child) {
	for until := time.Now().Add(time.Duration(p.rng.Int64N(int64(longestWork)))); time.Now().Before(until) && w.running() && !p.violated(); {
		time.Sleep(min(time.Until(until), time.Duration(p.rng.IntN(int(20*time.Millisecond)))))
		switch p.rng.IntN(8) {
		case 0:
			p.beside()
		case 1: // suspend the writer for a moment, wherever it is
			if w.Process.Signal(syscall.SIGSTOP) == nil {
				time.Sleep(time.Duration(p.rng.Int64N(int64(10 * time.Millisecond))))
				w.Process.Signal(syscall.SIGCONT)
			}
		}
	}
}

// beside tries to open, recover or build the file as a second writer. That must fail with ErrLocked
// while the first writer has the file open.
func (p *parent) beside() {
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
		stop := errors.New("not locked")
		f, err = mmapfilter.Build(context.Background(), p.path, nil, func(yield func([]byte, error) bool) { yield(nil, stop) })
		if errors.Is(err, stop) {
			err = nil
		}
	}
	if f != nil {
		err = errors.Join(err, f.Close())
	}
	refused := errors.Is(err, mmapfilter.ErrLocked)
	if !refused && (err != nil || before%2 == 1 && p.get(wordServed) == before) {
		p.violation("%s beside the writer: %v", what, err)
	}
}

// live reports whether the file is live. Call live only while nobody writes: then a live file is one
// whose writer died.
func (p *parent) live() bool {
	h, err := p.head()
	p.must(err)
	return h.Superblock.State() == layout.Live
}

// afterKill has the file recovered in one of five ways. Way 0 leaves the recovery to the next writer.
func (p *parent) afterKill(way int) {
	if way == 0 || !p.live() {
		return
	}
	switch way {
	case 1:
		p.must(p.recoverFile())
	case 2, 3: // two processes, killed while they recover; in way 3, a third that is not killed
		for i := range way {
			c := p.start("recover", i)
			if i < 2 {
				time.Sleep(time.Duration(p.rng.Int64N(int64(20 * time.Millisecond))))
				c.kill()
			}
			p.wait(c)
		}
	case 4:
		p.recoverByReaders()
	}
}

// recoverByReaders tells the readers to open the file again, and kills one of them meanwhile.
func (p *parent) recoverByReaders() {
	request := p.add(wordReopen, 1)
	i := p.rng.IntN(readers)
	time.Sleep(time.Duration(p.rng.Int64N(int64(10 * time.Millisecond))))
	p.readers[i].kill()
	p.wait(p.readers[i])
	p.readers[i] = p.start("reader", i)
	for i, c := range p.readers {
		p.await(func() bool { return p.get(wordReopened+i) >= request || !c.running() }, "reader %d does not open the file again", i)
	}
}

// verify verifies a file that nobody writes to.
func (p *parent) verify(sealed bool) {
	r, err := retry(func() (mmapfilter.Report, error) { return mmapfilter.Verify(context.Background(), p.path) })
	if err != nil || sealed && !r.Sealed || p.keeps() && r.Hashes != r.Items {
		p.violation("Verify (sealed: %t): %+v, %v", sealed, r, err)
	}
}

// examine opens the file, which recovers it if necessary, and compares it with the model. If full is
// true, the file must be sealed, and no operation in progress.
func (p *parent) examine(full bool) {
	f, err := retry(func() (*mmapfilter.Filter, error) { return mmapfilter.OpenReadOnly(p.path, nil) })
	p.must(err)
	defer f.Close()
	m, err := p.newModel(f)
	p.must(err)
	if full && p.issuedOps() != p.returnedOps() {
		p.violation("%d operations were issued, and %d have returned", p.issuedOps(), p.returnedOps())
	}
	if !m.resolve(f) {
		return
	}
	m.check(f)
	p.verify(full)
}

// replace has a process replace the file by a new one with the keys in the model. In every second
// call, it kills that process. If the process has not replaced the file, another one builds it. The old
// file must have been examined before, so that the model knows which operations were done.
func (p *parent) replace(n int) {
	old, err := os.Stat(p.path)
	p.must(err)
	p.choose(int(p.get(wordFile)) + 1)
	replaced := func() bool {
		now, err := os.Stat(p.path)
		p.must(err)
		return !os.SameFile(old, now)
	}
	for kill := n%2 == 0; !replaced() && !p.violated(); kill = false {
		c := p.start("build", n)
		if kill {
			time.Sleep(time.Duration(p.rng.Int64N(int64(40 * time.Millisecond))))
			c.kill()
		}
		p.wait(c)
	}
	for i := range streams { // the new file has exactly the keys of the operations that returned
		p.stream(i).drop()
	}
	p.add(wordFile, 1)
	if !p.violated() {
		p.examine(true)
	}
}
