//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package recovery

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

// Locked cannot tell.
func Locked(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func unlock(*os.File) error { return nil }

func serve(*os.File) error { return nil }

// Served cannot tell.
func Served(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// lockDraft says that a temporary file is being made: with the writer lock.
func lockDraft(f *os.File) error { return lock(f) }
