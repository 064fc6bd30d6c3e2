package mmapfilter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// offers yields each of n keys ten times, in an order in which all offers of a key are within a window.
func offers(seed uint64, n, window int, do func(key uint64)) {
	rng := rand.New(rand.NewPCG(seed, 0))
	window = min(window, 10*n)
	order := make([]uint64, window)
	for from := 0; from < 10*n; from += window {
		for i := range order {
			order[i] = uint64(from/10 + i%(window/10))
		}
		rng.Shuffle(window, func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, key := range order {
			do(key)
		}
	}
}

// TestRepeats covers K5 and K7 for keys that are offered to InsertUnique again and again, while the
// filter grows: it has each of them, NAME.hashes stays short, and a rebuild gives each an item.
func TestRepeats(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 40_000
	}
	for name, window := range map[string]int{"local": 20_000, "uniform": 10 * n} {
		t.Run(name, func(t *testing.T) {
			f, path := createGrowing(t, 1000)
			var key [8]byte
			asked := 0
			offers(1, n, window, func(k uint64) {
				binary.LittleEndian.PutUint64(key[:], k)
				if _, err := f.InsertUnique(key[:]); err != nil {
					t.Fatal(err)
				}
				if asked++; asked%5000 == 0 {
					if !f.Contains(key[:]) {
						t.Fatalf("key %d is lost", k)
					}
					awaitGrowth(f) // until then, what comes meanwhile is in the file, too
					mustBeShort(t, path, f.Len())
				}
			})
			mustHave(t, f, 0, uint64(n))
			if items := int(f.Len()); items > n || items < n-n/50 { // of a hundred keys, one looks like others
				t.Errorf("%d items of %d keys", items, n)
			}
			if err := f.Rebuild(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if mustHave(t, f, 0, uint64(n)); f.Len() != uint64(n) {
				t.Errorf("%d items of %d keys after a rebuild", f.Len(), n)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			mustBeShort(t, path, uint64(n))
		})
	}
}

// BenchmarkRepeats offers each of a million keys ten times to InsertUnique, in a filter in memory that
// grows from 1,000 keys, with a Sync every 65,536: in local order, in which all offers of a key are
// within 20,000, and in uniform order. Beside it, it inserts as many distinct keys, each once, with
// Insert and InsertUnique. history is the share of the offers that are in the history; log-B and
// hashes-B are the bytes that were written to the log and to NAME.hashes, those of rebuilds included.
//
//	go test ./mmapfilter -run '^$' -bench Repeats -benchtime 1x -count 3
func BenchmarkRepeats(b *testing.B) {
	n := small(1_000_000, 20_000)
	dir := memoryDir(b)
	unique := func(f *Filter, key []byte) error {
		_, err := f.InsertUnique(key)
		return err
	}
	distinct := func(do func(key uint64)) {
		for key := range uint64(n) {
			do(key)
		}
	}
	for _, c := range []struct {
		name   string
		offers func(do func(key uint64))
		insert func(f *Filter, key []byte) error
	}{
		{"Insert/distinct", distinct, (*Filter).Insert},
		{"InsertUnique/distinct", distinct, unique},
		{"InsertUnique/local", func(do func(key uint64)) { offers(1, n, 20_000, do) }, unique},
		{"InsertUnique/uniform", func(do func(key uint64)) { offers(1, n, 10*n, do) }, unique},
	} {
		once(b, c.name, func(b *testing.B) {
			path := filepath.Join(dir, fmt.Sprint(time.Now().UnixNano()))
			f, err := Create(path, &Options{Capacity: 1000, AutoGrow: true})
			if err != nil {
				b.Fatal(err)
			}
			var key [8]byte
			asked, log, used, bases, rebuilds := 0, int64(0), int64(0), uint64(0), uint64(0)
			begun := time.Now()
			c.offers(func(k uint64) {
				binary.LittleEndian.PutUint64(key[:], k)
				if err := c.insert(f, key[:]); err != nil {
					b.Fatal(err)
				}
				if asked++; asked%64 == 0 {
					o := f.open.Load()
					now := o.work.Writer.State().LogUsed
					if now < used {
						used = 0
					}
					log += now - used
					used = now
					if o.rebuilds != rebuilds {
						rebuilds = o.rebuilds
						bases += f.Len()
					}
				}
				if asked%65536 == 0 {
					if err := f.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			})
			took := time.Since(begun)
			operations := writerOf(f).State().History.At.Number
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
			per := func(x float64) float64 { return x / float64(asked) }
			b.ReportMetric(per(float64(took)), "ns/offer")
			b.ReportMetric(float64(asked)/took.Seconds(), "offers/s")
			b.ReportMetric(per(float64(operations)), "history/offer")
			b.ReportMetric(per(float64(log)), "log-B/offer")
			const inTail, inBase = 4096. / 478, 4096. / recovery.ItemsInPage // bytes, in full pages
			b.ReportMetric(per(inTail*float64(operations)+inBase*float64(bases)), "hashes-B/offer")
			b.ReportMetric(float64(sizeOf(b, path+".hashes"))/float64(n), "hashes-B/key")
			b.ReportMetric(float64(rebuilds), "rebuilds")
		})
	}
}
