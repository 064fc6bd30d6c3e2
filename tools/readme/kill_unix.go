//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killTogether has all processes of a command killed with it.
func killTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
