//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package osfile

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

// Locked returns errors.ErrUnsupported on this system.
func Locked(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File) error { return nil }

func serve(*os.File) error { return nil }

// Served returns errors.ErrUnsupported on this system.
func Served(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// lockDraft marks a temporary file as being made, with the writer lock.
func lockDraft(f *os.File) error { return lock(f) }
