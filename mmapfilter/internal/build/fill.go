package build

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// tasks returns the number of ranges of lines to fill in parallel. Each range has the lines of
// whole partitions of the spool, and no two ranges share a word: see RoundUp.
func (b *builder) tasks() int {
	lines, lineBits := b.table.Lines(), uint64(layout.LineBits(b.table.Kind(), b.table.Params()))
	tasks := min(TaskCount(lines, lineBits), uint64(b.homes.parts()))
	for lines%tasks != 0 || lines/tasks*lineBits%64 != 0 && tasks > 1 {
		tasks /= 2
	}
	return int(tasks)
}

// count returns the number of keys that the filter will hold.
func (b *builder) count(ctx context.Context) (uint64, error) {
	if n, all := b.homes.count(); all && !b.Distinct {
		return n, nil
	}
	var total atomic.Uint64
	parts := b.homes.parts()
	err := b.parallel(ctx, nil, parts, func(w *worker, i int) error {
		hashes, err := b.homes.load(w, i, i+1, false, b.Distinct)
		total.Add(uint64(len(hashes)))
		b.report("count", 1, uint64(parts))
		return err
	})
	return total.Load(), err
}

// fill puts keys into their home lines, as far as they have room.
func (b *builder) fill(ctx context.Context) error {
	tasks := b.tasks()
	b.homeless = newSpool(b.draft, b.Workers, b.MemoryBudget/homelessShare, tasks)
	b.room = newLineRoom(b.table.Lines())
	perTask := b.homes.parts() / tasks
	if b.Keep {
		stop, err := b.keep(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	var read, left atomic.Uint64
	err := b.parallel(ctx, b.homeless, tasks, func(w *worker, i int) (err error) {
		written := b.base == nil
		defer func() {
			if !written { // if err is nil, that panics
				b.base.fail(err)
			}
		}()
		hashes, err := b.homes.load(w, i*perTask, (i+1)*perTask, true, b.Distinct)
		if err != nil {
			return err
		}
		if b.base != nil {
			if err := b.base.put(i, hashes, w.ages); err != nil {
				return err
			}
			written = true
		}
		read.Add(uint64(w.read))
		left.Add(uint64(len(hashes)))
		err = b.fillLines(w, hashes)
		b.report("fill", 1, uint64(tasks))
		return err
	})
	if err == nil {
		err = b.homes.done()
	}
	b.homes.close() // frees its disk space
	if err == nil && b.base != nil {
		err = b.base.end()
	}
	if err != nil {
		return err
	}
	if read.Load() != b.came {
		return fmt.Errorf("read %d keys but kept %d hashes", b.came, read.Load())
	}
	b.items = left.Load()
	return nil
}

// keep begins the base of NAME.hashes. Until stop is called, cancelling ctx ends the waits of its tasks.
func (b *builder) keep(ctx context.Context) (stop func() bool, err error) {
	f, err := b.draft.CreateHashes()
	if err != nil {
		return nil, err
	}
	w := b.window()
	now := max(b.Now, w.believed(b.LastTime))
	h := hashes.Header{Identity: b.Identity, Ages: []hashes.Age{{First: now, Last: now}}}
	if m, ok := b.homes.(*Merged); ok {
		h.Ages = slices.Clone(m.ages)
		for i := range h.Ages {
			h.Ages[i].First, h.Ages[i].Last = w.believed(h.Ages[i].First), w.believed(h.Ages[i].Last)
		}
		if b.Continues != nil {
			h.At, h.Before = m.inputs[0].surveyed.at, m.inputs[0].Counted
		}
	}
	b.base = &baseFile{pages: pageFile{file: f}}
	b.base.base = hashes.NewBase(h, b.base.pages.write)
	b.base.turns.L = &b.base.mu
	return context.AfterFunc(ctx, func() { b.base.fail(context.Cause(ctx)) }), nil
}

// window says when items leave the new file.
func (b *builder) window() Window { return Window{b.ExpireAfter, b.Now} }

// fillLines fills the home lines of sorted hashes. No other task has items in these lines.
func (b *builder) fillLines(w *worker, hashes []uint64) error {
	l := &w.line
	for i := 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		layout.Load(b.table, b.view.Region, line, l)
		w.beyond = b.fillLine(l, hashes[i:end], w.beyond[:0])
		for _, h := range w.beyond { // the line does not have their overflow bits yet: round 0 sets them
			if err := w.homeless.add(h); err != nil {
				return err
			}
		}
		b.putLine(w, line)
		i = end
	}
	return nil
}

// fillLine does what Fill of layout.Hosts does, for any table.
func (b *builder) fillLine(l *layout.Line, hashes, beyond []uint64) []uint64 {
	if b.hosts != nil {
		return b.hosts.Fill(l, hashes, beyond)
	}
	for _, h := range hashes {
		if !b.table.Place(l, b.table.Split(h), nil) {
			beyond = append(beyond, h)
		}
	}
	return beyond
}
