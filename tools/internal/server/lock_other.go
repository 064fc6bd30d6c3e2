//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package server

import (
	"errors"
	"os"
)

func lockDirectory(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func descriptors() int { return 256 }
