//go:build !unix

package main

import "os/exec"

// killTogether leaves it at the process itself, where there are no process groups.
func killTogether(*exec.Cmd) {}
