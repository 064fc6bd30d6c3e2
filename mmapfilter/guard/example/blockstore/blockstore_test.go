package blockstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/ipfs/boxo/blockstore"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	"github.com/ipfs/go-datastore"
	ipld "github.com/ipfs/go-ipld-format"
	"github.com/multiformats/go-multihash"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var ctx = context.Background()

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a store with a low rate, so that no test fails by chance.
func open(dir string, interval time.Duration) (*Store, error) {
	return Open(dir, &pebble.Options{Logger: quiet{}}, &guard.Options{FalsePositiveRate: 1e-7, CommitInterval: interval})
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// block returns the block of a number.
func block(i int) blocks.Block { return blocks.NewBlock(fmt.Appendf(nil, "block %d", i)) }

// answers returns all that a store says about a CID.
func answers(s blockstore.Blockstore, c cid.Cid) string {
	has, hasErr := s.Has(ctx, c)
	size, sizeErr := s.GetSize(ctx, c)
	b, getErr := s.Get(ctx, c)
	said := fmt.Sprintln(has, hasErr, size, sizeErr, getErr, ipld.IsNotFound(sizeErr), ipld.IsNotFound(getErr))
	if getErr == nil {
		said += fmt.Sprintf("%s %q", b.Cid(), b.RawData())
	}
	return said
}

// all returns what AllKeysChan sends, in order.
func all(t *testing.T, s blockstore.Blockstore) (cids []string) {
	keys, err := s.AllKeysChan(ctx)
	must(t, err)
	for c := range keys {
		cids = append(cids, c.String())
	}
	slices.Sort(cids)
	return cids
}

// TestLikeBoxo does the same operations on a store and on the Blockstore of boxo. Both must say the
// same about CIDs of all kinds, even after the store has been opened again.
func TestLikeBoxo(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	boxo := blockstore.NewBlockstore(datastore.NewMapDatastore())
	named := func(i int) blocks.Block { // a block named by one of the CIDs of its multihash
		b := block(i)
		c := []cid.Cid{b.Cid(), cid.NewCidV1(cid.DagProtobuf, b.Cid().Hash()), cid.NewCidV1(cid.Raw, b.Cid().Hash())}[r.IntN(3)]
		b, err := blocks.NewBlockWithCid(b.RawData(), c)
		must(t, err)
		return b
	}
	empty := blocks.NewBlock(nil)
	for range 3 {
		ours, err := open(dir, time.Second)
		must(t, err)
		must(t, errors.Join(ours.Put(ctx, empty), boxo.Put(ctx, empty), ours.PutMany(ctx, nil)))
		for range 300 {
			b, more := named(r.IntN(100)), []blocks.Block{named(r.IntN(100)), named(r.IntN(100))}
			switch r.IntN(3) {
			case 0:
				must(t, errors.Join(ours.Put(ctx, b), boxo.Put(ctx, b)))
			case 1:
				must(t, errors.Join(ours.PutMany(ctx, more), boxo.PutMany(ctx, more)))
			case 2:
				must(t, errors.Join(ours.DeleteBlock(ctx, b.Cid()), boxo.DeleteBlock(ctx, b.Cid())))
			}
			for _, c := range []cid.Cid{named(r.IntN(200)).Cid(), empty.Cid()} {
				if got, want := answers(ours, c), answers(boxo, c); got != want {
					t.Fatalf("about %s the store says %s, and boxo %s", c, got, want)
				}
			}
		}
		if got, want := all(t, ours), all(t, boxo); !slices.Equal(got, want) {
			t.Fatalf("the store has %d blocks, and boxo %d", len(got), len(want))
		}
		must(t, ours.Close())
	}
}

// TestUndefined puts several blocks, one of which has no CID. Nothing is put, and lookups of the
// undefined CID find nothing.
func TestUndefined(t *testing.T) {
	s, err := open(t.TempDir(), time.Second)
	must(t, err)
	defer s.Close()
	b, err := blocks.NewBlockWithCid([]byte("nameless"), cid.Cid{})
	must(t, err)
	if err := s.PutMany(ctx, []blocks.Block{block(1), b}); err != errUndefined {
		t.Errorf("the error is %v", err)
	}
	if keys := all(t, s); keys != nil {
		t.Errorf("there are %q", keys)
	}
	if has, err := s.Has(ctx, cid.Cid{}); has || err != nil {
		t.Error(has, err)
	}
	if _, err := s.Get(ctx, cid.Cid{}); !ipld.IsNotFound(err) {
		t.Error(err)
	}
}

// TestReservedHash puts a block whose multihash is the block itself, and looks like a reserved key of
// the guard: the byte of its length is the first letter.
func TestReservedHash(t *testing.T) {
	s, err := open(t.TempDir(), time.Second)
	must(t, err)
	defer s.Close()
	content := []byte("mapfilter\x00" + strings.Repeat("x", 'm'-10))
	hash, err := multihash.Sum(content, multihash.IDENTITY, -1)
	must(t, err)
	b, err := blocks.NewBlockWithCid(content, cid.NewCidV1(cid.Raw, hash))
	must(t, err)
	must(t, s.PutMany(ctx, []blocks.Block{block(1), b}))
	if got, err := s.Get(ctx, b.Cid()); err != nil || !bytes.Equal(got.RawData(), content) {
		t.Error(err)
	}
	if keys := all(t, s); len(keys) != 2 {
		t.Errorf("there are %q", keys)
	}
	must(t, s.DeleteBlock(ctx, b.Cid()))
	if has, err := s.Has(ctx, b.Cid()); has || err != nil {
		t.Error(has, err)
	}
}

// TestView checks that the error of a callback reaches the caller unchanged, and that a change of what
// Get has returned does not change the store.
func TestView(t *testing.T) {
	s, err := open(t.TempDir(), time.Second)
	must(t, err)
	defer s.Close()
	must(t, s.Put(ctx, block(1)))
	mine := errors.New("mine")
	if err := s.View(ctx, block(1).Cid(), func([]byte) error { return mine }); err != mine {
		t.Errorf("the error is %v", err)
	}
	b, err := s.Get(ctx, block(1).Cid())
	must(t, err)
	clear(b.RawData())
	if again, err := s.Get(ctx, block(1).Cid()); err != nil || !bytes.Equal(again.RawData(), block(1).RawData()) {
		t.Errorf("the block is %q, %v", again.RawData(), err)
	}
	if err := s.View(ctx, block(2).Cid(), func([]byte) error { t.Error("there is a block"); return nil }); !ipld.IsNotFound(err) {
		t.Errorf("the error is %v", err)
	}
}

// TestAllKeysChanEnds ends channels that nobody reads, with a context and with Close.
func TestAllKeysChanEnds(t *testing.T) {
	s, err := open(t.TempDir(), time.Second)
	must(t, err)
	var bs []blocks.Block
	for i := range 1000 {
		bs = append(bs, block(i))
	}
	must(t, s.PutMany(ctx, bs))
	sent := func(keys <-chan cid.Cid) (n int) {
		for range keys {
			n++
		}
		return n
	}
	canceled, cancel := context.WithCancel(ctx)
	keys, err := s.AllKeysChan(canceled)
	must(t, err)
	cancel()
	if n := sent(keys); n == len(bs) {
		t.Error("a channel has sent everything though its context has ended")
	}
	keys, err = s.AllKeysChan(ctx)
	must(t, err)
	must(t, errors.Join(s.Close(), s.Close())) // Pebble reports open iterators, and may be closed only once
	if n := sent(keys); n == len(bs) {
		t.Error("a channel has sent everything though the store is closed")
	}
}

// TestSkips looks up blocks that a store does not have, after the store was opened again.
func TestSkips(t *testing.T) {
	dir := t.TempDir()
	s, err := open(dir, time.Second)
	must(t, err)
	must(t, errors.Join(s.Put(ctx, block(0)), s.db.Guard().Rebuild(ctx), s.Close()))
	s, err = open(dir, time.Second)
	must(t, err)
	defer s.Close()
	for i := range 100 {
		if has, err := s.Has(ctx, block(i).Cid()); err != nil || has != (i == 0) {
			t.Errorf("block %d: %t, %v", i, has, err)
		}
	}
	if st := s.Stats(); st.Skipped != 99 {
		t.Errorf("%d lookups did not reach Pebble: %+v", st.Skipped, st)
	}
}

// TestPowerLoss covers G2: what Put, PutMany and DeleteBlock have done survives a power loss, which
// takes all that is not durable, and the guard hides no block that was put.
func TestPowerLoss(t *testing.T) {
	disk := vfs.NewCrashableMem()
	g := &guard.Options{FalsePositiveRate: 1e-7, CommitInterval: time.Hour, Path: filepath.Join(t.TempDir(), "filter")}
	s, err := Open("db", &pebble.Options{Logger: quiet{}, FS: disk}, g)
	must(t, err)
	must(t, errors.Join(s.Put(ctx, block(0)), s.PutMany(ctx, []blocks.Block{block(1), block(2)})))
	kept := disk.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.DeleteBlock(ctx, block(0).Cid()))
	deleted := disk.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	for first, fs := range []*vfs.MemFS{kept, deleted} {
		s, err := Open("db", &pebble.Options{Logger: quiet{}, FS: fs}, g)
		must(t, err)
		for i := range 3 {
			if has, err := s.Has(ctx, block(i).Cid()); err != nil || has != (i >= first) {
				t.Errorf("%d blocks deleted, block %d: %t, %v", first, i, has, err)
			}
		}
		must(t, s.Close())
	}
}
