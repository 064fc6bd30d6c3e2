package osfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestOpenPast opens a file of hashes that is no longer NAME.hashes, while a writer renames it to its
// next names (K8). openPast must find it, whichever name it has at that moment.
func TestOpenPast(t *testing.T) {
	if !Replaces {
		t.Skip("nobody can rename an open file here, and nobody writes")
	}
	path := filepath.Join(t.TempDir(), "f")
	const identity = 7
	names := []string{path + ".hashes", path + pastSuffix, olderPast(path, identity)}
	put(t, names[0], recovery.Bytes((&hashes.Header{Identity: identity}).Page(0)[:]))
	for range 300 {
		renamed := make(chan error)
		go func() {
			err := os.Rename(names[0], names[1])
			if err == nil {
				err = os.Rename(names[1], names[2])
			}
			renamed <- err
		}()
		f, err := openPast(path, identity)
		must(t, <-renamed)
		if err != nil {
			t.Fatal("the file is not found: ", err)
		}
		f.Close()
		must(t, os.Rename(names[2], names[0]))
	}
}
