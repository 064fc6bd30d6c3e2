//go:build !linux

package recovery

// renameNoReplace renames a file, and fails with fs.ErrExist where something
// stands under the new name.
func renameNoReplace(from, to string) error { return linkNew(from, to) }
