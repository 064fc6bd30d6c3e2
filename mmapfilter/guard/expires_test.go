package guard

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestFilterThatExpires covers C9: a guard uses no filter whose keys leave by themselves, and makes
// none in its place, since a new file keeps what the old one did.
func TestFilterThatExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filter.mmf")
	f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 100, ExpireAfter: time.Hour, Normalisation: identityPrefix + "0"})
	if err == nil {
		err = f.Close()
	}
	must(t, err)
	for _, chosen := range []bool{false, true} {
		s := system(context.Background(), time.Second, 0, chosen)
		if _, err := s.Open(path); !errors.Is(err, ErrExpires) {
			t.Errorf("open: %v", err)
		}
		if _, err := s.Create(path, &mmapfilter.Options{Capacity: 100, Normalisation: identityPrefix + "0"}); !errors.Is(err, ErrExpires) {
			t.Errorf("create: %v", err)
		}
	}
	if _, err := openReadOnly(path); !errors.Is(err, ErrExpires) {
		t.Errorf("open for reading: %v", err)
	}
}
