package sets

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// ShardOf returns the number of the shard to which a key with this hash belongs.
func ShardOf(hash uint64, shards int) int {
	number, _ := layout.ShardOf(hash, uint32(shards))
	return int(number)
}

// BuildShardFrom builds a shard from hashes that the caller has: [Plan.Hash] of all keys of the shard,
// in blocks of any size. It writes no Built. The name of the file has the number of the shard and a
// number computed from its content. So shards that differ have different names, and a file of a set in
// use is never replaced (S3).
//
// If the file already exists and is whole, BuildShardFrom leaves it alone. If a writer has changed it
// since it was built, the new file gets another name. A file that is damaged, or is not this shard, is
// replaced. If a hash belongs to another shard, the error matches [mmapfilter.ErrOtherShard]. Other
// errors are those of [mmapfilter.Build].
func BuildShardFrom(ctx context.Context, p *Plan, shard int, out string, w Work, hashes iter.Seq2[[]uint64, error]) (*Built, error) {
	if shard < 0 || shard >= p.Shards {
		return nil, &mmapfilter.OptionError{Field: "shard", Reason: fmt.Sprintf("%d of %d is none", shard, p.Shards)}
	}
	o, err := p.Options()
	if err != nil {
		return nil, err
	}
	o.Mode, o.MemoryBudget, o.Workers, o.Progress = w.Mode, w.MemoryBudget, w.Workers, w.Progress
	prefix := filepath.Join(out, shardPrefix(shard, p.Shards))
	b := &Built{Format: builtFormat, Version: 1, Plan: p.ID(), Shard: shard}
	if err := b.make(ctx, prefix, layout.Shard{Number: uint32(shard), Count: uint32(p.Shards)}, o, hashes); err != nil {
		return nil, about("build", prefix, err)
	}
	return b, nil
}

func shardPrefix(shard, shards int) string { return fmt.Sprintf("shard-%05d-of-%05d", shard, shards) }

// make builds the file, and sets the fields of b.
func (b *Built) make(ctx context.Context, prefix string, shard layout.Shard, opts *mmapfilter.Options, hashes iter.Seq2[[]uint64, error]) error {
	c, err := bridge.Shard(opts, shard)
	if err != nil {
		return err
	}
	path := func() string { return filepath.Join(filepath.Dir(prefix), b.File) }
	var built *layout.Superblock
	c.Overwrite = true // no other file has a name like that
	c.Name = func(sb *layout.Superblock, read uint64) (string, error) {
		built = sb
		b.Identity, b.Read, b.Keys = Hex(sb.ShardIdentity()), read, sb.Length()
		for written := 0; ; written++ {
			if b.File = fmt.Sprintf("%s-%016x.mmf", filepath.Base(prefix), sb.ShardIdentity()); written > 0 {
				b.File = fmt.Sprintf("%s-%016x-%d.mmf", filepath.Base(prefix), sb.ShardIdentity(), written)
			}
			there, err := hasShard(ctx, path(), sb)
			switch b.found = there; {
			case errors.Is(err, errWritten):
			case err != nil || there:
				return "", err
			default:
				return b.File, nil
			}
		}
	}
	c.Check = func() error { // another builder may have built the file meanwhile, and a writer opened it
		_, err := sameShard(path(), built)
		return err
	}
	_, err = build.FromHashes(ctx, prefix, c, hashes)
	if errors.Is(err, mmapfilter.ErrLocked) && built != nil { // perhaps by another builder, which has just built the same file
		if there, e := hasShard(ctx, path(), built); e == nil && there {
			b.found, err = true, nil
		}
	}
	if errors.Is(err, build.ErrForeign) {
		err = fmt.Errorf("%w: %w", mmapfilter.ErrOtherShard, err)
	}
	if err != nil {
		return err
	}
	f, head, err := osfile.OpenFile(path())
	if err != nil {
		return err
	}
	b.Bytes = head.Size
	return f.Close()
}

var errWritten = errors.New("the file has been written to since it was built")

// sameShard reports whether the file at path has superblock sb. If the file had this superblock
// once, and has been written to since, the error is errWritten.
func sameShard(path string, sb *layout.Superblock) (bool, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return false, nil // no file, or a damaged one
	}
	f.Close()
	if head.Superblock.Shard() != sb.Shard() || head.Superblock.ShardIdentity() != sb.ShardIdentity() {
		return false, nil // another file: no set uses it under this name
	}
	if *head.Superblock != *sb {
		return false, errWritten
	}
	return true, nil
}

// hasShard is sameShard, but reports false if the file is damaged.
func hasShard(ctx context.Context, path string, sb *layout.Superblock) (bool, error) {
	for tries := 1; ; tries++ {
		same, err := sameShard(path, sb)
		if !same {
			return false, err
		}
		_, err = mmapfilter.Verify(ctx, path)
		switch {
		case errors.Is(err, mmapfilter.ErrBusy) && tries < mostTries: // another builder has replaced it with the same file
		case errors.Is(err, mmapfilter.ErrCorrupt):
			return false, nil
		default:
			return err == nil, err
		}
	}
}

// mostTries is how many builders may replace a file with the same file while it is verified.
const mostTries = 10
