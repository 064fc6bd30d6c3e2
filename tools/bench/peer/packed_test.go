package peer

import (
	"math/rand/v2"
	"testing"
)

func TestPacked(t *testing.T) {
	for width := 1; width <= 64; width++ {
		const n = 131
		rng := rand.New(rand.NewPCG(uint64(width), 1))
		p := newPacked(n, width)
		var want [n]uint64
		for range 2000 {
			i, v := rng.IntN(n), rng.Uint64()>>(64-width)
			p.set(uint64(i), v)
			want[i] = v
		}
		for i, v := range want {
			if got := p.get(uint64(i)); got != v {
				t.Fatalf("width %d: value %d is %#x, want %#x", width, i, got, v)
			}
		}
	}
}
