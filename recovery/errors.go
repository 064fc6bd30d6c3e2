package recovery

import "errors"

// ErrLocked says that another process is writing to the file.
var ErrLocked = errors.New("filter file is locked by a writer")

// ErrChanging says that the file was written to while it was being read.
var ErrChanging = errors.New("filter file is being written to")
