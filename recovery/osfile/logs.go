package osfile

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Logs is a recovery.LogReader: it reads the logs of a file that another process may write to.
type Logs struct {
	path string // of the filter
	open []readLog
}

type readLog struct {
	*os.File
	*Mapping
}

// LogsOf returns the logs of the filter at a path, none of which is open yet.
func LogsOf(path string) (*Logs, error) {
	path, err := realPath(path)
	return &Logs{path: path}, err
}

// ReadLog maps a log, unless it has been mapped already under either name.
func (l *Logs) ReadLog(name recovery.LogName) ([]uint64, error) {
	path := l.path + name.String()
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	for _, log := range l.open {
		if is, err := log.Stat(); err == nil && os.SameFile(is, info) {
			return recovery.Words(log.Data), nil
		}
	}
	if size := info.Size(); !info.Mode().IsRegular() || size < wal.MinBytes || size > wal.MaxBytes || size%wal.PageBytes != 0 {
		return nil, &layout.CorruptError{Region: layout.RegionLog, Offset: size, Rule: "L1", What: "NAME" + name.String() + " was cut short or is not a log"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && info.Size()%wal.PageBytes != 0 {
		err = recovery.ErrChanging // another file has the name now
	}
	var m *Mapping
	if err == nil {
		m, err = Map(f, info.Size(), false)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.open = append(l.open, readLog{f, m})
	return recovery.Words(m.Data), nil
}

// Catch runs f, which uses mapped files and the logs, and returns a fault in them as a *FaultError.
func (l *Logs) Catch(f func(), mapped ...[]byte) error {
	if fault := catch(f, func(error) {}, mapped...); fault != nil {
		return fault
	}
	return nil
}

// Close unmaps and closes the logs.
func (l *Logs) Close() error {
	var errs []error
	for _, log := range l.open {
		errs = append(errs, log.Unmap(), log.Close())
	}
	return errors.Join(errs...)
}
