// Package blockstore is an example: a Blockstore of boxo that keeps its blocks in Pebble, behind a
// guard. Most nodes are asked for blocks that they do not have. For such a block, Has, Get, GetSize
// and View answer from memory, as soon as the store is open, however many blocks there are.
//
// The key of a block is a byte that this package chooses, and then the multihash of the block, which
// CIDs of different versions and codecs share. Anybody can create a multihash with any bytes, even the
// bytes of a key that is reserved for the guard. The first byte keeps such a multihash apart from the
// reserved key.
//
// The filter must have a block before the store has it. After a crash, the guard learns from the log of
// Pebble which blocks the filter lacks. This is why the blocks are in Pebble, and not in another
// Blockstore: in front of a Blockstore whose blocks are files, the filter would have to be durable
// before each Put.
package blockstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/ipfs/boxo/blockstore"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	ipld "github.com/ipfs/go-ipld-format"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/guard/pebbleguard"
)

var (
	_ blockstore.Blockstore = (*Store)(nil)
	_ blockstore.Viewer     = (*Store)(nil)
	_ io.Closer             = (*Store)(nil)
)

var errUndefined = errors.New("blockstore: a block has no CID")

// A Store is a Blockstore. What Put, PutMany or DeleteBlock have done survives a power loss. Blocks
// whose multihash is the block itself are stored like other blocks; to keep them out, put
// blockstore.NewIdStore in front.
type Store struct {
	db    *pebbleguard.DB
	walks sync.WaitGroup // of AllKeysChan
	end   chan struct{}  // closed to end the walks
	close func() error   // works only once
}

// keyByte begins each key. No reserved key begins with it.
const keyByte = 'b'

// keyOf returns the key of a block.
func keyOf(c cid.Cid) []byte { return append([]byte{keyByte}, c.Hash()...) }

// Open opens the store in a directory, or creates one.
func Open(dir string, p *pebble.Options, g *guard.Options) (*Store, error) {
	db, err := pebbleguard.Open(dir, p, g)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, end: make(chan struct{})}
	s.close = sync.OnceValue(func() error {
		close(s.end)
		s.walks.Wait()
		return s.db.Close()
	})
	return s, nil
}

// Close closes the store, and the channels of AllKeysChan. Other calls must have ended. A second Close
// returns what the first one did.
func (s *Store) Close() error { return s.close() }

// Stats says, among other things, how many lookups did not reach the store.
func (s *Store) Stats() guard.Stats { return s.db.GuardStats() }

func (s *Store) Has(_ context.Context, c cid.Cid) (bool, error) { return s.db.Has(keyOf(c)) }

// View calls f with the bytes of a block, which are valid until f returns.
func (s *Store) View(_ context.Context, c cid.Cid, f func([]byte) error) error {
	data, closer, err := s.db.Get(keyOf(c))
	if errors.Is(err, pebble.ErrNotFound) {
		return ipld.ErrNotFound{Cid: c}
	}
	if err != nil {
		return err
	}
	defer closer.Close()
	return f(data)
}

func (s *Store) Get(ctx context.Context, c cid.Cid) (blocks.Block, error) {
	var data []byte
	if err := s.View(ctx, c, func(d []byte) error { data = bytes.Clone(d); return nil }); err != nil {
		return nil, err
	}
	return blocks.NewBlockWithCid(data, c)
}

func (s *Store) GetSize(ctx context.Context, c cid.Cid) (size int, err error) {
	size = -1
	err = s.View(ctx, c, func(data []byte) error { size = len(data); return nil })
	return size, err
}

func (s *Store) Put(ctx context.Context, b blocks.Block) error {
	return s.PutMany(ctx, []blocks.Block{b})
}

// PutMany puts all the blocks or, if it fails or is killed, none. It also writes blocks that the store
// has already.
func (s *Store) PutMany(_ context.Context, bs []blocks.Block) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	for _, b := range bs {
		if !b.Cid().Defined() {
			return errUndefined
		}
		if err := batch.Set(keyOf(b.Cid()), b.RawData(), nil); err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

func (s *Store) DeleteBlock(_ context.Context, c cid.Cid) error {
	return s.db.Delete(keyOf(c), pebble.Sync)
}

// AllKeysChan sends a raw CID for each block that the store has now. An error is logged, since a
// channel has no place for it, and ends the channel early.
func (s *Store) AllKeysChan(ctx context.Context) (<-chan cid.Cid, error) {
	it, err := s.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return nil, err
	}
	keys := make(chan cid.Cid, 100)
	s.walks.Add(1)
	go func() {
		defer s.walks.Done()
		defer close(keys)
		if err := errors.Join(s.send(ctx, it, keys), it.Close()); err != nil {
			slog.Error("blockstore: AllKeysChan ends early", "err", err)
		}
	}()
	return keys, nil
}

// send sends keys until there are no more, or the caller or the store has ended.
func (s *Store) send(ctx context.Context, it *pebble.Iterator, keys chan<- cid.Cid) error {
	for ok := it.First(); ok; ok = it.Next() {
		select {
		case keys <- cid.NewCidV1(cid.Raw, it.Key()[1:]):
		case <-ctx.Done():
			return nil
		case <-s.end:
			return nil
		}
	}
	return it.Error()
}
