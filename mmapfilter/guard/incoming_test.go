package guard

import (
	"sync"
	"testing"
)

// TestIncoming covers G1: once put has returned, a hash is always found, in the incoming hashes or
// in the filter.
func TestIncoming(t *testing.T) {
	var in incoming
	var filter sync.Map
	const workers, each = 4, 20_000
	var group, drains sync.WaitGroup
	ended := make(chan struct{})
	drain := func() {
		if err := in.drain(func(hashes []uint64) error {
			for _, h := range hashes {
				filter.Store(h, true)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	found := func(h uint64) bool {
		if in.has(h) {
			return true
		}
		_, ok := filter.Load(h)
		return ok
	}
	drains.Add(1)
	go func() {
		defer drains.Done()
		for {
			select {
			case <-ended:
				return
			default:
				drain()
			}
		}
	}()
	for w := range uint64(workers) {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range uint64(each) {
				h := (i*workers + w) * 0x9e3779b97f4a7c15
				h &^= 0xff << (i % 8) // makes long runs of used slots, and some hashes equal
				rest, _ := in.put([]uint64{h, h})
				for _, h := range rest {
					filter.Store(h, true)
				}
				if !found(h) {
					t.Errorf("hash %x is not found", h)
				}
			}
		}()
	}
	group.Wait()
	close(ended)
	drains.Wait()
	drain()
	drain()
	if n := in.waiting.Load(); n != 0 {
		t.Errorf("%d hashes are left", n)
	}
	for i := range in.tables {
		for j := range in.tables[i] {
			if h := in.tables[i][j].Load(); h != 0 {
				t.Fatalf("hash %x is left in table %d", h, i)
			}
		}
	}
}

// TestIncomingIsBounded checks that there is room for mostIncoming hashes, and for no more.
func TestIncomingIsBounded(t *testing.T) {
	var in incoming
	hashes := make([]uint64, mostIncoming+10)
	for i := range hashes {
		hashes[i] = uint64(i) + 1
	}
	rest, many := in.put(hashes)
	if len(rest) != 10 || !many || in.waiting.Load() != mostIncoming {
		t.Errorf("%d hashes have no room, %d wait; many %t", len(rest), in.waiting.Load(), many)
	}
	if rest, _ := in.put([]uint64{0}); len(rest) != 1 {
		t.Error("hash 0 is taken in, though no table can have it")
	}
}
