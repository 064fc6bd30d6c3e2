package crashsim

// An arena is memory that is given back in the reverse order in which it was taken.
type arena[T any] struct {
	chunks [][]T
	taken  place // everything before it is taken
}

// A place is a place in an arena.
type place struct{ chunk, at int }

const arenaChunk = 1 << 15

// take returns a slice whose content is undefined.
func (a *arena[T]) take(n int) []T {
	p := &a.taken
	for ; ; *p = (place{p.chunk + 1, 0}) {
		if p.chunk == len(a.chunks) {
			a.chunks = append(a.chunks, make([]T, max(n, arenaChunk)))
		}
		if c := a.chunks[p.chunk]; p.at+n <= len(c) {
			p.at += n
			return c[p.at-n : p.at : p.at]
		}
	}
}

// untake gives back what the last take returned.
func (a *arena[T]) untake(n int) { a.taken.at -= n }
