package mmapfilter

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestKilledWhilePuttingToRest kills a writer between the stores with which it seals or closes
// its file. The resulting file is undamaged: Verify accepts it as soon as its state is not live,
// and always after it has been opened and closed again.
func TestKilledWhilePuttingToRest(t *testing.T) {
	by := 37 // tries one store in by
	if testing.Short() {
		by = 301
	}
	for name, rest := range map[string]func(w *writer.Writer) error{
		"Seal":  func(w *writer.Writer) error { return w.Seal(context.Background()) },
		"Close": (*writer.Writer).Clean,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			f, err := Create(path, &Options{Capacity: 760})
			must(t, err)
			must(t, f.Close())
			data := readFile(t, path)
			v := fileImage{filter: recovery.Words(data)}.volume()
			w, _, err := writer.Open(v, writer.LogSize{First: wal.MinBytes, Most: wal.MinBytes})
			must(t, err)
			rng := rand.New(rand.NewPCG(8, 8))
			for range 700 {
				must(t, w.Insert(rng.Uint64()))
			}
			stores, sealed, atRest := 0, 0, 0
			var images []fileImage
			v.File.Stored = func() {
				if stores++; stores%by == 0 {
					images = append(images, imageOf(v))
				}
			}
			must(t, rest(w))
			broken := 0
			for i, im := range images {
				im.write(t, path)
				if _, err := Verify(context.Background(), path); err == nil {
					atRest++
				} else if !errors.Is(err, ErrNeedsRecovery) {
					t.Errorf("after %d stores of %d: %v", (i+1)*by, stores, err)
				}
				f, err := Open(path, &OpenOptions{CommitInterval: -1})
				if err != nil {
					t.Fatalf("after %d stores of %d: %v", (i+1)*by, stores, err)
				}
				if f.Len() != 700 {
					t.Fatalf("after %d stores of %d: %d items", (i+1)*by, stores, f.Len())
				}
				must(t, f.Close())
				head := readFile(t, path)
				_, sb, _, err := layout.Newest(head)
				for slot := range layout.SuperblockSlots {
					if err != nil || layout.SlotIsCut(head, slot, sb) {
						t.Errorf("after %d stores of %d: opened and closed, superblock %d is not whole; %v", (i+1)*by, stores, slot, err)
					}
				}
				r, err := Verify(context.Background(), path)
				if r.Sealed {
					sealed++
				}
				if err == nil {
					continue
				}
				if broken++; broken <= 3 || !errors.Is(err, ErrCorrupt) {
					t.Errorf("after %d stores of %d: %v", (i+1)*by, stores, err)
				}
			}
			t.Logf("%d stores, killed %d times; %d files are at rest, %d sealed; %d do not verify", stores, len(images), atRest, sealed, broken)
			if atRest == 0 || atRest == len(images) {
				t.Error("not killed on both sides of the superblock that says so")
			}
		})
	}
}
