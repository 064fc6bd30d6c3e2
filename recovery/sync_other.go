//go:build !linux

package recovery

func syncLog(f *mappedFile) error { return syncFilter(f) }
