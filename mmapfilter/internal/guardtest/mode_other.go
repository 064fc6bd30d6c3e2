//go:build !unix

package guardtest

import "testing"

// Mode is for systems whose files have permission bits.
func Mode(t *testing.T, _ Engine) { t.Skip("NOT TESTED: files have no permission bits here") }
