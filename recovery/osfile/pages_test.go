package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestPages: pages are the same whether they are written and read at once or one by one. If a file ends
// too early, the error names the first missing page.
func TestPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, nil)
	file, err := openHashes(path, os.O_RDWR)
	must(t, err)
	defer file.Close()
	const pages = 5
	words := make([]uint64, pages*hashes.PageWords)
	for i := range words {
		words[i] = uint64(i)
	}
	for name, f := range map[string]recovery.HashFile{"a file of the system": file, "another file": struct{ recovery.HashFile }{file}} {
		must(t, errors.Join(file.Truncate(0), WritePages(f, 1, words)))
		if n, err := f.Pages(); n != 1+pages || err != nil {
			t.Errorf("%s: %d pages, %v", name, n, err)
		}
		got := make([]uint64, len(words))
		if err := ReadPages(f, 1, got); err != nil || !slices.Equal(got, words) {
			t.Errorf("%s: wrong words, or %v", name, err)
		}
		var p hashes.Page
		if err := f.ReadPage(3, &p); err != nil || p[0] != 2*hashes.PageWords {
			t.Errorf("%s: page 3 begins with %d, %v", name, p[0], err)
		}
		var corrupt *layout.CorruptError
		if err := ReadPages(f, 3, got); !errors.As(err, &corrupt) || corrupt.Offset != (1+pages)*hashes.PageBytes {
			t.Errorf("%s: a read of too many pages: %v", name, err)
		}
	}
}
