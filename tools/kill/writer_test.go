//go:build unix

package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A writer is the process that writes, in rounds. In a round, each stream makes some operations, while
// one goroutine looks up keys, and another may sync, checkpoint, seal or rebuild. Between two rounds, no
// operation is in progress, and SyncAt makes all operations durable.
type writer struct {
	*model
	f       *mmapfilter.Filter
	workers [streams]*worker
	length  atomic.Int64 // keys in the filter
	rebuilt bool         // whether this round has a rebuild, which changes the classes of keys
	grow    uint64       // by how many halves of its capacity a rebuild enlarges the file
}

// write resumes writing, until the test tells it to end or kills it.
func (p *process) write() error {
	w, err := p.openWriter()
	if err != nil {
		return err
	}
	for p.get(wordStop) == 0 {
		if err := w.round(); err != nil {
			return err
		}
		if p.rng.IntN(40) > 0 {
			continue
		}
		if err := w.close(); err != nil {
			return err
		}
		if w, err = p.openWriter(); err != nil {
			return err
		}
	}
	if p.get(wordStop) == phaseSeal {
		if err := w.in(phaseSeal, w.f.Seal); err != nil {
			return err
		}
	}
	return w.close()
}

// errModel ends a writer whose file differs from the model.
var errModel = errors.New("the file differs from the model")

// openWriter opens the file, and resolves the operations that were in progress when the last
// writer died.
func (p *process) openWriter() (*writer, error) {
	p.set(wordPhase, phaseOpen)
	opts := &mmapfilter.OpenOptions{
		LogBytes:       int64(p.get(wordLogBytes)),
		CommitInterval: time.Duration(p.get(wordInterval)),
		RequireHashes:  p.keeps(),
	}
	if opts.CommitInterval == 0 {
		opts.CommitInterval = -1
	}
	// A reader may be recovering the file.
	f, err := retry(func() (*mmapfilter.Filter, error) { return mmapfilter.Open(p.path, opts) })
	if err != nil {
		return nil, err
	}
	p.add(wordServed, 1)
	r := f.Stats().Recovery
	if r.UserSeq != f.DurableSeq() || r.Operations != f.DurableOps() || r.Length != f.Len() {
		p.violation("the recovery found user sequence %d, %d operations after it, and %d keys; the filter says %d, %d and %d",
			r.UserSeq, r.Operations, r.Length, f.DurableSeq(), f.DurableOps(), f.Len())
	}
	m, err := p.newModel(f)
	if err != nil {
		return nil, err
	}
	if !m.resolve(f) {
		return nil, errModel
	}
	if p.rng.IntN(4) == 0 {
		m.check(f)
	}
	w := &writer{model: m, f: f}
	w.length.Store(int64(m.keys.Len()))
	limit := int(p.get(wordLimit))
	for i := range w.workers {
		w.workers[i] = &worker{writer: w, stream: p.stream(i), rng: rand.New(rand.NewPCG(p.rng.Uint64(), uint64(i)))}
	}
	for id := range keyCount {
		in := stateOf(p.key(id)).in()
		if !in && id >= limit {
			continue
		}
		k := w.workers[m.streamOf(id)]
		if in {
			k.in = append(k.in, id)
		} else {
			k.out = append(k.out, id)
		}
	}
	for _, k := range w.workers {
		if err := k.repeat(); err != nil {
			return nil, err
		}
	}
	return w, w.syncAt()
}

// round runs one round.
func (w *writer) round() error {
	w.set(wordPhase, phaseWork)
	ends := make(chan struct{})
	results := make(chan error)
	n := 20 + w.rng.IntN(400)
	if w.filling() {
		n *= 8
	}
	phase := w.choose()
	w.rebuilt, w.grow = phase == phaseRebuild, w.rng.Uint64N(3) // now, since askOn uses rng too
	var working sync.WaitGroup
	for _, k := range w.workers {
		working.Add(1)
		go func() {
			defer working.Done()
			results <- k.work(n)
		}()
	}
	others := []func() error{func() error { return w.askOn(ends) }}
	if phase != phaseNone {
		do := map[uint64]func(context.Context) error{
			phaseSync: func(context.Context) error { return w.f.Sync() }, phaseCheckpoint: w.f.Checkpoint, phaseSeal: w.f.Seal, phaseRebuild: w.rebuild,
		}[phase]
		others = append(others, func() error { return w.in(phase, do) })
	}
	for _, other := range others {
		go func() { results <- other() }()
	}
	go func() {
		working.Wait()
		close(ends)
	}()
	var err error
	for range len(w.workers) + len(others) {
		err = errors.Join(err, <-results)
	}
	if err == nil {
		err = w.syncAt()
	}
	if err == nil && w.rebuilt {
		w.model, err = w.newModel(w.f)
	}
	return err
}

