package main

import "golang.org/x/sys/unix"

// faultsSoFar returns the page faults of this process.
func faultsSoFar() int64 {
	var usage unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &usage)
	return usage.Minflt + usage.Majflt
}
