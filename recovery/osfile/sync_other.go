//go:build !linux

package osfile

import "os"

func syncLog(m *Mapping, f *os.File) error { return syncFilter(m, f) }

// beginSync does nothing: these systems begin to write a file when they like, or with a sync.
func beginSync(*os.File) {}