// choose returns the phase of what the writer does in a round beside its operations, or phaseNone.
func (w *writer) choose() (phase uint64) {
	if phase = w.get(wordWant); phase > phaseWork {
		return phase
	}
	switch r := w.rng.IntN(30); {
	case r < 2:
		return phaseCheckpoint
	case r < 3:
		return phaseSeal
	case r < 10:
		return phaseSync
	case r < 13 && w.keeps():
		return phaseRebuild
	}
	return phaseNone
}

// rebuild rebuilds the file with a larger capacity, or with the same.
func (w *writer) rebuild(ctx context.Context) error {
	w.count(countRebuilds, 1)
	capacity := w.get(wordCapacity)
	return w.f.Rebuild(ctx, &mmapfilter.RebuildOptions{Capacity: capacity + capacity*w.grow/2})
}

// filling reports whether the writer is far below its target and should hurry.
func (w *writer) filling() bool { return w.length.Load()+2000 < int64(w.get(wordTarget)) }

// in runs f in a phase.
func (w *writer) in(phase uint64, f func(context.Context) error) error {
	w.set(wordPhase, phase)
	err := f(context.Background())
	w.set(wordPhase, phaseWork)
	return err
}

// askOn looks up keys until the round ends.
func (w *writer) askOn(ends <-chan struct{}) error {
	a := w.newAsker(1, countOwnLookups)
	for {
		select {
		case <-ends:
			return nil
		default:
			a.ask(w.f, 0, true)
			a.pause()
		}
	}
}

// syncAt makes all operations durable. The user sequence is the number of operations on this file and on
// the files that it has replaced.
func (w *writer) syncAt() error {
	w.set(wordPhase, phaseSync)
	seq := w.returnedOps()
	if err := w.f.SyncAt(seq); err != nil {
		return err
	}
	if got, ops := w.f.DurableSeq(), w.f.DurableOps(); got != seq || ops != 0 {
		w.violation("after SyncAt(%d), the user sequence is %d, and %d operations after it are durable", seq, got, ops)
	}
	for _, k := range w.workers {
		k.settle()
	}
	if got := w.f.Len(); got != uint64(w.length.Load()) {
		w.violation("the filter has %d keys, not %d", got, w.length.Load())
	}
	return nil
}

func (w *writer) close() error {
	w.add(wordServed, 1)
	w.set(wordPhase, phaseClose)
	return w.f.Close()
}

// A worker is the goroutine of a stream.
type worker struct {
	*writer
	stream
	rng      *rand.Rand
	in, out  []int // the keys of the stream: those in the filter, and those that it may insert
	unsynced []int
}

// repeat makes the operations that were issued, but not done, as resolve found out.
func (k *worker) repeat() error {
	for k.returned() < k.issued() {
		o := k.stream.op(k.returned())
		k.writer.count(countRepeated, 1)
		list := &k.out
		if o.delete {
			list = &k.in
		}
		i := slices.Index(*list, o.id)
		if i < 0 {
			return fmt.Errorf("%s: not an operation of this stream", o)
		}
		take(list, i)
		if err := k.do(o); err != nil {
			return err
		}
	}
	return nil
}

// work makes n operations or a few more.
func (k *worker) work(n int) error {
	for n > 0 {
		done, err := k.some()
		if err != nil {
			return err
		}
		n -= done
		if k.rng.IntN(100) > 0 || k.filling() {
			continue
		}
		if err := k.f.Sync(); err != nil {
			return err
		}
		k.settle()
	}
	return nil
}

