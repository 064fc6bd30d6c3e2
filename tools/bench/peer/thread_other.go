//go:build !linux

package peer

import "time"

func threadTime() time.Duration { return 0 }
