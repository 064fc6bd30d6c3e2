//go:build !linux

package machine

import (
	"errors"
	"fmt"
	"runtime"
)

// SmallPages is what only Linux can be made to do.
func SmallPages(string) error {
	return fmt.Errorf("small pages on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
