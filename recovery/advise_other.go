//go:build !linux

package recovery

import (
	"errors"
	"os"
)

func mapFile(f *os.File, size int64, writable bool) (*Mapping, error) {
	return mapAnywhere(f, size, writable)
}

// AdviseRandom turns off reading ahead, where the system knows how to.
func (m *Mapping) AdviseRandom() error { return nil }

// Release gives the memory of the mapping back, where the system knows how to,
// and leaves its addresses valid.
func (m *Mapping) Release() {}

// leavePageTable is for Linux, see there.
func (m *Mapping) leavePageTable() {}

// readSmall is for Linux, see there.
func (m *Mapping) readSmall([]byte) {}

// ShrinkPages is for Linux, see there.
func (v *Files) ShrinkPages() (most bool) { return false }

func (m *Mapping) populate(b []byte) error { return touch(m.Data, b) }

// Resident gives how many bytes of the mapped file are in the page cache.
func (m *Mapping) Resident() (int64, error) { return 0, errors.ErrUnsupported }
