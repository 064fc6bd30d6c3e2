package changes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/crc32"
)

// resign gives the header and the blocks of a stream, as far as it has them, the right checks, so that a
// Reader comes to its other conditions.
func resign(b []byte) {
	if len(b) < headerBytes {
		return
	}
	check := crc32.Checksum(b[:headerBytes-4], castagnoli)
	binary.LittleEndian.PutUint32(b[headerBytes-4:], check)
	for b = b[headerBytes:]; len(b) >= blockHeader; {
		head := (*block)(b)
		size := min(int(head.field(1)), len(b)-blockHeader)
		check = head.check(b[blockHeader:][:size], check)
		binary.LittleEndian.PutUint32(b[12:], check)
		b = b[blockHeader+size:]
	}
}

// FuzzChanges reads any bytes, with their own checks or with right ones. Changes that a Reader accepts
// must ascend, must not be zero, and must be the same after they are written and read again.
func FuzzChanges(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	add := func(h Header, changes []Change) {
		var b bytes.Buffer
		w, err := NewWriter(&b, h)
		for _, c := range changes {
			if c.Times %= 1000; err == nil {
				err = w.Add(c)
			}
		}
		if err != nil || w.Close() != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), true)
		f.Add(b.Bytes(), false)
		f.Add(b.Bytes()[:b.Len()-blockHeader], true)
	}
	classes := testHeader
	classes.Classes = Classes{1000, 41 << 7}
	add(testHeader, nil)
	add(testHeader, some(rng, 20))
	add(classes, some(rng, 20))
	f.Fuzz(func(t *testing.T, b []byte, signed bool) {
		if signed {
			b = slices.Clone(b)
			resign(b)
		}
		h, changes, err := read(bytes.NewReader(b))
		for i, c := range changes {
			if c.Times == 0 || i > 0 && c.Hash <= changes[i-1].Hash {
				t.Fatalf("change %d is %+v", i, c)
			}
		}
		if err != nil {
			return
		}
		again, back, err := read(bytes.NewReader(write(t, h, changes)))
		if err != nil || again != h || !slices.Equal(back, changes) {
			t.Fatalf("%d changes became %d of %+v: %v", len(changes), len(back), again, err)
		}
		if len(b) > 0 {
			if _, _, err := read(bytes.NewReader(b[:len(b)-1])); !errors.Is(err, ErrCutOff) {
				t.Fatalf("cut off: %v", err)
			}
		}
	})
}
