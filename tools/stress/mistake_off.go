//go:build !faults

package main

import "flag"

// No mistakes can be made without the tag "faults": see package mistake.
func mistakeFlag(*flag.FlagSet) {}
func mistakeArgs() []string     { return nil }
