//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killTogether makes killing a command kill all of its processes.
func killTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
