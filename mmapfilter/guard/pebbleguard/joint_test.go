package pebbleguard

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
	"github.com/mmapfilter/mmapfilter/recovery/crashsim"
)

var (
	jointStates = flag.Int("states", 5000, "about how many crash states TestJoint tries")
	jointSeed   = flag.Uint64("seed", 1, "seed of the first trace of TestJoint")
)

// A disk has a store and its filter.
type disk struct {
	fs  *vfs.MemFS
	vol *crashsim.Volume // nil if there is no filter
}

// A machine runs a guarded store on a disk, and records what may be on the disk after a crash, for many
// instants.
type machine struct {
	disk
	rng     *rand.Rand // of the goroutine that runs the trace
	deletes guard.DeleteMode
	depth   int

	mu       sync.Mutex // held by the filter while it works, and by a crash
	inFilter bool
	crashRNG *rand.Rand // guarded by mu
	odds     int        // one event in odds is a crash
	crashed  []*machine // machines to run later
	closed   atomic.Bool
	memory   *memory

	db     *DB
	hooks  *guarded.Hooks
	filter *simFilter
	backup disk
	broken error  // the filter cannot be opened
	during func() // ends a transaction that is under way when a rebuild begins
	log    []string
}

// memory is what the machines of a goroutine share, since Pebble's caches are slow to create.
type memory struct{ cache *pebble.Cache }

func newMachine(d disk, seed uint64, deletes guard.DeleteMode, depth int, mem *memory) *machine {
	return &machine{
		disk: d, rng: rand.New(rand.NewPCG(seed, 1)), crashRNG: rand.New(rand.NewPCG(seed, 2)),
		deletes: deletes, depth: depth, odds: 300 << (4 * depth), memory: mem,
	}
}

// filterEvent is called after an event of the filter, with mu held.
func (m *machine) filterEvent(crashsim.Event) {
	if m.crashRNG.IntN(m.odds) == 0 {
		m.crash()
	}
}

// MaybeError is called before each operation of the store on its files, from any goroutine.
func (m *machine) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead || m.closed.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.filter; f != nil && m.crashRNG.IntN(4) == 0 { // the filter's timer
		m.inFilter = true
		f.w.Sync()
		m.inFilter = false
	}
	if m.crashRNG.IntN(max(m.odds/20, 3)) == 0 {
		m.crash()
	}
	return nil
}

func (m *machine) String() string { return "crashes" }

const maxDepth = 3

// crash records what is on the disk after a crash at this instant. REQUIRES: m.mu.
func (m *machine) crash() {
	if m.depth == maxDepth || m.closed.Load() || len(m.crashed) > 40>>(2*m.depth) {
		return
	}
	var d disk
	rng := m.crashRNG
	how := "kill"
	if rng.IntN(3) == 0 {
		d.fs = m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		if m.vol != nil {
			d.vol = m.vol.AfterKill(rng)
		}
	} else {
		how = "power loss"
		d.fs = m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 0, 50, 90}[rng.IntN(4)], RNG: rng})
		if m.vol != nil {
			d.vol = m.vol.AfterPowerLoss(rng)
		}
	}
	child := newMachine(d, rng.Uint64(), m.deletes, m.depth+1, m.memory)
	where := "in the store"
	if m.inFilter {
		where = "in the filter"
	}
	child.log = append(append(child.log, m.log...), "CRASH "+how+" "+where)
	m.crashed = append(m.crashed, child)
}

func (m *machine) say(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf(format, args...))
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (m *machine) open() error {
	o := &pebble.Options{
		FS: errorfs.Wrap(m.fs, m), Logger: quiet{}, Cache: m.memory.cache, MemTableSize: 16 << 10,
		FormatMajorVersion: pebble.FormatNewest, DisableAutomaticCompactions: true, MaxOpenFiles: 100,
		L0StopWritesThreshold: 1000,
	}
	var err error
	m.db, m.hooks = nil, &guarded.Hooks{Create: m.createFilter, Open: m.openFilter, Random: m.random, Manual: true}
	m.db, err = Open("db", o, &guard.Options{
		Capacity: 12, Deletes: m.deletes, Path: "f",
		Hooks: m.hooks,
	})
	return err
}

func (m *machine) random() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashRNG.Uint64()
}

const jointKeys = 24

