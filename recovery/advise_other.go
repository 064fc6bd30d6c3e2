//go:build !linux

package recovery

import (
	"errors"
	"os"
)

func mapFile(f *os.File, size int64, writable bool) (*Mapping, error) {
	return mapAnywhere(f, size, writable)
}

// AdviseRandom does nothing on this system.
func (m *Mapping) AdviseRandom() error { return nil }

// AdviseLarge does nothing on this system.
func (m *Mapping) AdviseLarge() {}

// AdviseSmall does nothing on this system.
func (m *Mapping) AdviseSmall() {}

// Release does nothing on this system.
func (m *Mapping) Release() {}

// leavePageTable does nothing on this system.
func (m *Mapping) leavePageTable(from, to int64) {}

// readSmall does nothing on this system.
func (m *Mapping) readSmall([]byte) {}

// ShrinkPages does nothing on this system.
func (v *Files) ShrinkPages() (most bool) { return false }

func (m *Mapping) populate(b []byte) error { return touch(m.Data, b) }

// Resident returns errors.ErrUnsupported on this system.
func (m *Mapping) Resident() (int64, error) { return 0, errors.ErrUnsupported }
