package layout

import (
	"runtime"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A Shards looks keys up in the tables of a set, each in that of its shard (see [Shard]). The code for
// single keys hashes a key, and goes on with that of the table's Direct.
type Shards struct {
	Direct
	tables []atomic.Pointer[Direct]
	count  uint64

	// alike is the first table, without its file, which may go. A kernel for batches needs all to have
	// its kind and Params; what has others is left to Go.
	alike atomic.Pointer[Table]
}

// A shardsTable is a Table with a kernel for batches in sets.
type shardsTable interface {
	// FirstLooksInSet is FirstLooks for hashes of a set, whose tables have all but the number of
	// lines in common with this one.
	FirstLooksInSet(tables []atomic.Pointer[Direct], hashes []uint64, found []bool, open []uint8) (done int)
}

// NewShards returns the Shards for a set of count tables. Before the first lookup, Set must have given
// it each of them.
func NewShards(count int, h *Hasher) *Shards {
	s := &Shards{tables: make([]atomic.Pointer[Direct], count), count: uint64(count)}
	s.Direct = *NewDirect(nil, nil, h, func(hash uint64) bool {
		d, own := s.find(hash)
		return d.ContainsHash(own)
	})
	s.code = shardsCode()
	return s
}

// Set makes lookups look for the keys of a shard with d. Those under way may still use the one before,
// which the garbage collector keeps until they end.
func (s *Shards) Set(shard int, d *Direct) {
	if t := d.table; t != nil && !s.alike.CompareAndSwap(nil, &t) {
		if alike := *s.alike.Load(); alike.Kind() != t.Kind() || alike.Params() != t.Params() {
			d = NewDirect(nil, nil, d.hash, d.ContainsHash)
		}
	}
	s.tables[shard].Store(d)
}

// find returns the Direct for a hash, and what stands for the hash there.
func (s *Shards) find(hash uint64) (d *Direct, own uint64) {
	number, own := ShardOf(hash, uint32(s.count))
	return s.tables[number].Load(), own
}

// ContainsHashes sets found[i] to ContainsHash of hashes[i]. found must not be shorter than hashes. The
// passes are those of ContainsHashes of a table.
func (s *Shards) ContainsHashes(hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), lookupBlock)
		s.containsBlock(hashes[:n], found[:n])
		hashes, found = hashes[n:], found[n:]
	}
}

func (s *Shards) containsBlock(hashes []uint64, found []bool) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	open := b.open[:(len(hashes)+kernel.Group-1)/kernel.Group]
	clear(open)
	s.firstLooks(hashes, found, open)
	p := &b.places[0]
	kernel.EachBit(open, func(i int) {
		if d, own := s.find(hashes[i]); d.table != nil {
			d.table.Places(own, p)
			kernel.Prefetch(&d.view.Region[p.OtherFirst*BlockWords])
			runtime.KeepAlive(d)
		}
	})
	kernel.EachBit(open, func(i int) {
		d, own := s.find(hashes[i])
		if d.table == nil {
			found[i] = d.contains(own)
			return
		}
		d.table.Places(own, p)
		found[i] = containsBeyond(d.table, d.view, own, p)
		runtime.KeepAlive(d)
	})
}

// firstLooks is FirstLooks for a set. What is no table stays open.
func (s *Shards) firstLooks(hashes []uint64, found []bool, open []uint8) {
	done := 0
	if alike := s.alike.Load(); alike != nil {
		if t, ok := (*alike).(shardsTable); ok {
			done = t.FirstLooksInSet(s.tables, hashes, found, open)
		}
	}
	for i, asked := done, done; i < len(hashes); i++ {
		if (i-done)%prefetchBurst == 0 {
			for ; asked < min(i+prefetchAhead, len(hashes)); asked++ {
				if d, own := s.find(hashes[asked]); d.table != nil {
					first, n := d.table.Words(d.table.Split(own).Line)
					kernel.Prefetch(&d.view.Region[first])
					kernel.Prefetch(&d.view.Region[first+uint64(n)-1])
					runtime.KeepAlive(d)
				}
			}
		}
		d, own := s.find(hashes[i])
		isFound, isOpen := false, true
		if d.table != nil {
			isFound, isOpen = d.table.FirstLook(d.view, own)
			runtime.KeepAlive(d)
		}
		found[i] = isFound
		open[i/kernel.Group] |= bit(isOpen) << (i % kernel.Group)
	}
}
