//go:build !linux

package recovery

// ShrinkPages does nothing on this system.
func (v *Files) ShrinkPages() (most bool) { return false }
