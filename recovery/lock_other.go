//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly && !windows

package recovery

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }
