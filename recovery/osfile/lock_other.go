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
