package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// TestPages: pages are read as they were written. If a file ends too early, the error names the first
// missing page.
func TestPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, nil)
	f, err := openHashes(path, os.O_RDWR)
	must(t, err)
	defer f.Close()
	const pages = 5
	words := make([]uint64, pages*hashes.PageWords)
	for i := range words {
		words[i] = uint64(i)
	}
	must(t, f.WritePages(1, words))
	if n, err := f.Pages(); n != 1+pages || err != nil {
		t.Errorf("%d pages, %v", n, err)
	}
	got := make([]uint64, len(words))
	if err := f.ReadPages(1, got); err != nil || !slices.Equal(got, words) {
		t.Errorf("wrong words, or %v", err)
	}
	var corrupt *layout.CorruptError
	if err := f.ReadPages(3, got); !errors.As(err, &corrupt) || corrupt.Offset != (1+pages)*hashes.PageBytes {
		t.Errorf("a read of too many pages: %v", err)
	}
}
