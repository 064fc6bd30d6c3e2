package guard

import (
	"sync"
	"sync/atomic"
)

// Incoming hashes are on their way into the filter. A lookup finds them here until the filter has
// them. Putting a hash here is cheap, and the filter takes many at once.
type incoming struct {
	waiting atomic.Int64 // hashes in the tables
	tables  [2]hashTable
	mu      struct {
		sync.Mutex
		active int         // the table that put uses
		lists  [2][]uint64 // the hashes in the tables
	}
	drains sync.Mutex // held while the inactive table has hashes
}

const (
	incomingSlots = 1 << 15           // of a table
	mostIncoming  = incomingSlots / 2 // so that a search soon meets an empty slot
	manyIncoming  = mostIncoming / 2  // at this many a drain is due; put has room until the drain begins
)

// A hashTable is a set of hashes other than 0, with linear probing. It is read without a lock.
type hashTable []atomic.Uint64

func (t hashTable) has(hash uint64) bool {
	for i := hash; ; i++ {
		switch t[i%incomingSlots].Load() {
		case hash:
			return true
		case 0:
			return false
		}
	}
}

// add adds a hash, unless it is there.
func (t hashTable) add(hash uint64) (added bool) {
	i := hash
	for ; ; i++ {
		switch t[i%incomingSlots].Load() {
		case hash:
			return false
		case 0:
			t[i%incomingSlots].Store(hash)
			return true
		}
	}
}

// clear empties all slots from the first slot of a hash to the next empty slot. Once it has been called
// for every hash of the table, the table is empty: a call that empties a slot between the first slot of
// a hash and the hash itself goes on, and removes the hash, too.
func (t hashTable) clear(hash uint64) {
	for i := hash; t[i%incomingSlots].Load() != 0; i++ {
		t[i%incomingSlots].Store(0)
	}
}

// has reports whether a hash is in a table. Call has before asking the filter.
func (in *incoming) has(hash uint64) bool {
	return in.waiting.Load() > 0 && (in.tables[0].has(hash) || in.tables[1].has(hash))
}

// put puts hashes into the active table. It returns the hashes for which the table has no room. many
// says that a drain has become due.
func (in *incoming) put(hashes []uint64) (rest []uint64, many bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.tables[0] == nil {
		in.tables = [2]hashTable{make(hashTable, incomingSlots), make(hashTable, incomingSlots)}
	}
	active := in.mu.active
	list := in.mu.lists[active]
	all, before := len(hashes), len(list)
	in.waiting.Add(int64(all)) // first, since a lookup reads the tables only if waiting is not 0
	for len(hashes) > 0 && len(list) < mostIncoming && hashes[0] != 0 {
		if in.tables[active].add(hashes[0]) {
			list = append(list, hashes[0])
		}
		hashes = hashes[1:]
	}
	in.mu.lists[active] = list
	in.waiting.Add(int64(len(list) - before - all))
	return hashes, before < manyIncoming && len(list) >= manyIncoming
}

// drain calls take with the hashes, and then removes them. If take fails, the hashes stay.
func (in *incoming) drain(take func(hashes []uint64) error) error {
	in.drains.Lock()
	defer in.drains.Unlock()
	in.mu.Lock()
	from := in.mu.active
	list := in.mu.lists[from]
	if len(list) > 0 {
		in.mu.active = 1 - from
	}
	in.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	if err := take(list); err != nil {
		return err
	}
	for _, h := range list {
		in.tables[from].clear(h)
	}
	in.waiting.Add(-int64(len(list)))
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.lists[from] = list[:0]
	return nil
}