func jointKey(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

// check looks for keys of the store that the guard hides.
func (m *machine) check() error {
	it, err := m.db.DB.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); !m.db.store.reserved(key) && m.db.guard.Absent(key) {
			value, _ := it.ValueAndErr()
			err = fmt.Errorf("%q is hidden, with value %q; %+v", key, value, m.db.GuardStats())
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

func (m *machine) writeOptions() *pebble.WriteOptions {
	if m.rng.IntN(3) == 0 {
		return pebble.Sync
	}
	return pebble.NoSync
}

// batch returns a random batch.
func (m *machine) batch() *Batch {
	b := m.db.NewBatch()
	for range 1 + m.rng.IntN(4) {
		key := jointKey(m.rng.IntN(jointKeys))
		var err error
		switch m.rng.IntN(12) {
		case 0, 1, 2, 3, 4:
			err = b.Delete(key, nil)
			m.say("delete %s", key)
		case 5:
			err = b.Merge(key, []byte("m"), nil)
			m.say("merge %s", key)
		case 6:
			if m.rng.IntN(8) == 0 {
				err = b.DeleteRange([]byte("key 1"), []byte("key 3"), nil)
				m.say("delete range")
				break
			}
			fallthrough
		default:
			err = b.Set(key, []byte("value"), nil)
			m.say("set %s", key)
		}
		if err != nil {
			panic(err)
		}
	}
	return b
}

// step does one operation of a trace.
func (m *machine) step() error {
	d := m.db
	switch m.rng.IntN(20) {
	case 0:
		m.say("work")
		return d.guard.Work()
	case 1:
		m.say("commit of the filter")
		return d.guard.Sync()
	case 9:
		m.say("back up")
		m.mu.Lock()
		defer m.mu.Unlock()
		m.backup = m.disk.copyOf(m)
		return nil
	case 7, 8:
		m.say("tick")
		m.hooks.Tick()
		return nil
	case 2:
		m.say("flush")
		return d.DB.Flush()
	case 3, 4:
		return m.rebuild()
	case 5:
		return m.reopen()
	case 6:
		// A transaction that fails, or whose process seems to hang.
		b := m.batch()
		defer b.Close()
		t := d.guard.Begin()
		if _, err := d.follow(b.Batch, t); err != nil {
			return err
		}
		t.Prepare()
		m.say("… but it is not committed")
		t.Done([]guard.Outcome{guard.Unknown, guard.Aborted}[m.rng.IntN(2)])
		return nil
	}
	b := m.batch()
	defer b.Close()
	o := m.writeOptions()
	m.say("commit, sync %t", o.Sync)
	return d.Apply(b, o)
}

// rebuild rebuilds the filter, maybe while a transaction is being committed.
func (m *machine) rebuild() error {
	d := m.db
	m.during = nil
	if m.rng.IntN(2) == 0 {
		b, t, o := m.batch(), d.guard.Begin(), m.writeOptions()
		if _, err := d.follow(b.Batch, t); err != nil {
			return err
		}
		if err := d.prepare(b.Batch, t); err != nil {
			return err
		}
		apply := func() {
			m.say("… is applied, sync %t", o.Sync)
			if err := d.DB.Apply(b.Batch, o); err != nil {
				panic(err)
			}
		}
		m.say("… is under way")
		early := m.rng.IntN(2) == 0
		if early {
			apply()
		}
		m.during = func() {
			if !early {
				apply()
			}
			m.say("… is done")
			t.Done(guard.Committed)
			b.Close()
		}
	}
	m.say("rebuild")
	err := d.guard.Rebuild(context.Background())
	m.say("rebuilt: %v", err)
	if m.during != nil { // a rebuild cannot wait for the transaction in this goroutine
		m.during()
		m.during = nil
		return nil
	}
	return err
}

// reopen closes the store and opens it again. Now and then a backup of the store or of the filter takes
// its place in between, or the filter is lost.
func (m *machine) reopen() error {
	m.say("close and open")
	m.closed.Store(true)
	if err := m.close(); err != nil {
		return err
	}
	if m.backup.fs == nil {
		m.say("… and back up")
		m.backup = m.disk.copyOf(m)
	}
	switch m.rng.IntN(6) {
	case 0:
		m.say("… an older store")
		m.fs = m.backup.copyOf(m).fs
	case 1:
		m.say("… an older filter")
		m.vol = m.backup.copyOf(m).vol
	case 2:
		m.say("… no filter")
		m.vol = nil
	}
	m.closed.Store(false)
	return m.open()
}

// copyOf returns a copy of a disk at rest.
func (d disk) copyOf(m *machine) disk {
	c := disk{fs: d.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: m.rng})}
	if d.vol != nil {
		c.vol = d.vol.AfterKill(m.rng)
	}
	return c
}

