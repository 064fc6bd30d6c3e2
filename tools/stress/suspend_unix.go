//go:build unix

package main

import (
	"os"
	"syscall"
)

// suspend stops a process.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume continues a process that was stopped.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
