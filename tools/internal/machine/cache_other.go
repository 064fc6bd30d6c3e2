//go:build !linux

package machine

import (
	"errors"
	"fmt"
	"runtime"
)

// DropCache works only on Linux.
func DropCache(string) error {
	return fmt.Errorf("drop a file from memory on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
