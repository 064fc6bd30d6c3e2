//go:build !windows

package osfile

import "os"

// openDir opens a directory so that the names in it can be made durable.
func openDir(path string) (*os.File, error) { return os.Open(path) }
