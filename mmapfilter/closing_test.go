package mmapfilter

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// TestCutShort covers C5: if the file of a writer is cut short, its next checkpoint, its next larger log
// and Close return an error, even if no operation needs the missing part.
func TestCutShort(t *testing.T) {
	for name, end := range map[string]func(f *Filter) error{
		"checkpoint": func(f *Filter) error { return f.Checkpoint(context.Background()) },
		"seal":       func(f *Filter) error { return f.Seal(context.Background()) },
		"close":      (*Filter).Close,
		"larger log": func(f *Filter) error { return writerOf(f).Protocol().GrowLog(2 << 20) },
		"rebuilt": func(f *Filter) error {
			err := f.Rebuild(context.Background(), nil)
			return errors.Join(err, os.Truncate(f.open.Load().path, 40_960), f.Close())
		},
		"unchanged": func(f *Filter) error {
			path := f.open.Load().path
			err := f.Close()
			if f, e := Open(path, nil); e == nil {
				err = errors.Join(err, os.Truncate(path, 40_960), f.Close())
			}
			return err
		},
	} {
		f, path := mustCreate(t, &Options{Capacity: 20_000, KeepHashes: true, LogBytes: 1 << 20}) // does not grow by itself
		mustInsert(t, f, 0, 15_000)
		must(t, f.Checkpoint(context.Background()))
		if name != "rebuilt" && name != "unchanged" {
			must(t, os.Truncate(path, 40_960))
		}
		if err := end(f); !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), path+".") {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Close(); name != "close" && name != "rebuilt" && name != "unchanged" && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, then Close: %v", name, err)
		}
	}
}

// TestCloseOfAWriter closes a filter while goroutines insert, delete, look up, commit and make
// checkpoints. Each call either succeeds or returns ErrClosed. The file must then have all items whose
// insert succeeded.
func TestCloseOfAWriter(t *testing.T) {
	for round := range uint64(6) {
		f, path := mustCreate(t, &Options{Capacity: 50_000, LogBytes: 256 << 10})
		const workers = 4
		var kept [workers][]uint64
		var group sync.WaitGroup
		busy := make(chan struct{}, 2*workers)
		until := func(call func() error) { // calls it until it fails
			defer group.Done()
			for n := 0; ; n++ {
				if n == 10 {
					busy <- struct{}{}
				}
				if err := call(); errors.Is(err, ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		}
		group.Add(workers + 4)
		for i := range workers {
			rng := rand.New(rand.NewPCG(round, uint64(i)))
			go until(func() error {
				h := rng.Uint64()
				if err := f.InsertHash(h); errors.Is(err, ErrFull) {
					return ErrClosed // enough inserts
				} else if err != nil {
					return err
				}
				if kept[i] = append(kept[i], h); len(kept[i])%3 != 0 {
					return nil
				}
				ok, err := f.DeleteHash(h)
				if err == nil {
					kept[i] = kept[i][:len(kept[i])-1]
				}
				if err == nil && !ok {
					t.Error("Delete does not find a key that was inserted")
				}
				return err
			})
		}
		found := make([]bool, 100)
		go until(func() error { f.ContainsHash(1); return f.Err() })
		go until(func() error { f.ContainsHashes(make([]uint64, 100), found); f.Stats(); return f.Err() })
		go until(f.Sync)
		go until(func() error { return f.Checkpoint(t.Context()) })
		for range workers + 4 {
			<-busy
		}
		must(t, f.Close())
		group.Wait()
		runtime.GC()
		mustSayMaybe(t, f)
		mustLeave(t, path, 1)
		g := mustOpenReadOnly(t, path, nil)
		n := 0
		for _, hashes := range kept {
			mustContain(t, g, hashes)
			n += len(hashes)
		}
		if g.Len() != uint64(n) {
			t.Errorf("%d keys are left of %d", g.Len(), n)
		}
	}
}

// TestTruncatedUnderAWriter cuts a file short while a process writes to it. Checked lookups of missing
// parts answer "maybe". Once an operation needs a missing part, it and all later ones return ErrFailed,
// and every answer is "maybe". The process does not end.
func TestTruncatedUnderAWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 200_000})
	f.Close()
	// With so large a log, no background checkpoint is due. It would fail.
	f = mustOpen(t, path, &OpenOptions{Checked: true, CommitInterval: -1, LogBytes: 4 << 20})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		must(t, f.InsertHash(rng.Uint64()))
	}
	must(t, f.Sync())
	if err := os.Truncate(path, f.Stats().FileBytes/2); err != nil {
		t.Skipf("this system keeps a mapped file from being cut short: %v", err)
	}
	maybe := 0
	for range 1000 {
		if f.ContainsHash(rng.Uint64()) {
			maybe++
		}
	}
	if maybe < 400 || maybe > 600 {
		t.Errorf("%d of 1,000 lookups say maybe", maybe)
	}
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = f.InsertHash(rng.Uint64())
	}
	if !errors.Is(err, ErrFailed) || !errors.Is(f.Err(), ErrFailed) {
		t.Errorf("an insert returns %v, and Err %v", err, f.Err())
	}
	mustSayMaybe(t, f)
	if err := f.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("Close returns %v", err)
	}
}

// TestDroppedWriterLetsGo: the garbage collector releases the lock and the mappings of a filter
// that nobody closed.
func TestDroppedWriterLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := Create(path, &Options{Capacity: 1 << 20, CommitInterval: -1})
	must(t, err)
	must(t, f.Close())
	f = nil
	if _, err := Open(path, &OpenOptions{CommitInterval: -1}); err != nil { // and drop it
		t.Fatal(err)
	}
	for range 1000 {
		runtime.GC() // then a cleanup closes the dropped filter
		if f, err = Open(path, &OpenOptions{CommitInterval: -1}); !errors.Is(err, ErrLocked) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Fatal("after 1,000 collections: ", err)
	}
	f.Close()
}

// TestBatchCountsUpToAFault: if a fault ends a batch, InsertBatch returns the number of keys inserted
// before the fault. The count includes keys of the block in which the fault happens.
func TestBatchCountsUpToAFault(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 200_000, LogBytes: 256 << 10})
	const page = wal.PageBytes
	used := func() int64 {
		_, used := f.open.Load().work.Writer.Protocol().LogBytes()
		return used
	}
	i := 0
	for ; used()%page < page-600 || used()%page > page-300; i++ { // until a block of 64 spans two pages
		must(t, f.InsertHash(spread(i)))
	}
	if err := os.Truncate(path+".stash", (used()/page+1)*page); err != nil {
		t.Skipf("this system keeps a mapped file from being cut short: %v", err)
	}
	var keys [][]byte
	for j := range 3 * writer.Batch {
		keys = append(keys, []byte{byte(j), 'k'})
	}
	before := f.Len()
	n, err := f.InsertBatch(keys)
	if !errors.Is(err, ErrFailed) || n == 0 || n >= writer.Batch || uint64(n) != f.Len()-before {
		t.Errorf("InsertBatch returns %d, %v; %d keys were inserted", n, err, f.Len()-before)
	}
	for _, key := range keys[:n] {
		if !f.Contains(key) {
			t.Fatal("a key that counts as inserted is missing")
		}
	}
}
