package recovery

import (
	"fmt"
	"unsafe"
)

// Words returns the memory of b as 64-bit words. The length must be a multiple of 8,
// and the start aligned to 8 bytes, as every mapping is. The words have the byte order
// of the machine. A file needs the same byte order: see platform_bigendian.go.
func Words(b []byte) []uint64 {
	if len(b)%8 != 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		panic(fmt.Sprintf("recovery: %d bytes at %p are not words", len(b), b))
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// Bytes returns the memory of w as bytes.
func Bytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), len(w)*8)
}

// Address returns where b starts in memory, to locate a fault in it, and for a system
// call that no package wraps. The garbage collector must not move the memory, so it must
// be a mapping.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
