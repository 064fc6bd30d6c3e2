//go:build !linux

package osfile

import (
	"errors"
	"os"
)

// AdviseRandom does nothing on this system.
func (m *Mapping) AdviseRandom() error { return nil }

// AdviseLarge does nothing on this system.
func (m *Mapping) AdviseLarge() {}

// ForgetHead does nothing on this system.
func (m *Mapping) ForgetHead(*os.File) {}

// AdviseSmall does nothing on this system.
func (m *Mapping) AdviseSmall() {}

// Release does nothing on this system.
func (m *Mapping) Release() {}

// leavePageTable does nothing on this system.
func (m *Mapping) leavePageTable(from, to int64) {}

// Resident returns errors.ErrUnsupported on this system.
func (m *Mapping) Resident() (int64, error) { return 0, errors.ErrUnsupported }
