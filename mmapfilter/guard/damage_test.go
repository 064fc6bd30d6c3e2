package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestKeepsOthers covers G6: a file at a path that the caller has chosen stays as it is, unless a guard
// has created it. A file at a path that the guard has chosen is replaced.
func TestKeepsOthers(t *testing.T) {
	filter := func(path string) error {
		f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 1000})
		return errors.Join(err, f.Insert([]byte("of the caller")), f.Close())
	}
	for name, make := range map[string]func(path string) error{
		"text": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("notes of the caller\n", 1000)), 0o644)
		},
		"filter": filter,
		"damaged filter": func(path string) error {
			data := []byte{1}
			err := filter(path)
			f, openErr := os.OpenFile(path, os.O_RDWR, 0)
			_, writeErr := f.WriteAt(data, 33_000)
			return errors.Join(err, openErr, writeErr, f.Close())
		},
		"cut filter": func(path string) error { return errors.Join(filter(path), os.Truncate(path, 20_000)) },
		"no filter":  func(path string) error { return errors.Join(filter(path), os.Truncate(path, 100)) },
		"other guard": func(path string) error { // of another store
			g := begin(t, (&Options{}).WithDefaults(path, Rebuild))
			g.put("other")
			return g.g.Close()
		},
	} {
		for _, own := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "notes")
			must(t, make(path))
			before, err := os.ReadFile(path)
			must(t, err)
			info, err := os.Stat(path)
			must(t, err)
			o := (&Options{Path: path, Mode: 0o600}).WithDefaults("", Rebuild)
			if own {
				o = (&Options{Mode: 0o600}).WithDefaults(path, Rebuild)
			}
			g := begin(t, o)
			g.put("k")
			g.mustShow()
			s, ours := g.g.Stats(), own || name == "other guard"
			if serving(s) != ours || strings.Contains(s.Err, "would destroy "+path) == ours {
				t.Errorf("%s, chosen by the guard: %t: %+v", name, own, s)
			}
			g.close()
			data, err := os.ReadFile(path)
			must(t, err)
			after, err := os.Stat(path)
			if err != nil || bytes.Equal(data, before) == ours || !ours && after.Mode() != info.Mode() {
				t.Errorf("%s, chosen by the guard: %t: %v, %d bytes", name, own, err, len(data))
			}
		}
	}
}

// TestDamage changes bytes of a closed filter, in its first 4,096 bytes or anywhere. No key is hidden,
// neither at once nor after a rebuild, and the next Open has a filter that serves.
func TestDamage(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		o := quiet(t, deletes)
		o.Capacity = 2000
		f := begin(t, o)
		for i := range 500 {
			f.put(fmt.Sprint("k", i))
		}
		f.close()
		if r, err := mmapfilter.Verify(context.Background(), o.Path); err != nil || !r.Sealed {
			t.Errorf("the filter is not sealed: %+v, %v", r, err)
		}
		rng, noticed := rand.New(rand.NewPCG(1, 2)), 0
		for i := range 50 {
			data, err := os.ReadFile(o.Path)
			must(t, err)
			within := len(data)
			if i%3 == 0 {
				within = 4096
			}
			for range 1 << rng.IntN(8) {
				data[rng.IntN(within)] ^= 1 << rng.IntN(8)
			}
			must(t, os.WriteFile(o.Path, data, 0o600))
			f.open()
			if f.g.Stats().Err != "" {
				noticed++
			}
			f.mustShow()
			f.put(fmt.Sprint("k", i))
			f.remove(fmt.Sprint("k", i+1000))
			f.rebuild()
			f.mustShow()
			f.close()
			f.open()
			if st := f.g.Stats(); st.Err != "" {
				t.Errorf("%d: opened again: %+v", i, st)
			}
			f.mustBe("serving")
			f.close()
		}
		if noticed < 30 {
			t.Errorf("only the damage of %d files was noticed", noticed)
		}
	})
}

// TestFilterThatExpires covers C9: a guard uses no filter whose keys leave by themselves. It also
// creates no filter in its place, since keys would leave the new file by themselves, too.
func TestFilterThatExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "filter.mmf")
	f, err := mmapfilter.Create(path, &mmapfilter.Options{Capacity: 100, ExpireAfter: time.Hour, Normalisation: identityPrefix + "0"})
	if err == nil {
		err = f.Close()
	}
	must(t, err)
	for _, chosen := range []bool{false, true} {
		s := system(context.Background(), 0, chosen)
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