// some makes one operation, or a batch of inserts.
func (k *worker) some() (n int, err error) {
	const near = 50
	inserts := 50 // of 100
	switch d := k.length.Load() - int64(k.writer.get(wordTarget)); {
	case d < -near:
		inserts = 90
	case d > near:
		inserts = 10
	}
	if len(k.out) == 0 || len(k.in) > 0 && k.rng.IntN(100) >= inserts {
		if len(k.in) == 0 {
			return 1, nil // the stream has no keys
		}
		o := op{take(&k.in, k.rng.IntN(len(k.in))), true}
		k.issue(o)
		return 1, k.do(o)
	}
	ops := []op{{id: k.pick()}}
	if k.rng.IntN(8) == 0 || k.filling() {
		for len(k.out) > 0 && len(ops) < streamRing {
			o := op{id: k.pick()}
			if k.among(ops, o.id) {
				k.out = append(k.out, o.id)
				break
			}
			ops = append(ops, o)
		}
	}
	k.issue(ops...)
	if len(ops) == 1 {
		return 1, k.do(ops[0])
	}
	return len(ops), k.insertBatch(ops)
}

// pick takes a key to insert: half of the time, the one that was deleted last.
func (k *worker) pick() int {
	if k.rng.IntN(2) == 0 {
		return take(&k.out, len(k.out)-1)
	}
	return take(&k.out, k.rng.IntN(len(k.out)))
}

// among reports whether a key is in the class of the key of an operation.
func (k *worker) among(ops []op, id int) bool {
	for _, o := range ops {
		if k.placeOf[o.id].Class == k.placeOf[id].Class {
			return true
		}
	}
	return false
}

// take removes element i, and returns it.
func take(list *[]int, i int) int {
	l := *list
	id := l[i]
	l[i] = l[len(l)-1]
	*list = l[:len(l)-1]
	return id
}

// do makes an operation that was issued, and marks it as returned.
func (k *worker) do(o op) error {
	key := appendKey(nil, k.seed, o.id)
	if o.delete {
		k.enter(o.id, deleting)
		if ok, err := k.f.Delete(key); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		} else if !ok {
			return fmt.Errorf("%s: the key is certainly not in the filter", o)
		}
	} else {
		k.enter(o.id, inserting)
		if err := k.f.Insert(key); err != nil {
			return fmt.Errorf("%s, with %d keys in the filter: %w", o, k.length.Load(), err)
		}
	}
	k.after(o)
	return nil
}

// insertBatch makes inserts that were issued in one call of InsertBatch.
func (k *worker) insertBatch(ops []op) error {
	var keys [][]byte
	for _, o := range ops {
		k.enter(o.id, inserting)
		keys = append(keys, appendKey(nil, k.seed, o.id))
	}
	if n, err := k.f.InsertBatch(keys); err != nil || n != len(ops) {
		return fmt.Errorf("after %d inserts of a batch of %d: %w", n, len(ops), err)
	}
	k.after(ops...)
	return nil
}

// after records operations that have returned. Lookups of this process must see them at once
// (R1).
func (k *worker) after(ops ...op) {
	k.done(len(ops))
	for _, o := range ops {
		k.unsynced = append(k.unsynced, o.id)
		if o.delete {
			k.put(o.id, -1)
			k.length.Add(-1)
			k.writer.count(countDeletes, 1)
			if o.id < int(k.writer.get(wordLimit)) {
				k.out = append(k.out, o.id)
			}
		} else {
			k.put(o.id, 1)
			k.length.Add(1)
			k.writer.count(countInserts, 1)
			k.in = append(k.in, o.id)
		}
		if !o.delete && !k.f.Contains(appendKey(nil, k.seed, o.id)) {
			k.violation("key %d is not found by its writer after its insert", o.id)
		}
		if !k.rebuilt && k.rng.IntN(8) == 0 {
			k.countOne(k.f, o.id)
		}
	}
}

// settle marks the operations since the last call as synced.
func (k *worker) settle() {
	for _, id := range k.unsynced {
		k.writer.settle(id)
	}
	k.unsynced = k.unsynced[:0]
}
