package guard

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// A place is a store in rows that several guards share. Each of them has its entries in a place of its
// own; all have the owner in the same one.
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
	for key, value := range p.rows.rows {
		switch {
		case key == p.key([]byte(OwnerKey)):
			entries = append(entries, Entry{[]byte(OwnerKey), []byte(value)})
		case len(key) > 1+len(p.name) && key[:1+len(p.name)] == "\x00"+p.name:
			entries = append(entries, Entry{[]byte(key[1+len(p.name):]), []byte(value)})
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

// TestOwner covers G6: guards with other entries, other filters or for other keys open a store in turns,
// and each is closed or killed. None hides a key of another one, and none is rebuilt without need.
func TestOwner(t *testing.T) {
	even := func(key []byte) bool { return key[len(key)-1]%2 == 0 }
	odd := func(key []byte) bool { return !even(key) }
	type guarded struct {
		place, path string
		covers      func([]byte) bool
		version     string
	}
	first := guarded{"a", "f", nil, ""}
	for name, turns := range map[string][]guarded{
		"another place":          {first, {"b", "g", nil, ""}},
		"three places":           {first, {"b", "g", nil, ""}, {"c", "h", nil, ""}},
		"fewer keys":             {first, {"a", "f", even, "even"}},
		"other keys":             {{"a", "f", odd, "odd"}, {"a", "f", even, "even"}},
		"other keys, no version": {{"a", "f", odd, ""}, {"a", "f", even, ""}},
		"fewer keys, no version": {first, {"a", "f", even, ""}},
	} {
		for _, deletes := range []DeleteMode{Exact, Rebuild} {
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, deletes, killed), func(t *testing.T) {
					s, dir := newRows(), t.TempDir()
					open := func(w guarded) (place, *Guard) {
						p := place{s, w.place}
						o := testOptions(t, deletes)
						o.Path, o.Covers, o.CoversVersion = filepath.Join(dir, w.path), w.covers, w.version
						g, err := Open(p, o)
						must(t, err)
						return p, g
					}
					end := func(g *Guard) {
						if !killed {
							must(t, g.Close())
							return
						}
						must(t, g.Sync())
						g.end()
						g.background.Wait()
						must(t, g.filter.Close()) // no more than that
					}
					for i := range 2*len(turns) + 1 {
						w := turns[i%len(turns)]
						p, g := open(w)
						p.mustShow(t, g)
						eventually(t, g, "a filter", func(st Stats) bool { return st.State == "serving" })
						p.mustShow(t, g)
						for k := range 20 {
							p.put(g, fmt.Sprint(i, " ", k))
						}
						end(g)
						// The same guard again: it has its filter, if it can know.
						p, g = open(w)
						p.mustShow(t, g)
						if st := g.Stats(); (st.State == "serving") != (w.covers == nil || w.version != "") {
							t.Errorf("opened again: %+v", st)
						}
						eventually(t, g, "a filter", func(st Stats) bool { return st.State == "serving" })
						p.mustShow(t, g)
						end(g)
						r, err := OpenReadOnly(place{s, "a"}, g.options)
						must(t, err)
						s.mustShow(t, r)
						must(t, r.Close())
					}
				})
			}
		}
	}
}

// TestOwnerOfBefore covers G6: a store that no guard is the owner of has its filter rebuilt once.
func TestOwnerOfBefore(t *testing.T) {
	s, o := newRows(), testOptions(t, Exact)
	g, err := Open(s, o)
	must(t, err)
	s.put(g, "a")
	must(t, g.Close())
	s.commit(Changes{Remove: []Range{just([]byte(OwnerKey))}}, "b", true)
	for _, want := range []uint64{1, 0} {
		g, err = Open(s, o)
		must(t, err)
		s.mustShow(t, g)
		eventually(t, g, "a filter", func(st Stats) bool { return st.State == "serving" })
		if st := g.Stats(); st.Rebuilds != want {
			t.Errorf("%+v", st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}

// TestOwnerOfProgram covers G6: the program has something where the owner would be. Open refuses that,
// and leaves it as it is.
func TestOwnerOfProgram(t *testing.T) {
	for _, open := range []func(Store, *Options) (*Guard, error){Open, OpenReadOnly} {
		s, o := newRows(), testOptions(t, Exact)
		s.commit(Changes{Set: []Entry{{[]byte(OwnerKey), []byte("mine")}}}, "a", true)
		if _, err := open(s, o); !errors.Is(err, ErrReserved) {
			t.Error(err)
		}
		if len(s.rows) != 2 || s.rows["\x00"+OwnerKey] != "mine" {
			t.Errorf("%q", s.rows)
		}
	}
}

// TestOwnerAtOnce covers G6: a kill ends a guard while its first filter is being built. The keys that it
// has put are known to the guard of before.
func TestOwnerAtOnce(t *testing.T) {
	s, o := newRows(), testOptions(t, Exact)
	a, err := Open(place{s, "a"}, o)
	must(t, err)
	place{s, "a"}.put(a, "a")
	must(t, a.Close())
	other := testOptions(t, Exact)
	other.Hooks = newGuard(nil, other).hooks()
	other.Hooks.Manual = true // so nothing is built
	b, err := Open(place{s, "b"}, other)
	must(t, err)
	place{s, "b"}.put(b, "b")
	must(t, b.filter.Close()) // no more than that
	b.end()
	a, err = Open(place{s, "a"}, o)
	must(t, err)
	s.mustShow(t, a)
	must(t, a.Close())
}

// TestOwnerDropped has the owner removed with other entries while a guard has the store open, as when
// an engine drops all keys. The guard is the owner again when it is closed, but not after a kill.
func TestOwnerDropped(t *testing.T) {
	for _, killed := range []bool{false, true} {
		s, o := newRows(), testOptions(t, Exact)
		g, err := Open(s, o)
		must(t, err)
		s.put(g, "a")
		must(t, g.Work())
		s.commit(Changes{Remove: []Range{just([]byte(OwnerKey))}}, "a", true)
		if killed {
			must(t, g.filter.Close()) // no more than that
			g.end()
			g.background.Wait()
		} else {
			must(t, g.Close())
		}
		g, err = Open(s, o)
		must(t, err)
		if st := g.Stats(); (st.State == "serving") == killed {
			t.Errorf("killed: %t; %+v", killed, st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}

// TestEntriesOfLongerPrefix covers G6: the entries of a guard whose prefix goes on where this one's ends
// are not taken for its own, whatever letters follow.
func TestEntriesOfLongerPrefix(t *testing.T) {
	s := stamp{id: newIdentity(func() uint64 { return 1 }), mode: Exact, token: 1}
	own := []Entry{s.id.owner(), {entryKey(keyStamp), s.encode()}}
	if _, err := readState(own); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []byte{keyStamp, keyOwner, keyFailed, keyTrimmed, keyInserts, keyLoose, keyDeletes} {
		for _, key := range []string{string(kind) + "essionss", string(kind) + "essions", string(kind) + "i12345678"} {
			if len(key) == 9 && (kind == keyInserts || kind == keyLoose || kind == keyDeletes) {
				continue // one of its own looks so
			}
			if _, err := readState(append(own[:2:2], Entry{[]byte(key), s.encode()})); err == nil || errors.Is(err, errFailed) {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
}
