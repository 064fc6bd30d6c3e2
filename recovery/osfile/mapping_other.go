//go:build !linux

package osfile

import "os"

func mapFile(f *os.File, size int64, writable bool) (*Mapping, error) {
	return mapAnywhere(f, size, writable)
}
