package build

import (
	"cmp"
	"context"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Verify checks a file that nobody writes to, which is mapped as data, and the hashes that the filter at
// the path has kept, unless the path is "". It calls progress, from one goroutine at a time, with the
// bytes read so far and the total. If the error is not nil, the Report holds what was found up to then.
func Verify(ctx context.Context, path string, head *osfile.Head, data []byte, progress func(done, total int64)) (Report, error) {
	v := &verification{head: head, data: data, progress: progress}
	v.report.FileBytes, v.report.Sealed = head.Size, head.Superblock.State() == layout.Sealed
	err := v.run(ctx)
	if err == nil && len(v.report.Damage) == 0 && path != "" && head.Superblock.KeepsHashes() {
		err = v.checkHashes(ctx, path)
	}
	slices.SortFunc(v.report.Damage, func(a, b *layout.CorruptError) int { return cmp.Compare(a.Offset, b.Offset) })
	return v.report, err
}
