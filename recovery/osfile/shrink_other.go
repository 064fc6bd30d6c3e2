//go:build !linux

package osfile

// ShrinkPages does nothing on this system.
func (v *Files) ShrinkPages() (rest func(hold func(step func())) (most bool)) {
	return func(func(func())) bool { return false }
}
