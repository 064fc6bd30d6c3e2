//go:build !unix

package main

import (
	"errors"
	"os"
)

// This system has no signals that stop a process. (Files are not written on Windows either.)
func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
