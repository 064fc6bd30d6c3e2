package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// An Output is a file that appears under its name once it is complete and durable. For a filter, use
// a [Draft].
type Output struct {
	*os.File
	path, begins string
	isNew        bool // Publish fails with fs.ErrExist if there is a file at the path
}

// NewOutput creates an empty file that will replace the file at path, if there is one. The old file
// must be empty or begin with begins; otherwise NewOutput or Publish returns a *ForeignError.
// NewOutput removes temporary files that dead processes have left for the same path.
func NewOutput(path, begins string) (*Output, error) {
	if err := Replaceable(path, begins); err != nil {
		return nil, err
	}
	RemoveStale(path)
	f, err := createBeside(path, 0o666)
	if err != nil {
		return nil, err
	}
	return &Output{File: f, path: path, begins: begins}, nil
}

// Publish makes the file durable and gives it its name. The Output cannot be used afterwards. If
// Publish fails, the file at the path is unchanged, unless the error says that the new file is
// complete.
func (o *Output) Publish() error {
	err := syncFile(o.File)
	if runtime.GOOS == "windows" { // Windows cannot rename an open file
		err = errors.Join(err, o.Close())
	}
	if err == nil { // still locked, so that no other process takes the file for a stale one
		err = o.rename()
	}
	o.Close() // closed already on Windows, or durable: no error matters
	if err != nil {
		return errors.Join(err, removeIfThere(o.Name()))
	}
	if err := SyncDir(filepath.Dir(o.path)); err != nil {
		return &CompleteError{o.path, "may not survive a power loss", err}
	}
	return nil
}

// rename gives the file its name.
func (o *Output) rename() error {
	if o.isNew {
		err := renameNew(o.Name(), o.path)
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
			return err
		} // the file system can neither rename without replacing nor make hard links
	} else if err := Replaceable(o.path, o.begins); err != nil {
		return err
	}
	return rename(o.Name(), o.path)
}

// Discard removes the file. It does nothing after Publish.
func (o *Output) Discard() error {
	o.Close() // closed already, or about to be removed
	return removeIfThere(o.Name())
}

// WriteFile creates a file with data. The file appears under its name complete, and may replace a file
// that begins with begins (see NewOutput).
func WriteFile(path, begins string, data []byte) error { return writeFile(path, begins, data, false) }

// WriteNewFile is WriteFile, but fails with fs.ErrExist if there is a file at the path. On a file
// system that has neither renameNew nor hard links, WriteNewFile is the same as WriteFile.
func WriteNewFile(path, begins string, data []byte) error { return writeFile(path, begins, data, true) }

func writeFile(path, begins string, data []byte, isNew bool) error {
	o, err := NewOutput(path, begins)
	if err != nil {
		return err
	}
	o.isNew = isNew
	if _, err := o.Write(data); err != nil {
		return errors.Join(err, o.Discard())
	}
	return o.Publish()
}
