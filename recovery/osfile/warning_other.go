//go:build !linux

package osfile

import "os"

// Warning says what the file system of f cannot promise to a writer. It returns "": no
// limit is known on this system.
func Warning(*os.File) string { return "" }
