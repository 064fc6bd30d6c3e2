package main

// A block is keys that are worked on together. It has copies of them: what an
// input gives is valid until the next key.
type block struct {
	limit int // keys of a full block; 0: blockKeys
	spans []span
	arena []byte // keys and texts; it moves as it grows, so spans are bounds
	list  [][]byte
}

// A span says where a key, and the text that it comes from, are in the arena.
type span struct{ key, keyEnd, text, textEnd, number int }

// A block is full with this many keys, or bytes in its arena.
const (
	blockKeys  = 1024
	blockBytes = 1 << 20
)

// add takes in a key, the text that is to be printed for it, and the number of
// its record.
func (b *block) add(key, text []byte, number int) {
	at := span{key: len(b.arena), number: number}
	b.arena = append(b.arena, key...)
	at.keyEnd = len(b.arena)
	at.text, at.textEnd = at.key, at.keyEnd
	if !sameBytes(key, text) {
		at.text = len(b.arena)
		b.arena = append(b.arena, text...)
		at.textEnd = len(b.arena)
	}
	b.spans = append(b.spans, at)
}

// sameBytes reports whether two slices are the same memory.
func sameBytes(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func (b *block) full() bool {
	limit := b.limit
	if limit == 0 {
		limit = blockKeys
	}
	return len(b.spans) >= limit || len(b.arena) >= blockBytes
}

// keys gives the keys of the block, valid until clear.
func (b *block) keys() [][]byte {
	b.list = b.list[:0]
	for _, at := range b.spans {
		b.list = append(b.list, b.arena[at.key:at.keyEnd])
	}
	return b.list
}

// text gives what is to be printed for key i.
func (b *block) text(i int) []byte { return b.arena[b.spans[i].text:b.spans[i].textEnd] }

func (b *block) clear() { b.spans, b.arena = b.spans[:0], b.arena[:0] }
