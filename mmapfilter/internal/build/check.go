package build

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/zeebo/xxh3"
)

// checkLimit checks the number of keys against the limits, after all keys are placed.
func (b *builder) checkLimit(context.Context) error {
	if b.items < b.MinKeys {
		return fmt.Errorf("%w: %d, but there must be at least %d", ErrFewKeys, b.items, b.MinKeys)
	}
	var entries int
	var inStash uint64
	if err := b.catch(func() { entries, inStash = layout.StashUse(b.view.Stash) }); err != nil {
		return err
	}
	if place.KeysOf(b.items, inStash, entries) > b.plan.Limit {
		return &FullError{fmt.Sprintf("%d keys for a capacity of %d; more than %d %s",
			b.items, b.plan.Superblock.Capacity(), b.plan.Limit, b.plan.Beyond)}
	}
	return nil
}

// check counts the items in the lines, which proves that no key was lost, and computes the
// checksums of the chunks.
func (b *builder) check(ctx context.Context) error {
	g := b.plan.Geometry
	inLines, inStash, err := sumAll(ctx, b.Workers, b.table, g, b.draft.Data, b.checksums(), func() {
		b.report("check", 1, uint64(newPieces(g).n))
	})
	if err == nil && inLines+inStash != b.items {
		err = fmt.Errorf("placed %d items, but the lines hold %d and the stash %d", b.items, inLines, inStash)
	}
	return err
}

// checksums returns the draft's table of checksums.
func (b *builder) checksums() []byte {
	g := b.plan.Geometry
	return b.draft.Data[g.OffTable : g.OffTable+4*g.Chunks]
}

// putSuperblocks stores the trailer to the draft, and the superblock to all four slots.
func (b *builder) putSuperblocks() {
	sb, table := &b.plan.Superblock, b.checksums()
	sb.SetState(layout.Sealed)
	sb.SetLength(b.items)
	if b.First != (layout.Superblock{}) {
		sb.SetGeneration(b.First.Generation() + 1)
		sb.SetCheckpointLSN(b.First.CheckpointLSN())
		sb.SetUserSeq(b.First.UserSeq())
		sb.SetOperation(b.First.Kept().Counted(b.First.Operation()))
	}
	if b.base != nil {
		sb.SetHashes(layout.Hashes{Identity: b.Identity, Pages: b.base.tail.Number, Check: b.base.tail.Before})
		sb.SetLastTime(b.window().believed(b.LastTime))
		if sb.SetDescent(b.Identity); b.Continues != nil {
			sb.SetDescent(b.Continues.Descent())
			sb.SetExpiredBefore(b.Continues.ExpiredBefore())
		}
		sb.SetKept(b.follows(sb))
	}
	if b.Replica != nil {
		sb.SetUserSeq(b.Replica.UserSeq())
		sb.SetOperation(b.Replica.Kept().Counted(b.Replica.Operation()))
		if b.base == nil {
			sb.SetReplica(b.Replica.Descent(), b.Replica.Kept().At)
		}
	}
	id := uuid(sb, table)
	sb.SetUUID(id)
	if b.Shard.Count > 0 && sb.ShardIdentity() == 0 {
		sb.SetShardIdentity(binary.LittleEndian.Uint64(id[:]))
	}
	putSealed(b.draft.Data, b.plan.Geometry, sb)
}

// follows makes the new file follow a second history, if it is a replica with hashes: the history of the
// filter that b.Replica describes, or the history that b.Continues follows. It returns what the
// superblock says of the new file's history.
func (b *builder) follows(sb *layout.Superblock) layout.Kept {
	k := layout.Kept{At: b.base.header.At}
	switch {
	case b.Replica != nil:
		sb.SetSource(b.Replica.Descent())
		k.Followed = b.Replica.Kept().At
	case b.Continues != nil && b.Continues.Follows() && b.Continues.Kept().Set != layout.Departed:
		sb.SetSource(b.Continues.Source())
		k.Followed, k.Set = b.Continues.Kept().Followed, b.Continues.Kept().Set
	}
	return k
}

// putSealed signs the superblock of a file that has its checksums, and stores superblock and
// trailer.
func putSealed(file []byte, g layout.Geometry, sb *layout.Superblock) {
	sb.Sign()
	trailer := layout.Trailer(sb, g, file[g.OffTable:g.OffTable+4*g.Chunks])
	copy(file[g.OffTrailer:], trailer[:])
	PutCopies(file, sb)
}

// SealCopy seals a file that has the stash and the lines of another file: it adds the checksums and
// this superblock, and counts the items. The UUID derives from the UUID of the other file, its LSN,
// and the content.
func SealCopy(ctx context.Context, workers int, file []byte, g layout.Geometry, sb *layout.Superblock) error {
	table := file[g.OffTable : g.OffTable+4*g.Chunks]
	inLines, inStash, err := sumAll(ctx, workers, layout.NewTable(g), g, file, table, func() {})
	if err != nil {
		return err
	}
	if e := checkCount(sb, inLines, inStash); e != nil {
		return e
	}
	sb.SetUUID(uuid(sb, table))
	putSealed(file, g, sb)
	return nil
}

// PutCopies puts a superblock into all four slots of a file. The file is readable while one of
// the copies is intact.
func PutCopies(file []byte, sb *layout.Superblock) {
	for i := range layout.SuperblockSlots {
		copy(file[i*layout.SuperblockBytes:], sb[:])
	}
}

// uuid derives the UUID from the checksums and the superblock, which holds seed and geometry. So equal
// content has an equal UUID on every machine.
func uuid(sb *layout.Superblock, table []byte) (uuid [16]byte) {
	h := xxh3.New()
	h.Write(sb[:])
	h.Write(table)
	return h.Sum128().Bytes()
}
