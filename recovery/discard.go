package recovery

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// DiscardLog makes a file whose writer has died usable without its log, which is missing or
// damaged, or is the log of another file. If the log is intact, DiscardLog recovers the file
// as [NewWriter] does and discards nothing.
//
// The filter then holds what the file happens to hold. Operations that were not committed
// are missing. After a power loss, any committed operation since the last checkpoint may be
// missing or half done, including moves of older items. So any key may be answered
// "certainly not". Length is counted anew, and the user sequence goes back to the last
// checkpoint. DiscardLog removes stash entries that no lookup would find, recomputes
// overflow bits if the table is a [layout.Hosts], and removes the logs, whatever they are.
// If a line breaks a rule of the format, it returns [layout.ErrCorrupt] and leaves the file
// as it is.
//
// If the filter has a history, the history gets another descent.
//
// After a crash, DiscardLog can be repeated.
func DiscardLog(vol Volume) (*Recovery, error) {
	w := &Writer{vol: vol, filter: vol.Filter()}
	r, damage := w.open()
	if !errors.Is(damage, layout.ErrCorrupt) {
		return r, damage
	}
	if w.geometry.Lines == 0 { // the superblocks themselves are damaged
		return nil, damage
	}
	table, view := layout.NewTable(w.geometry), layout.NewView(w.Words()[layout.WordRuntime:], w.geometry)
	inLines, line, err := table.CheckLines(view.Region, 0, w.geometry.Lines)
	if err != nil {
		return nil, &layout.CorruptError{Region: layout.RegionBuckets, Offset: w.geometry.LineOffset(line), Rule: "F10", What: fmt.Sprintf("line %d: %v", line, err)}
	}
	w.makeBits(table, &view) // before repairStash: overflow bits lead to stash entries
	inStash, err := w.repairStash(table, &view)
	if err != nil {
		return nil, err
	}
	w.makeBits(table, &view) // again after the stash has changed: some entries are gone
	w.evenCounters(view.Runtime)
	if epoch := view.Runtime[layout.RuntimeEpoch]; epoch&1 != 0 {
		w.storeRuntime(layout.RuntimeEpoch, layout.EpochAfter(epoch))
	}
	// After a failed sync, what the cache shows may be only in the cache; see BeginSeal.
	for word := uint64(layout.WordRuntime); word < uint64(len(w.Words())); word++ {
		w.put(word, w.Words()[word])
	}
	if w.kept.on = w.sb.KeepsHashes(); w.kept.on {
		w.kept.lose(errLost) // the log had some of them
	}
	w.length, w.userSeq, w.operation = inLines+inStash, w.sb.UserSeq(), w.sb.Kept().Counted(w.sb.Operation())
	w.history, w.lastTime = w.sb.Kept(), w.sb.LastTime()
	if w.sb.IsReplica() || w.sb.Follows() { // a replica of either kind now has the items of no position
		w.history.Followed, w.history.Set = layout.Position{}, layout.Departed
	}
	if err := w.syncRegion(); err != nil {
		return nil, err
	}
	next := w.next(layout.Clean)
	// With a new UUID, a log that turns up later belongs to another file.
	next.SetUUID(wal.NextUUID(w.sb.UUID(), w.vol.Random()))
	if next.Descent() != 0 { // at this position, copies of the file may have other keys
		next.SetDescent(w.vol.Random())
	}
	found := Recovery{
		Recovered: true, Discarded: true, UserSeq: w.userSeq, Operations: w.operation,
		Generation: w.sb.Generation(), LSN: w.sb.CheckpointLSN(), Length: w.length,
	}
	if err := w.syncNames(); err != nil { // as in recover
		return nil, err
	}
	if err := w.rest(&next); err != nil {
		return nil, err
	}
	return &found, nil
}

// makeBits recomputes the overflow bits of a table that is a layout.Hosts.
func (w *Writer) makeBits(t layout.Table, v *layout.View) {
	if hosts, ok := t.(layout.Hosts); ok {
		hosts.MakeBits(v, 0, t.Lines(), func(word, value uint64) { w.put(layout.WordRegion+word, value) })
	}
}

// repairStash removes the entries that break a rule of the stash and counts the items of the
// other entries. After an entry is removed, another entry may break a rule. So repairStash
// checks the stash again each time.
func (w *Writer) repairStash(t layout.Table, v *layout.View) (items uint64, err error) {
	for range layout.StashEntries + 1 {
		_, items, err = layout.CheckStash(t, v)
		bad := new(layout.CorruptError)
		if !errors.As(err, &bad) {
			return items, err
		}
		word := uint64(bad.Offset) / 8
		w.put(word+1, 0)
		w.put(word, layout.StashFree(word, w.Words()[word]))
	}
	return 0, err
}
