package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/manifest"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// ShardOf returns which of the shards of a set has the key with a hash.
func ShardOf(hash uint64, shards int) int {
	number, _ := layout.ShardOf(hash, uint32(shards))
	return int(number)
}

// A ShardFile describes a file that [BuildShard] has made.
type ShardFile struct {
	Name     string // in the directory
	Identity uint64 // made of what it held when it was built; see layout.Superblock
	Read     uint64 // hashes that were read
	Keys     uint64 // items in the file: Read, or with Options.Distinct the different ones
	Bytes    int64
	Lost     string // what of an older file's owner and group the new one could not keep
	Found    bool   // the file was there already, and has been left alone
}

// BuildShard makes one shard of a set in the directory dir, from the hashes of its keys (see
// [Filter.Hash]), which come in blocks of any size. Its name has the number of the shard and a number
// made of what it holds: so shards that differ have different names, and the file
// of a set that is in use is never replaced (rule S3 of package sets). Options are as for [Build];
// Capacity is that of the shard. KeepHashes is not possible.
//
// If the file is there already, and whole, BuildShard leaves it alone. If a writer has changed it since,
// the new one gets another name. A damaged file, or one that is not that of the shard, is replaced. A
// hash of another shard is an error that matches [ErrOtherShard]. The other errors are those of Build.
func BuildShard(ctx context.Context, dir string, shard, shards int, opts *Options, hashes iter.Seq2[[]uint64, error]) (*ShardFile, error) {
	prefix := filepath.Join(dir, shardPrefix(shard, shards))
	s, err := buildShard(ctx, dir, prefix, shard, shards, opts, hashes)
	if err != nil {
		return nil, about("build", prefix, err)
	}
	return s, nil
}

func shardPrefix(shard, shards int) string { return fmt.Sprintf("shard-%05d-of-%05d", shard, shards) }

func buildShard(ctx context.Context, dir, prefix string, shard, shards int, opts *Options, hashes iter.Seq2[[]uint64, error]) (*ShardFile, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if shards < 1 || shards > manifest.MaxShards || shard < 0 || shard >= shards {
		return nil, optionError("shard", "%d of %d is none; there are 1 to %d", shard, shards, manifest.MaxShards)
	}
	o := opts.withDefaults()
	if o.KeepHashes {
		return nil, optionError("KeepHashes", "not possible in a shard")
	}
	o.shard = layout.Shard{Number: uint32(shard), Count: uint32(shards)}
	c := o.building()
	c.Overwrite = true // no other file has a name like that
	made := new(ShardFile)
	var built *layout.Superblock
	c.Name = func(sb *layout.Superblock, read uint64) (string, error) {
		built = sb
		made.Identity, made.Read, made.Keys = sb.ShardIdentity(), read, sb.Length()
		for written := 0; ; written++ {
			if made.Name = fmt.Sprintf("%s-%016x.mmf", filepath.Base(prefix), sb.ShardIdentity()); written > 0 {
				made.Name = fmt.Sprintf("%s-%016x-%d.mmf", filepath.Base(prefix), sb.ShardIdentity(), written)
			}
			there, err := hasShard(ctx, filepath.Join(dir, made.Name), sb)
			switch made.Found = there; {
			case errors.Is(err, errWritten):
			case err != nil || there:
				return "", err
			default:
				return made.Name, nil
			}
		}
	}
	c.Check = func() error { // another builder may have made the file meanwhile, and a writer opened it
		_, err := sameShard(filepath.Join(dir, made.Name), built)
		return err
	}
	var err error
	made.Lost, err = build.FromHashes(ctx, prefix, c, hashes)
	if errors.Is(err, ErrLocked) && built != nil { // perhaps by another builder, which has just made the same file
		if there, e := hasShard(ctx, filepath.Join(dir, made.Name), built); e == nil && there {
			made.Found, err = true, nil
		}
	}
	if err != nil {
		if errors.Is(err, build.ErrForeign) {
			err = fmt.Errorf("%w: %w", ErrOtherShard, err)
		}
		return nil, err
	}
	f, head, err := osfile.OpenFile(filepath.Join(dir, made.Name))
	if err != nil {
		return nil, err
	}
	made.Bytes = head.Size
	return made, f.Close()
}

var errWritten = errors.New("the file has been written to since it was built")

// sameShard reports whether the file at path is the one with superblock sb. If it was, and has been
// written to since, the error is errWritten.
func sameShard(path string, sb *layout.Superblock) (bool, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return false, nil // none, or a damaged one
	}
	f.Close()
	if head.Superblock.Shard() != sb.Shard() || head.Superblock.ShardIdentity() != sb.ShardIdentity() {
		return false, nil // that of something else, which no set names by this name
	}
	if *head.Superblock != *sb {
		return false, errWritten
	}
	return true, nil
}

// hasShard is sameShard for a file that is whole.
func hasShard(ctx context.Context, path string, sb *layout.Superblock) (bool, error) {
	same, err := sameShard(path, sb)
	if !same {
		return false, err
	}
	_, err = Verify(ctx, path)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return false, err
	}
	return err == nil, nil
}
