package main

// A block is keys that are worked on together. It has copies of them: what an
// input gives is valid until the next key.
type block struct {
	limit int // keys of a full block; 0: blockKeys
	spans []span
	arena []byte // keys, texts and records; it moves as it grows, so spans are bounds
	list  [][]byte
}

// A span says where a key is in the arena, the text that it comes from, of which a
// carriage return may have been dropped, and the record of that.
type span struct{ key, keyEnd, text, textEnd, rawEnd, record, recordEnd, number int }

// A block is full with this many keys, or bytes in its arena.
const (
	blockKeys  = 1024
	blockBytes = 1 << 20
)

// add takes in a key, the text that it comes from, and the number of its record.
func (b *block) add(key, text []byte, number int) { b.addWhole(key, text, text, text, number) }

// addWhole takes in more: raw is the text as it stands in the file, in which text
// is the beginning, and record is all of the record.
func (b *block) addWhole(key, text, raw, record []byte, number int) {
	at := span{number: number}
	at.text, at.rawEnd = b.put(raw)
	at.textEnd = at.text + len(text)
	at.key, at.keyEnd = at.text, at.textEnd
	if !sameBytes(key, text) {
		at.key, at.keyEnd = b.put(key)
	}
	at.record, at.recordEnd = at.text, at.rawEnd
	if !sameBytes(raw, record) {
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

// raw gives the text as it stands in the file.
func (b *block) raw(i int) []byte { return b.arena[b.spans[i].text:b.spans[i].rawEnd] }

// setKey replaces key i, and says how much of the raw text it comes from.
func (b *block) setKey(i int, key []byte, textLen int) {
	at := &b.spans[i]
	at.textEnd = at.text + textLen
	at.key, at.keyEnd = b.put(key)
}

// record gives the record that key i comes from.
func (b *block) record(i int) []byte { return b.arena[b.spans[i].record:b.spans[i].recordEnd] }

func (b *block) clear() { b.spans, b.arena = b.spans[:0], b.arena[:0] }
