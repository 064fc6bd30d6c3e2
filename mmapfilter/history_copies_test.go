package mmapfilter

import (
	"bytes"
	"errors"
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
	h.want(f.Len() == uint64(h.meaning.len()), "the copy has %d items, not %d", f.Len(), h.meaning.len())
	for key, times := range h.meaning { // also keys whose items stray deletes have removed
		n := f.Count(h.keys[key])
		h.want(n >= uint64(len(times)) && (len(times) == 0 || f.Contains(h.keys[key])), "the copy has key %d %d times, not %d times", key, n, len(times))
	}
}

// change applies the changes since the last snapshot to it, twice, or makes a new snapshot. The changes
// may be gone only if the file was replaced by something other than a rebuild.
func (h *historian) change() {
	if r := h.replica; r.path != "" {
		set := new(bytes.Buffer)
		to, err := h.f.Changes(h.Context(), set, r.at)
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
			h.apply(set.Bytes(), now)
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

// apply applies changes to the replica twice, unless the replica has no room for them.
func (h *historian) apply(set []byte, now Position) {
	f, err := Open(h.replica.path, &OpenOptions{CommitInterval: -1})
	h.note(err, "open the replica")
	for range 2 {
		at, err := f.Apply(h.Context(), bytes.NewReader(set))
		if errors.Is(err, ErrFull) {
			break
		}
		h.want(err == nil && at == now, "apply up to %v: %v, at %v", now, err, at)
		h.replica.at = at
	}
	h.note(f.Close(), "close the replica")
	if h.replica.at == now {
		h.checkCopy(h.replica.path, now)
	}
}
