package guard

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// A place is a store in rows that several guards share. Each guard keeps its entries in a place of its
// own, but all keep the owner in the same place.
type place struct {
	*rows
	name string
}

func (p place) key(entry []byte) string {
	if string(entry) == OwnerKey {
		return "\x00" + OwnerKey
	}
	return "\x00" + p.name + string(entry)
}

func (p place) Entries() (entries []Entry, err error) {
	defer p.use()()
	for key, r := range p.rows.rows {
		switch {
		case key == p.key([]byte(OwnerKey)):
			entries = append(entries, Entry{[]byte(OwnerKey), []byte(r.value)})
		case len(key) > 1+len(p.name) && key[:1+len(p.name)] == "\x00"+p.name:
			entries = append(entries, Entry{[]byte(key[1+len(p.name):]), []byte(r.value)})
		}
	}
	return entries, nil
}

// in returns changes to the entries of all places.
func (p place) in(c Changes) (all Changes) {
	for _, r := range c.Remove {
		all.Remove = append(all.Remove, Range{append([]byte(p.name), r.From...), append([]byte(p.name), r.To...)})
	}
	for _, e := range c.Set {
		all.Set = append(all.Set, Entry{[]byte(p.key(e.Key)[1:]), e.Value})
	}
	return all
}

func (p place) Write(c Changes) error { return p.rows.Write(p.in(c)) }

func (p place) put(g *Guard, key string) {
	tx := g.Begin()
	tx.Put([]byte(key))
	p.commit(p.in(tx.Prepare()), key, true)
	tx.Done(Committed)
}

// A turn is a guard's turn to open a store.
type turn struct {
	place, path string
	covers      func([]byte) bool
	version     string
}

// TestOwner covers G6: guards with different entries, filters or keys open a store in turn, and each
// guard is closed or killed. No guard hides a key that another guard has put, and no filter is rebuilt
// without need.
func TestOwner(t *testing.T) {
	even := func(key []byte) bool { return key[len(key)-1]%2 == 0 }
	odd := func(key []byte) bool { return !even(key) }
	first := turn{"a", "f", nil, ""}
	for name, turns := range map[string][]turn{
		"another place":          {first, {"b", "g", nil, ""}},
		"three places":           {first, {"b", "g", nil, ""}, {"c", "h", nil, ""}},
		"fewer keys":             {first, {"a", "f", even, "even"}},
		"other keys":             {{"a", "f", odd, "odd"}, {"a", "f", even, "even"}},
		"other keys, no version": {{"a", "f", odd, ""}, {"a", "f", even, ""}},
		"fewer keys, no version": {first, {"a", "f", even, ""}},
	} {
		both(t, func(t *testing.T, deletes DeleteMode) {
			for _, killed := range []bool{false, true} {
				s, dir := newRows(), t.TempDir()
				for i := range 2*len(turns) + 1 {
					w := turns[i%len(turns)]
					o := quiet(t, deletes)
					o.Path, o.Covers, o.CoversVersion = filepath.Join(dir, w.path), w.covers, w.version
					for _, again := range []bool{false, true} { // the second time, the guard has its filter, if it can know that
						f := beginWith(t, s, place{s, w.place}, o)
						f.mustShow()
						if st := f.g.Stats(); again && (serving(st) && st.Rebuilds == 0) != (w.covers == nil || w.version != "") {
							t.Errorf("%s, killed %t: opened again: %+v", name, killed, st)
						}
						f.eventually("a filter", serving)
						f.mustShow()
						for k := range 20 {
							place{s, w.place}.put(f.g, fmt.Sprint(i, " ", k))
						}
						must(t, f.g.Sync())
						f.end(killed)
					}
					r, err := OpenReadOnly(place{s, "a"}, o)
					must(t, err)
					if keys := s.hidden(r); len(keys) > 0 {
						t.Errorf("%s, killed %t: %q is hidden from a reader", name, killed, keys)
					}
					must(t, r.Close())
				}
			}
		})
	}
}

// TestOwnerRemoved covers G6: a store has no owner, since it is from before guards had an owner, or
// because an engine has dropped all entries. The filter is rebuilt, unless its guard was closed after
// that, which sets the owner.
func TestOwnerRemoved(t *testing.T) {
	for _, when := range []string{"closed", "open, closed", "open, killed"} {
		f := begin(t, quiet(t, Exact))
		f.put("a")
		f.work()
		if when == "closed" {
			f.close()
		}
		f.commit(Changes{Remove: []Range{just([]byte(OwnerKey))}}, "b", true)
		if when != "closed" {
			f.commit(Changes{}, "b", false)
			f.end(when == "open, killed")
		}
		for _, again := range []bool{false, true} {
			f.open()
			f.mustShow()
			if st := f.g.Stats(); serving(st) != (again || when == "open, closed") && st.Rebuilds == 0 {
				t.Errorf("%s, again %t: %+v", when, again, st)
			}
			f.eventually("a filter", serving)
			f.mustShow()
			f.close()
		}
	}
}

// TestOwnerOfProgram covers G6: the program has something where the owner would be. Open refuses the
// store, and leaves it as it is.
func TestOwnerOfProgram(t *testing.T) {
	for _, open := range []func(Store, *Options) (*Guard, error){Open, OpenReadOnly} {
		s := newRows()
		s.commit(Changes{Set: []Entry{{[]byte(OwnerKey), []byte("mine")}}}, "a", true)
		if _, err := open(s, quiet(t, Exact)); !errors.Is(err, ErrReserved) || len(s.rows) != 2 || s.rows["\x00"+OwnerKey].value != "mine" {
			t.Errorf("%v: %v", err, s.rows)
		}
	}
}

// TestOwnerAtOnce covers G6: a kill ends a guard while its first filter is being built. The previous
// guard does not hide the keys that this guard has put.
func TestOwnerAtOnce(t *testing.T) {
	s := newRows()
	a := beginWith(t, s, place{s, "a"}, quiet(t, Exact))
	place{s, "a"}.put(a.g, "a")
	a.close()
	b := beginWith(t, s, place{s, "b"}, still(t, Exact)) // so nothing is built
	place{s, "b"}.put(b.g, "b")
	b.kill()
	a.open()
	a.mustShow()
	a.close()
}

// TestEntriesOfLongerPrefix covers G6: if the prefix of another guard begins with the prefix of this
// guard, this guard does not take the other's entries for its own, whatever letters follow.
func TestEntriesOfLongerPrefix(t *testing.T) {
	s := stamp{id: newIdentity(func() uint64 { return 1 }), mode: Exact, token: 1}
	own := []Entry{s.id.owner(), {entryKey(keyStamp), s.encode()}}
	if _, err := readState(own); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{keyStamp, keyOwner, keyFailed, keyTrimmed, keyInserts, keyLoose, keyDeletes} {
		for _, key := range []string{string(kind) + "essionss", string(kind) + "essions", string(kind) + "i12345678"} {
			if len(key) == 9 && (kind == keyInserts || kind == keyLoose || kind == keyDeletes) {
				continue // an entry of this guard may look like that
			}
			if _, err := readState(append(own[:2:2], Entry{[]byte(key), s.encode()})); err == nil || errors.Is(err, errFailed) {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
}
