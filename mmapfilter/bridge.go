package mmapfilter

import (
	"context"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
)

func init() {
	bridge.Of = func(filter any) bridge.Filter { return (*inside)(filter.(*Filter)) }
	bridge.Follow = func(f bridge.ShardFile) any { return followShard(f) }
	bridge.Shard = func(opts any, shard layout.Shard) (build.Config, error) {
		return opts.(*Options).buildingShard(shard)
	}
}

// inside is a Filter as packages sets, guard and replica see it (see package bridge).
type inside Filter

func (i *inside) Direct() *layout.Direct { return i.own.Load() }

func (i *inside) Superblock() *layout.Superblock {
	if o := i.open.Load(); o != nil {
		return o.newest()
	}
	return nil
}

func (i *inside) Path() string {
	if o := i.open.Load(); o != nil && (o.work != nil || o.info != nil) {
		return o.path
	}
	return ""
}

func (i *inside) Position() (descent uint64, at layout.Position) {
	p := (*Filter)(i).ownPosition()
	return p.Descent, layout.Position{Number: p.Number, Chain: p.Chain}
}

func (i *inside) Waits() bool { return i.waiting }

func (i *inside) Awaits() bool { return (*Filter)(i).awaits() }

func (i *inside) Release() {
	if o := i.open.Load(); o != nil {
		o.release()
	}
}

func (i *inside) InsertHashes(hashes []uint64) (n int, err error) {
	b := batch{filter: (*Filter)(i), op: layout.Insert, hashes: hashes, n: len(hashes)}
	return b.insert()
}

func (i *inside) SyncAtFunc(seq func(operations uint64) uint64) error {
	return (*Filter)(i).syncAt(seq)
}

func (i *inside) Rebuild(ctx context.Context, opts any, capacity func(items uint64) uint64, hashes func() []uint64) error {
	o := *opts.(*RebuildOptions)
	o.capacityFor, o.hashes = capacity, hashes
	return (*Filter)(i).Rebuild(ctx, &o)
}
