package main

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A model is what a file should hold: the words of the keys, and the multiset that they
// come to.
type model struct {
	*process
	keys    *multiset.Multiset
	placeOf []multiset.Place // of each key that is in or may be changed
}

// newModel makes the classes of the keys in a file. They depend on its seed and
// its size. It is for a file at rest, or for its writer.
func (p *process) newModel(f *mmapfilter.Filter) (*model, error) {
	head, err := p.head()
	if err != nil {
		return nil, err
	}
	m := &model{process: p, keys: multiset.New(layout.NewTable(head.Geometry)), placeOf: make([]multiset.Place, keyCount)}
	var key []byte
	limit := int(p.get(wordLimit))
	uncertain := p.uncertain()
	for id := range m.placeOf {
		if id >= limit && stateOf(p.key(id)) == absent && !uncertain[id] {
			continue
		}
		key = appendKey(key[:0], p.seed, id)
		m.placeOf[id] = m.keys.Locate(f.Hash(key))
		if stateOf(p.key(id)).in() {
			m.put(id, 1)
		}
	}
	return m, nil
}

// head reads the superblocks of the file, beside readers that may recover it.
func (p *process) head() (*recovery.Head, error) {
	return retry(func() (*recovery.Head, error) {
		f, h, err := recovery.OpenFile(p.path)
		if err != nil {
			return nil, err
		}
		return h, f.Close()
	})
}

// put counts a key that comes in, or goes for -1.
func (m *model) put(id, n int) { m.keys.AddAt(m.placeOf[id], n) }

// copies counts the keys of the class of one, and of all its copies.
func (m *model) copies(id int) uint64 {
	c := m.keys.Class(m.placeOf[id].Class)
	return uint64(c.Sum())
}

// streamOf is the stream that changes a key. Those of a class have the same, so one stream
// tells in which order its copies came and went.
func (m *model) streamOf(id int) int {
	c := m.keys.Class(m.placeOf[id].Class).Seen[0]
	return int((c.Line + uint64(c.Fp)) % streams)
}

// uncertain are the keys whose operations have been issued, and have not returned.
func (p *process) uncertain() map[int]bool {
	keys := make(map[int]bool)
	for i := range streams {
		s := p.stream(i)
		for n := s.returned(); n < s.issued(); n++ {
			keys[s.op(n).id] = true
		}
	}
	return keys
}

// resolve finds out which of the operations that had not returned when a writer
// died have been done, and makes the words of the keys certain: the file has just
// been recovered, so what it has is durable. Every operation that returned must
// have been done (C2), none twice, and none that was not issued; of the others of a
// stream, some prefix. Those that were not done stay issued, for the next writer to
// repeat. resolve can be killed and run again.
func (m *model) resolve(f *mmapfilter.Filter) bool {
	done := m.get(wordBase) + f.DurableSeq() + f.DurableOps()
	returned, issued := m.returnedOps(), m.issuedOps()
	if done < returned || done > issued {
		m.violation("the file has %d operations (%d and %d after it); %d have returned, %d were issued", done, f.DurableSeq(), f.DurableOps(), returned, issued)
		return false
	}
	type uncertain struct {
		stream, n int
		op
	}
	var all []uncertain
	for i := range streams {
		s := m.stream(i)
		for n := s.returned(); n < s.issued(); n++ {
			o := s.op(n)
			all = append(all, uncertain{i, int(n), o})
			if stateOf(m.key(o.id)).in() { // what it counts for is to be seen
				m.put(o.id, -1)
			}
		}
	}
	ok := true
	missed := [streams]bool{}
	for _, u := range all {
		others := m.copies(u.id)
		n := f.Count(appendKey(nil, m.seed, u.id))
		if n != others && n != others+1 {
			m.violation("operation %d of stream %d, a %s, was under way; there are %d other keys of its class, and the file has %d", u.n, u.stream, u.op, others, n)
			ok = false
			continue
		}
		in := n > others
		if in {
			m.enter(u.id, synced)
		} else {
			m.enter(u.id, absent)
		}
		switch {
		case in == u.delete:
			missed[u.stream] = true
		case missed[u.stream]:
			m.violation("operation %d of stream %d, a %s, was done, and one before it was not", u.n, u.stream, u.op)
			ok = false
		default:
			m.stream(u.stream).done(1)
			returned++
		}
	}
	if ok && returned != done {
		m.violation("the file has %d operations (%d and %d after it), and %d were done", done, f.DurableSeq(), f.DurableOps(), returned)
		ok = false
	}
	m.keys.Clear()
	for id := range m.placeOf {
		m.settle(id)
		if stateOf(m.key(id)).in() {
			m.put(id, 1)
		}
	}
	if got := f.Len(); got != uint64(m.keys.Len()) {
		m.violation("%d keys, not %d", got, m.keys.Len())
		ok = false
	}
	return ok
}

// check asks for every key of the model, and counts some. Nothing may be under
// way.
func (m *model) check(f *mmapfilter.Filter) {
	m.count(countChecked, 1)
	keys, found := make([][]byte, 0, keyCount), make([]bool, keyCount)
	ids := make([]int, 0, keyCount)
	for id := range m.placeOf {
		if stateOf(m.key(id)).in() {
			keys, ids = append(keys, appendKey(nil, m.seed, id)), append(ids, id)
		}
	}
	f.ContainsBatch(keys, found)
	for i, id := range ids {
		if !found[i] {
			m.violation("key %d (%x) is in, and not found in a check of all", id, keys[i])
		}
	}
	for range 1000 {
		m.countOne(f, m.rng.IntN(int(m.get(wordLimit))))
	}
}

// countOne holds the count of a key against that of its class (C7).
func (m *model) countOne(f *mmapfilter.Filter, id int) {
	m.count(countCounts, 1)
	if want, got := m.copies(id), f.Count(appendKey(nil, m.seed, id)); got != want {
		m.violation("key %d counts %d, not %d; it is %s", id, got, want, stateOf(m.key(id)))
	}
}
