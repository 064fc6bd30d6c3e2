//go:build !unix

package main

import "os/exec"

// killTogether does nothing, because this system has no process groups. Only the command itself
// is killed.
func killTogether(*exec.Cmd) {}
