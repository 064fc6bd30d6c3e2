//go:build !linux

package recovery

import "os"

func syncLog(f *mappedFile) error { return syncFilter(f) }

func writeBack(*os.File) {}
