//go:build !linux

package recovery

import "os"

// Warning says what the file system of f cannot promise to a writer; "" where
// nothing is known.
func Warning(*os.File) string { return "" }
