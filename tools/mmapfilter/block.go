package main

// A block is keys that are worked on together. It has copies of them: what an
// input gives is valid until the next key.
type block struct {
	limit int // keys of a full block; 0: blockKeys
	spans []span
	arena []byte // keys, texts and records; it moves as it grows, so spans are bounds
	list  [][]byte
}

// A span says where a key, the text that it comes from, and the record of that
// are in the arena.
type span struct{ key, keyEnd, text, textEnd, record, recordEnd, number int }

// A block is full with this many keys, or bytes in its arena.
const (
	blockKeys  = 1024
	blockBytes = 1 << 20
)

// add takes in a key, the text that it comes from, and the number of its record.
func (b *block) add(key, text []byte, number int) { b.addWhole(key, text, text, number) }

// addWhole takes in the record as well.
func (b *block) addWhole(key, text, record []byte, number int) {
	at := span{number: number}
	at.key, at.keyEnd = b.put(key)
	at.text, at.textEnd = at.key, at.keyEnd
	if !sameBytes(key, text) {
		at.text, at.textEnd = b.put(text)
	}
	at.record, at.recordEnd = at.text, at.textEnd
	if !sameBytes(text, record) {
		at.record, at.recordEnd = b.put(record)
	}
	b.spans = append(b.spans, at)
}

// put copies bytes into the arena.
func (b *block) put(bytes []byte) (start, end int) {
	start = len(b.arena)
	b.arena = append(b.arena, bytes...)
	return start, len(b.arena)
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

// text gives the text that key i comes from.
func (b *block) text(i int) []byte { return b.arena[b.spans[i].text:b.spans[i].textEnd] }

// record gives the record that key i comes from.
func (b *block) record(i int) []byte { return b.arena[b.spans[i].record:b.spans[i].recordEnd] }

func (b *block) clear() { b.spans, b.arena = b.spans[:0], b.arena[:0] }
