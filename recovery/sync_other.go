//go:build !linux

package recovery

import "os"

func syncLog(m *Mapping, f *os.File) error { return syncFilter(m, f) }
