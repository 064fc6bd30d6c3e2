//go:build !linux

package measure

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// These commands take their figures from the Linux kernel.

func newShare() command     { return unsupported("share") }
func newResidency() command { return unsupported("residency") }
func newCold() command      { return unsupported("cold") }

func unsupported(name string) command {
	return command{
		flags: func(*session) {},
		run: func(*session) error {
			return fmt.Errorf("measure %s on %s: %w: it reads files in /proc that Linux has", name, runtime.GOOS, errors.ErrUnsupported)
		},
	}
}

var systemTasks map[string]task

func threadTime() time.Duration { return 0 }

// syncs cannot be observed from outside on this system.
func (l *lookups) syncs(*mmapfilter.Filter) error {
	l.printf("\nNOT MEASURED: lookups that are answered during an fdatasync: %s does not say which call a thread is in\n", runtime.GOOS)
	return nil
}
