package mmapfilter

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A fileImage is a filter file and its logs at one instant.
type fileImage struct {
	filter []uint64
	logs   [2][]uint64
}

// volume returns a volume in the heap with a copy of an image. It opens faster than files do.
func (im fileImage) volume() *tabletest.Volume {
	v := &tabletest.Volume{File: new(tabletest.File)}
	im.restore(v)
	return v
}

// restore makes a volume hold a copy of an image.
func (im fileImage) restore(v *tabletest.Volume) {
	v.File.Mem = append(v.File.Mem[:0], im.filter...)
	for name, words := range im.logs {
		switch log := v.Mu.Logs[name]; {
		case words == nil:
			v.Mu.Logs[name] = nil
		case log == nil:
			v.Mu.Logs[name] = &tabletest.File{Mem: slices.Clone(words)}
		default:
			log.Mem = append(log.Mem[:0], words...)
		}
	}
}

// imageOf returns a copy of the contents of a volume.
func imageOf(v *tabletest.Volume) fileImage {
	im := fileImage{filter: slices.Clone(v.File.Mem)}
	for name, log := range v.Mu.Logs {
		if log != nil {
			im.logs[name] = slices.Clone(log.Mem)
		}
	}
	return im
}

// write writes an image to files.
func (im fileImage) write(t *testing.T, path string) {
	t.Helper()
	for suffix, words := range map[string][]uint64{"": im.filter, ".stash": im.logs[0], ".stash.new": im.logs[1]} {
		if words != nil {
			must(t, os.WriteFile(path+suffix, recovery.Bytes(words), 0o600))
		} else if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
