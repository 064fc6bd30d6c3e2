package main

import (
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// lostHashes says why a filter cannot be rebuilt from its hashes although it is to keep them, or
// returns nil. It does not know that of a filter that is open for writing.
func lostHashes(path string) error {
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return nil
	}
	f.Close()
	sb := head.Superblock
	if !sb.KeepsHashes() || sb.State() == layout.Live {
		return nil
	}
	kept, err := recovery.OpenHashesOf(path, sb)
	if err != nil {
		return err
	}
	return kept.Close()
}

// describeHashes describes what a filter that keeps its hashes has of them, and whether it grows.
func describeHashes(path string, s mmapfilter.Stats, lost error) (hashes, growth string) {
	hashes, growth = "kept", "by itself"
	switch info, err := os.Stat(hashesOf(path)); {
	case lost != nil:
		hashes, growth = "lost: "+whatOfHashes(path, lost), "off, since the hashes are lost"
	case err == nil:
		hashes += ", " + formatSize(info.Size())
	}
	if !s.Grows {
		growth = ""
	}
	return hashes, growth
}

// growing reports whether a filter that holds more keys than it was sized for is about to be
// rebuilt, by itself.
func growing(filter *mmapfilter.Filter) bool {
	s := filter.Stats()
	return s.Grows && s.GrowthErr == ""
}

// canGrow reports whether a filter can be rebuilt from its hashes.
func canGrow(filter *mmapfilter.Filter) bool {
	s := filter.Stats()
	return s.KeepsHashes && s.GrowthErr == ""
}
