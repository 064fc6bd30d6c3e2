//go:build !linux

package osfile

// renameNoReplace renames a file. It fails with fs.ErrExist if the new name is taken.
func renameNoReplace(from, to string) error { return linkNew(from, to) }
