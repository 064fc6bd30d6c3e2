package osfile

import (
	"bytes"
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// ReadWords copies the part of a filter file that lookups read, from OffRuntime to the
// end of the region, into the heap. The copy is a snapshot: if the superblocks or the
// runtime page change meanwhile, ReadWords fails with ErrChanging.
func ReadWords(f *os.File, head *Head, progress func(done, total int64)) ([]uint64, error) {
	if err := Fits(layout.OffRegion + head.Geometry.RegionBytes); err != nil {
		return nil, err
	}
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+head.Geometry.RegionBytes)/8)
	data := recovery.Bytes(words)
	total := int64(len(data))
	for off := int64(0); off < total; off += populateStep {
		end := min(off+populateStep, total)
		if _, err := f.ReadAt(data[off:end], layout.OffRuntime+off); err != nil {
			return nil, readError(f, layout.OffRuntime+off, err)
		}
		if progress != nil {
			progress(end, total)
		}
	}
	var again [layout.OffStash]byte
	if _, err := f.ReadAt(again[:], 0); err != nil {
		return nil, readError(f, 0, err)
	}
	if !bytes.Equal(again[:layout.OffRuntime], head.Raw[:]) || !bytes.Equal(again[layout.OffRuntime:], data[:layout.RuntimeBytes]) {
		return nil, recovery.ErrChanging
	}
	return words, nil
}
