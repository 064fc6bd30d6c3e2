package pebbleguard

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// An opening tells whether a store was opened without a guard since a guard had it open.
//
// Whenever Pebble opens a store to write to it, Pebble writes an OPTIONS file with a greater
// number than all earlier files, and makes it durable before the store can be written to. With
// its first Write, the guard stores the number of the OPTIONS file of its own opening in an
// entry. So if this entry names the last OPTIONS file when the store is opened again, nobody else
// has opened the store to write to it. Pebble itself reads the last OPTIONS file while it has the
// store locked.
type opening struct {
	before uint64 // the OPTIONS file that Pebble has read, or 0
	now    uint64 // the number of the file that Pebble has written
}

// openingEntry is the key of the entry of an opening. It is in the range of the guard's own entries, so
// it is removed with them.
var openingEntry = []byte{0xfe}

// optionsNumber returns the number of an OPTIONS file, or 0 for another file.
func optionsNumber(name string) uint64 {
	digits, ok := strings.CutPrefix(name, "OPTIONS-")
	if !ok {
		return 0
	}
	n, _ := strconv.ParseUint(digits, 10, 64) // 0 if it is no number
	return n
}

// Rename is part of vfs.FS: Pebble writes an OPTIONS file under another name first.
func (w watchedFS) Rename(from, to string) error {
	if n := optionsNumber(w.PathBase(to)); n > 0 {
		w.store.opened.now = n
	}
	return w.FS.Rename(from, to)
}

// changes returns changes that set the entry. The first Write must make them; in later ones they do no
// harm.
func (o *opening) changes() guard.Changes {
	return guard.Changes{Set: []guard.Entry{{Key: openingEntry, Value: binary.LittleEndian.AppendUint64(nil, o.now)}}}
}

// Untouched implements guard.Watched.
func (s *store) Untouched() error {
	value, c, err := s.db.Get(s.key(openingEntry))
	if err == pebble.ErrNotFound {
		return guard.ErrTouched
	}
	if err != nil {
		return err
	}
	if before := s.opened.before; before == 0 || len(value) != 8 || binary.LittleEndian.Uint64(value) != before {
		err = guard.ErrTouched
	}
	return errors.Join(err, c.Close())
}
