//go:build !linux

package osfile

import (
	"context"
	"errors"
	"math"
	"os"
)

func mapFile(f *os.File, size int64, writable bool) (*Mapping, error) {
	return mapAnywhere(f, size, writable)
}

// AdviseRandom does nothing on this system.
func (m *Mapping) AdviseRandom() error { return nil }

// AdviseLarge does nothing on this system.
func (m *Mapping) AdviseLarge() {}

// ForgetHead does nothing on this system.
func (m *Mapping) ForgetHead(*os.File) {}

// AdviseSmall does nothing on this system.
func (m *Mapping) AdviseSmall() {}

// Release does nothing on this system.
func (m *Mapping) Release() {}

// leavePageTable does nothing on this system.
func (m *Mapping) leavePageTable(from, to int64) {}

// Resident returns errors.ErrUnsupported on this system.
func (m *Mapping) Resident() (int64, error) { return 0, errors.ErrUnsupported }

func (m *Mapping) populate(b []byte) error { return touch(m.Data, b) }

// readSmall does nothing on this system.
func (m *Mapping) readSmall([]byte) {}

// DropLargePages does nothing on this system.
func (v *Files) DropLargePages(int64) (next, dropped int64) { return 0, 0 }

func allocate(_ context.Context, f *os.File, size int64) error { return writeZeros(f, size, zeroStep) }

// allocateAgain extends a file with content to size. If the file is already that long, holes stay,
// since the system does not say where they are.
func allocateAgain(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	return rewrite(f, size)
}

func syncLog(m *Mapping, f *os.File) error { return syncFilter(m, f) }

// beginSync does nothing: these systems begin to write a file when they like, or with a sync.
func beginSync(*os.File) {}

// renameNoReplace renames a file. It fails with fs.ErrExist if the new name is taken.
func renameNoReplace(from, to string) error { return linkNew(from, to) }

// Warning says what the file system of f cannot promise to a writer. It returns "": no
// limit is known on this system.
func Warning(*os.File) string { return "" }

// MemoryLimit returns no limit: none is known on this system.
func MemoryLimit() int64 { return math.MaxInt64 }

// serve does nothing: the lock has only one part.
func serve(*os.File) error { return nil }

// Served is Locked. A reader may be served after a process takes the lock and before it
// begins to recover the file.
func Served(f *os.File) (bool, error) { return Locked(f) }

// lockDraft marks a temporary file whose process lives, with the writer lock.
func lockDraft(f *os.File) error { return lock(f) }

// LockHolder returns 0: this system does not say.
func LockHolder(string) (pid int) { return 0 }

// ReadLockHolder returns 0: this system does not say.
func ReadLockHolder(string) (pid int) { return 0 }
