package recovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// SetSuffix is the suffix of NAME.apply, the file with the set of changes that a replica is applying.
const SetSuffix = ".apply"

// NAME.apply begins with SetMagic. Its first page is the head:
//
//	word 0 SetMagic   1 size of the set in bytes   2 XXH3 of these bytes
//
// The rest of the page is zero. The set begins on the next page, and may end anywhere in a page.
const SetMagic = "MMFAPPLY"

// A SetWriter writes the set of changes that a replica, with or without hashes, will
// apply (K9).
type SetWriter struct {
	vol   Volume
	file  HashFile
	page  hashes.Page
	pages uint64 // number of page
	used  int    // bytes of page
	size  uint64
	sum   xxh3.Hasher
}

// NewSet creates an empty set of changes, which replaces a set that has been
// applied.
func (w *Writer) NewSet() (*SetWriter, error) {
	f, err := w.vol.CreateSet()
	if err != nil {
		return nil, fmt.Errorf("create NAME%s: %w", SetSuffix, err)
	}
	return &SetWriter{vol: w.vol, file: f, pages: 1}, nil
}

// Write adds bytes to the set.
func (s *SetWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		copied := copy(Bytes(s.page[:])[s.used:], b)
		s.sum.Write(b[:copied])
		b, n, s.used, s.size = b[copied:], n+copied, s.used+copied, s.size+uint64(copied)
		if s.used == hashes.PageBytes {
			if err := s.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (s *SetWriter) flush() error {
	if s.used == 0 {
		return nil
	}
	err := s.file.WritePages(s.pages, s.page[:])
	s.page, s.used, s.pages = hashes.Page{}, 0, s.pages+1
	return err
}

// End makes the set durable, with its name, and returns its check, which is a layout.Kept.Set.
func (s *SetWriter) End() (check uint64, err error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	head := hashes.Page{binary.LittleEndian.Uint64([]byte(SetMagic)), s.size, s.sum.Sum64()}
	if err := s.file.WritePages(0, head[:]); err != nil {
		return 0, err
	}
	if err := s.file.Sync(); err != nil {
		return 0, err
	}
	if err := s.vol.SyncNames(); err != nil {
		return 0, err
	}
	return checkOfSet(&head), s.file.Close()
}

// Discard removes a set of changes that no commit names.
func (s *SetWriter) Discard() error {
	s.file.Close()
	return s.vol.RemoveSet()
}

// checkOfSet returns the check of the set of changes that has this head. It is neither 0
// nor layout.Departed.
func checkOfSet(head *hashes.Page) uint64 { return xxh3.Hash(Bytes(head[:]))>>1 | 1 }

// A SetReader reads a set of changes, and after Rewind reads it again.
type SetReader struct {
	file  HashFile
	size  uint64
	page  hashes.Page
	pages uint64 // read
	left  []byte // of page
}

// OpenSet opens the set of changes that has this check. If the file is missing or damaged, or has
// another set, the error is layout.ErrCorrupt.
func (w *Writer) OpenSet(check uint64) (*SetReader, error) {
	f, err := w.vol.OpenSet()
	if err != nil {
		return nil, damagedSet(err)
	}
	s := &SetReader{file: f}
	var head hashes.Page
	if err = f.ReadPages(0, head[:]); err == nil && checkOfSet(&head) != check {
		err = errors.New("it is another set, or damaged")
	}
	if err == nil {
		var sum xxh3.Hasher
		s.size = head[1]
		s.Rewind()
		if _, err = io.Copy(&sum, s); err == nil && sum.Sum64() != head[2] {
			err = errors.New("it is damaged")
		}
		s.Rewind()
	}
	if err != nil {
		f.Close()
		return nil, damagedSet(err)
	}
	return s, nil
}

func damagedSet(err error) error {
	return &layout.CorruptError{Region: layout.RegionSet, Rule: "K9", What: fmt.Sprintf(
		"NAME%s, a set of changes of which this replica has some, cannot be read (take a new snapshot): %v", SetSuffix, err)}
}

// Rewind makes the next Read start at the beginning of the set.
func (s *SetReader) Rewind() { s.pages, s.left = 0, nil }

// Read implements io.Reader.
func (s *SetReader) Read(b []byte) (int, error) {
	if len(s.left) == 0 {
		rest := s.size - min(s.pages*hashes.PageBytes, s.size)
		if rest == 0 {
			return 0, io.EOF
		}
		if err := s.file.ReadPages(s.pages+1, s.page[:]); err != nil {
			return 0, err
		}
		s.pages++
		s.left = Bytes(s.page[:])[:min(rest, hashes.PageBytes)]
	}
	n := copy(b, s.left)
	s.left = s.left[n:]
	return n, nil
}

// Close closes the file.
func (s *SetReader) Close() error { return s.file.Close() }

// RemoveSet removes a set of changes that has been applied.
func (w *Writer) RemoveSet() error { return w.vol.RemoveSet() }
