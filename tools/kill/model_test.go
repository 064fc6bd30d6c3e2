//go:build unix

package kill

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A model is what a file should hold: the words of the keys, and the multiset of the keys that
// are in.
type model struct {
	*process
	keys    *multiset.Multiset
	placeOf []multiset.Place // of each key that is in the filter or may be inserted
}

// newModel returns the model of a file. The seed and the size of the file decide the classes of the
// keys. The file must be at rest, or open for writing in this process.
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

// head reads the superblocks of the file. It tries again while a reader recovers the file.
func (p *process) head() (*osfile.Head, error) {
	return retry(func() (*osfile.Head, error) {
		f, h, err := osfile.OpenFile(p.path)
		if err != nil {
			return nil, err
		}
		return h, f.Close()
	})
}

// put adds a key to the multiset if n is 1, and removes it if n is -1.
func (m *model) put(id, n int) { m.keys.AddAt(m.placeOf[id], n) }

// copies returns the number of keys in the multiset that have the class of a key.
func (m *model) copies(id int) uint64 {
	c := m.keys.Class(m.placeOf[id].Class)
	return uint64(c.Sum())
}

// streamOf returns the stream that changes a key. All keys of a class have the same stream, so that
// their operations have an order. A rebuild changes the classes. So streams do not depend on classes if
// a file keeps its hashes; then its rate is so low that hardly any two keys have the same class.
func (m *model) streamOf(id int) int {
	if m.keeps() {
		return same(id) % streams
	}
	c := m.keys.Class(m.placeOf[id].Class).Seen[0]
	return int((c.Line + uint64(c.Fp)) % streams)
}

// uncertain returns the keys whose operations were issued and have not returned.
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

// resolve finds out which operations were done of those that had not returned when a writer died. Then
// it makes the states of the keys certain, since all in a file that was just recovered is durable. Every
// operation that returned must have been done (C2), none twice, and none that was not issued. Of the
// others in a stream, a prefix may have been done. The rest stay issued, and the next writer repeats
// them. resolve can be killed and run again.
func (m *model) resolve(f *mmapfilter.Filter) bool {
	done := f.DurableSeq() + f.DurableOps()
	returned, issued := m.returnedOps(), m.issuedOps()
	if done < returned || done > issued {
		m.violation("the file has %d operations (user sequence %d, and %d after it); %d have returned, %d were issued", done, f.DurableSeq(), f.DurableOps(), returned, issued)
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
			if stateOf(m.key(o.id)).in() { // the loop below finds out whether the key is in
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
		m.violation("the file has %d operations (user sequence %d, and %d after it), and %d were done", done, f.DurableSeq(), f.DurableOps(), returned)
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
		m.violation("the file has %d keys, not %d", got, m.keys.Len())
		ok = false
	}
	return ok
}

// check looks up every key of the model, and checks the Count of some. No operation may be in progress.
func (m *model) check(f *mmapfilter.Filter) {
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
			m.violation("key %d (%x) is in the model, but a check of all keys does not find it", id, keys[i])
		}
	}
	for range 1000 {
		m.countOne(f, m.rng.IntN(int(m.get(wordLimit))))
	}
}

// countOne compares the Count of a key with the number of keys of its class in the model (C7).
func (m *model) countOne(f *mmapfilter.Filter, id int) {
	if want, got := m.copies(id), f.Count(appendKey(nil, m.seed, id)); got != want {
		m.violation("key %d has the Count %d, not %d; it is %s", id, got, want, stateOf(m.key(id)))
	}
}
