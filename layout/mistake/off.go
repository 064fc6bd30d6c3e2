//go:build !faults

package mistake

// Possible says whether this program can make mistakes.
const Possible = false

// Made reports whether mistake m is to be made: never.
func Made(Mistake) bool { return false }
