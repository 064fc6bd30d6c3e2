package recovery

import "errors"

// ErrLocked says that another process is writing to the file.
var ErrLocked = errors.New("filter file is locked by a writer")

// ErrChanging says that the file was written to while it was being read.
var ErrChanging = errors.New("filter file is being written to")

// ErrFailed says that an earlier write to the file failed.
var ErrFailed = errors.New("filter failed on an earlier error")

// ErrReplaced says that a writer found that its file has no name any more, or
// that another one has it.
var ErrReplaced = errors.New("filter file was removed or replaced under its writer")
