//go:build faults

package mistake

// Possible says whether this program can make mistakes.
const Possible = true

// Current is the mistake that is made. It must not change while anything runs.
var Current Mistake

// Made reports whether mistake m is to be made.
func Made(m Mistake) bool { return m == Current }
