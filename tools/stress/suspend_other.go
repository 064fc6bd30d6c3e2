//go:build !unix

package main

import (
	"errors"
	"os"
)

// There are no signals here for a process to stand still. Nor are files written
// on Windows.
func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
