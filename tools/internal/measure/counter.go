package measure

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A counter is a word that processes share, the first of a mapped file.
type counter struct {
	*osfile.Mapping
	count *uint64
}

const counterBytes = 4096

func newCounter(path string) (*counter, error) {
	if err := os.WriteFile(path, make([]byte, counterBytes), 0o600); err != nil {
		return nil, err
	}
	return openCounter(path)
}

func openCounter(path string) (*counter, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	m, err := osfile.Map(f, counterBytes, true)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return &counter{m, &recovery.Words(m.Data)[0]}, nil
}
