package changes

import (
	"encoding/binary"
	"math/bits"
)

// A bitWriter appends bits to bytes. It fills each byte from the lowest bit on.
type bitWriter struct {
	bytes []byte
	rest  uint64 // bits that do not fill 8 bytes yet
	n     uint   // number of bits: less than 64
}

// put appends the width low bits of v. The other bits of v must be zero.
func (w *bitWriter) put(v uint64, width uint) {
	w.rest |= v << w.n
	if w.n+width < 64 {
		w.n += width
		return
	}
	w.bytes = binary.LittleEndian.AppendUint64(w.bytes, w.rest)
	w.rest = v >> (64 - w.n) // 0 if n is 0
	w.n = w.n + width - 64
}

// unary appends n ones and a zero.
func (w *bitWriter) unary(n uint64) {
	for ; n >= 32; n -= 32 {
		w.put(1<<32-1, 32)
	}
	w.put(1<<n-1, uint(n)+1)
}

// rice appends a number as a Rice code with the parameter k.
func (w *bitWriter) rice(v uint64, k uint) {
	w.unary(v >> k)
	w.put(v&(1<<k-1), k)
}

// elias appends a number of at least 1 as an Elias gamma code.
func (w *bitWriter) elias(v uint64) {
	n := uint(bits.Len64(v)) - 1
	w.unary(uint64(n))
	w.put(v&(1<<n-1), n)
}

// end fills the last byte with zeros, and returns all bytes.
func (w *bitWriter) end() []byte {
	for n := uint(0); n < w.n; n += 8 {
		w.bytes = append(w.bytes, byte(w.rest>>n))
	}
	return w.bytes
}

// A bitReader reads what a bitWriter wrote. After the end of the bytes it reads zeros, and sets over.
type bitReader struct {
	bytes []byte
	rest  uint64
	n     uint // bits of rest that have not been read
	over  bool
}

// get reads width bits.
func (r *bitReader) get(width uint) (v uint64) {
	for have := uint(0); have < width; {
		if r.n == 0 && !r.fill() {
			return v
		}
		n := min(width-have, r.n)
		v |= r.rest & (1<<n - 1) << have
		r.rest, r.n, have = r.rest>>n, r.n-n, have+n
	}
	return v
}

// fill takes the next 8 bytes, or as many as are left. It reports whether there were any.
func (r *bitReader) fill() bool {
	var b [8]byte
	n := copy(b[:], r.bytes)
	r.rest, r.n, r.bytes = binary.LittleEndian.Uint64(b[:]), 8*uint(n), r.bytes[n:]
	r.over = r.over || n == 0
	return n > 0
}

// unary reads the number of ones before a zero.
func (r *bitReader) unary() (n uint64) {
	for r.get(1) == 1 {
		n++
	}
	return n
}

// rice reads a Rice code. ok is false if the number has more than 64 bits.
func (r *bitReader) rice(k uint) (v uint64, ok bool) {
	n := r.unary()
	return n<<k | r.get(k), n<<k>>k == n
}

// elias reads an Elias gamma code. ok is false if the number has more than 64 bits.
func (r *bitReader) elias() (v uint64, ok bool) {
	n := uint(r.unary())
	if n > 63 {
		return 0, false
	}
	return 1<<n | r.get(n), true
}

// ended reports whether only zero bits follow, fewer than 8.
func (r *bitReader) ended() bool { return !r.over && len(r.bytes) == 0 && r.n < 8 && r.rest == 0 }
