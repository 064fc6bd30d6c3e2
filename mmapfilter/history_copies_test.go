package mmapfilter

import (
	"bytes"
	"errors"
	"testing/iotest"
)

// A replicaOf is a snapshot of a historian's filter, to which the historian applies changes.
type replicaOf struct {
	path string // "" if there is none
	at   Position
	gone bool // the file was replaced by more than a rebuild, so the changes may be gone
}

// snapshot makes a snapshot. It must have what the history means or, if there is no history, what the
// file has.
func (h *historian) snapshot() (path string, at Position) {
	path = h.newPath()
	at, err := h.f.Snapshot(h.Context(), path)
	if !h.shard && h.refused(err, "snapshot") { // a lost history is an error
		return "", at
	}
	h.note(err, "snapshot at %v", at)
	h.want(at == h.f.Position() && at.IsZero() == h.shard, "a snapshot at %v of a filter at %v", at, h.f.Position())
	h.checkCopy(path, at)
	return path, at
}

// checkCopy checks that a copy has the keys of the filter.
func (h *historian) checkCopy(path string, at Position) {
	_, err := Verify(h.Context(), path)
	f, err2 := OpenReadOnly(path, &OpenOptions{Checked: h.checked})
	h.note(errors.Join(err, err2), "open the copy at %v", at)
	defer f.Close()
	h.want(f.Position() == at && !f.Stats().KeepsHashes, "the copy is at %v", f.Position())
	if h.shard {
		h.want(f.Len() == h.f.Len(), "the copy of lines has %d items of %d", f.Len(), h.f.Len())
		h.check(f)
		return
	}
	copies := counts{}
	for key, times := range h.meaning { // also keys whose items stray deletes have removed
		copies[h.hashes[key]] = int64(len(times))
	}
	h.note(copies.in(f), "count the copies of all keys")
}

// change applies the changes since the last snapshot to it, twice, or makes a new snapshot. The changes
// are by hash or by class, and come from the writer or from a reader. They may be gone only if the file
// was replaced by something other than a rebuild.
func (h *historian) change() {
	if r := h.replica; r.path != "" {
		replica, err := Open(r.path, &OpenOptions{CommitInterval: -1})
		h.note(err, "open the replica")
		defer replica.Close()
		set, f, classes := new(bytes.Buffer), h.f, []Classes{{}, replica.Classes()}[h.rng.IntN(2)]
		if h.rng.IntN(3) == 0 {
			h.note(h.f.Checkpoint(h.Context()), "checkpoint")
			reader, err := OpenReadOnly(h.path, &OpenOptions{Checked: h.checked})
			h.note(err, "open a reader")
			defer reader.Close()
			f = reader
		}
		to, err := f.ChangesFor(h.Context(), set, r.at, classes)
		now := h.f.Position()
		switch {
		case h.refused(err, "changes"):
		case now.Descent != r.at.Descent:
			h.note(nil, "changes of another history: %v", err)
			h.want(errors.Is(err, ErrOtherDescent), "changes from %v to %v: %v", r.at, now, err)
		case errors.Is(err, ErrChangesGone):
			h.note(nil, "changes: %v", err)
			h.want(r.gone, "changes since %v: %v", r.at, err)
		default:
			h.note(err, "changes since %v", r.at)
			h.want(to == now, "they lead to %v, not %v", to, now)
			h.apply(replica, set.Bytes(), now)
		}
		if h.replica.at == now {
			h.replica.gone = false
			return
		}
	}
	path, at := h.snapshot()
	if at.IsZero() {
		path = ""
	}
	h.replica = replicaOf{path: path, at: at}
}

// apply applies changes to the replica twice, unless the replica has no room for them. After that, it
// may seal the replica, or go on with a copy of it.
func (h *historian) apply(f *Filter, set []byte, now Position) {
	before := h.replica.at
	for range 2 {
		at, err := f.Apply(h.Context(), iotest.HalfReader(bytes.NewReader(set)))
		if errors.Is(err, ErrFull) {
			break
		}
		h.want(err == nil && at == now, "apply up to %v: %v, at %v", now, err, at)
		h.replica.at = at
		if at != before {
			h.durableIn(f)
		}
	}
	if h.replica.at == now {
		switch h.rng.IntN(4) {
		case 0:
			h.note(f.Seal(h.Context()), "seal the replica")
		case 1:
			h.replica.path = h.newPath()
			at, err := f.Snapshot(h.Context(), h.replica.path)
			h.note(err, "copy the replica")
			h.want(at == now, "the copy is at %v, not %v", at, now)
		}
	}
	h.note(f.Close(), "close the replica")
	if h.replica.at == now {
		h.checkCopy(h.replica.path, now)
	}
}
