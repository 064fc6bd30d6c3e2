package main

// A block is a group of keys that are processed together. It copies the keys, because an
// input yields keys that are valid only until the next one.
type block struct {
	limit int // keys in a full block; 0 means blockKeys
	spans []span
	arena []byte // keys, texts and records; spans hold offsets because it moves as it grows
	list  [][]byte
}

// A span says where the arena has a key, the text that the key comes from, with and without its
// carriage return, and the record of that text; and it has the number of the record.
type span struct{ key, keyEnd, text, textEnd, rawEnd, record, recordEnd, number int }

// A block is full when it has this many keys or its arena this many bytes.
const (
	blockKeys  = 1024
	blockBytes = 1 << 20
)

// take adds the key that an input has yielded, with its text and its record.
func (b *block) take(key []byte, in *input) {
	at := span{number: in.number}
	at.text, at.rawEnd = b.put(in.raw)
	at.textEnd = at.text + len(in.text) // a prefix of raw
	at.key, at.keyEnd = at.text, at.textEnd
	if !sameBytes(key, in.text) {
		at.key, at.keyEnd = b.put(key)
	}
	at.record, at.recordEnd = at.text, at.rawEnd
	if in.whole && !sameBytes(in.raw, in.record) {
		at.record, at.recordEnd = b.put(in.record)
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

// keys returns the keys of the block, valid until clear.
func (b *block) keys() [][]byte {
	b.list = b.list[:0]
	for _, at := range b.spans {
		b.list = append(b.list, b.arena[at.key:at.keyEnd])
	}
	return b.list
}

// text returns the text that key i comes from.
func (b *block) text(i int) []byte { return b.arena[b.spans[i].text:b.spans[i].textEnd] }

// raw returns the text of key i, with its carriage return if it has one.
func (b *block) raw(i int) []byte { return b.arena[b.spans[i].text:b.spans[i].rawEnd] }

// setKey replaces key i, and sets the length of its text, a prefix of the raw text.
func (b *block) setKey(i int, key []byte, textLen int) {
	at := &b.spans[i]
	at.textEnd = at.text + textLen
	at.key, at.keyEnd = b.put(key)
}

// record returns the record that key i comes from.
func (b *block) record(i int) []byte { return b.arena[b.spans[i].record:b.spans[i].recordEnd] }

func (b *block) clear() { b.spans, b.arena = b.spans[:0], b.arena[:0] }
