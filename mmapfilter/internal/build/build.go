package build

import (
	"context"
	"errors"
	"iter"

	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// FromKeys builds the file at path from keys. lost says what the new file could not get of the owner and
// group of the old one. If not all keys have room, the error is a *FullError.
func FromKeys(ctx context.Context, path string, c Config, keys iter.Seq2[[]byte, error]) (lost string, err error) {
	return build(ctx, path, c, func(b *builder) error { return b.spoolHashes(ctx, b.hashed(keys)) })
}

// FromHashes is FromKeys from the hashes of keys, many at a time. All keys must belong to the shard.
func FromHashes(ctx context.Context, path string, c Config, blocks iter.Seq2[[]uint64, error]) (lost string, err error) {
	return build(ctx, path, c, func(b *builder) error { return b.spoolHashes(ctx, blocks) })
}

// FromKept is FromKeys from the hashes that filters have kept. If a file of hashes is damaged, the
// error is an *InputError and matches recovery.ErrHashes.
func FromKept(ctx context.Context, path string, c Config, kept []recovery.Kept) (lost string, err error) {
	lost, err = build(ctx, path, c, func(b *builder) error {
		m, err := OpenKept(ctx, b.draft, c.Workers, c.MemoryBudget, kept, Joined(b.window()))
		if err != nil {
			return err
		}
		b.homes, b.came, b.inputs = m, m.entries, kept
		return nil
	})
	return lost, hashesError(err)
}

// build builds the file at path. take reads the hashes.
func build(ctx context.Context, path string, c Config, take func(b *builder) error) (lost string, err error) {
	o := osfile.DraftOptions{Mode: c.Mode}
	if c.Like != "" {
		o = osfile.DraftOptions{Like: c.Like}
	}
	draft, err := osfile.NewDraft(path, o)
	if err != nil {
		return "", err
	}
	b := &builder{Config: c, draft: draft}
	published := false
	defer func() {
		b.close()
		if !published {
			err = errors.Join(err, draft.Discard())
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if !c.Overwrite {
		if err := draft.Guard(); err != nil {
			return "", err
		}
	}
	if c.Check != nil && c.Name == nil {
		if err := c.Check(); err != nil {
			return "", err
		}
	}
	if c.Capacity > 0 { // if the disk is too small, fail before the keys are read
		if err := b.allocate(ctx, c.Capacity); err != nil {
			return "", err
		}
	}
	if err := take(b); err != nil {
		return "", err
	}
	if err := b.fromSource(ctx); err != nil {
		return "", err
	}
	if err := b.catch(b.putSuperblocks); err != nil {
		return "", err
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if c.Name != nil {
		name, err := c.Name(&b.plan.Superblock, b.came)
		if err != nil || name == "" {
			return "", err
		}
		draft.Rename(name, c.Check)
	}
	if !osfile.Replaces { // this system cannot replace an open NAME.hashes either, and an input may have it open
		for _, k := range b.inputs {
			k.File.Close()
		}
	}
	published = true // Publish discards the draft if it fails
	return draft.Lost(), draft.Publish()
}

// fromSource runs the steps from the hashes to lines and checksums.
func (b *builder) fromSource(ctx context.Context) error {
	if b.table == nil {
		n, err := b.count(ctx)
		if err != nil {
			return err
		}
		if err := b.allocate(ctx, n); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{b.fill, b.placeLeft, b.checkLimit, b.check} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
