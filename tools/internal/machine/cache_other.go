//go:build !linux

package machine

import (
	"errors"
	"fmt"
	"runtime"
)

// SmallPages works only on Linux.
func SmallPages(string) error {
	return fmt.Errorf("small pages on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
