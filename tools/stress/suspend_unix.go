//go:build unix

package main

import (
	"os"
	"syscall"
)

// suspend has a process stand still.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume has it go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