// meanwhile is called while a rebuild reads the keys.
func (m *machine) meanwhile() {
	if m.during != nil && m.rng.IntN(2) == 0 {
		m.during()
		m.during = nil
	}
	if m.rng.IntN(3) > 0 {
		return
	}
	if m.during != nil && m.deletes == guard.Exact {
		return // the transaction may hold the locks of these keys
	}
	m.say("meanwhile")
	b := m.batch()
	defer b.Close()
	if err := m.db.Apply(b, m.writeOptions()); err != nil {
		panic(err)
	}
}

func (m *machine) close() error {
	return m.db.Close()
}

// life runs a trace on the disk, and then runs the machines of all crashes in it.
func (m *machine) life(steps int, states *atomic.Int64) (err error) {
	defer func() {
		if v := new(violation); err != nil && !errors.As(err, &v) {
			err = &violation{m.log, err}
		}
	}()
	if err := m.open(); m.db == nil && m.depth > 0 && strings.Contains(err.Error(), "MANIFEST") {
		states.Add(-1) // the simulated disk has lost a name that Pebble had made durable
		lostStores.Add(1)
		return nil
	} else if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := errors.Join(m.check(), m.broken); err != nil {
		return fmt.Errorf("after open: %w", err)
	}
	for range steps {
		if err := m.step(); err != nil {
			return err
		}
		if err := m.check(); err != nil {
			return err
		}
		if err := m.look(states); err != nil {
			return err
		}
	}
	if m.rng.IntN(4) == 0 || m.depth == 0 {
		if err := m.rebuild(); err != nil {
			return err
		}
		if err := m.check(); err != nil {
			return fmt.Errorf("after a rebuild: %w", err)
		}
	}
	m.closed.Store(true)
	if err := m.close(); err != nil {
		return err
	}
	return m.look(states)
}

// lostStores counts disks without a store.
var lostStores atomic.Int64

type violation struct {
	log []string
	err error
}

func (v *violation) Error() string { return v.err.Error() }

// look runs the machines of the crashes that have been recorded.
func (m *machine) look(states *atomic.Int64) error {
	m.mu.Lock()
	crashed := m.crashed
	m.crashed = nil
	m.mu.Unlock()
	for _, c := range crashed {
		states.Add(1)
		if err := c.life(c.rng.IntN(3), states); err != nil {
			return err
		}
	}
	return nil
}

// TestJoint crashes a store and its filter at the same instant, at events of either, in random traces,
// and again while they recover (G1, G2). The guard hides no key that the store then has.
func TestJoint(t *testing.T) {
	// The garbage collector must run often, whatever GOGC says, to free what Pebble has outside the
	// heap.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var states, traces atomic.Int64
	var seed atomic.Uint64
	seed.Store(*jointSeed - 1)
	begun := time.Now()
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Add(1)
		go func() {
			defer group.Done()
			mem := &memory{pebble.NewCache(1 << 20)}
			defer mem.cache.Unref()
			for states.Load() < int64(*jointStates) && !t.Failed() {
				s := seed.Add(1)
				m := newMachine(disk{fs: vfs.NewCrashableMem()}, s, []guard.DeleteMode{guard.Exact, guard.Rebuild}[s%2], 0, mem)
				if err := m.life(30, &states); err != nil {
					log := []string(nil)
					if v := new(violation); errors.As(err, &v) {
						log = v.log
					}
					t.Errorf("seed %d, deletes: %s: %v\n%v", s, m.deletes, err, log)
				}
				traces.Add(1)
			}
		}()
	}
	group.Wait()
	t.Logf("%d traces, %d crash states, %d disks without a store, %.1f s", traces.Load(), states.Load(), lostStores.Load(), time.Since(begun).Seconds())
	if lostStores.Load() > states.Load()/20 {
		t.Errorf("too many disks have no store")
	}
}
