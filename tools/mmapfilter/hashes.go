package main

import (
	"os"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// lostHashes returns why a filter that should keep its hashes cannot be rebuilt from them, or nil.
func lostHashes(path string) error {
	for before := (layout.Superblock{}); ; {
		f, head, err := osfile.OpenFile(path)
		if err != nil {
			return nil
		}
		f.Close()
		sb := head.Superblock
		if !sb.KeepsHashes() {
			return nil
		}
		kept, err := osfile.OpenHashesOf(path, sb)
		if err == nil {
			return kept.File.Close()
		}
		if *sb == before || sb.State() != layout.Live {
			return err
		}
		before = *sb // a writer may have changed both files meanwhile
	}
}

// describeHashes describes the hashes that a filter keeps, and whether it grows by itself.
func describeHashes(path string, s mmapfilter.Stats, lost error) (hashes, growth string) {
	hashes, growth = "kept", "by itself"
	switch info, err := os.Stat(hashesOf(path)); {
	case lost != nil:
		hashes, growth = "lost: "+whatOfHashes(path, lost), "off, since the hashes are lost"
	case s.GrowthErr != "":
		growth = "off: " + s.GrowthErr
	case err == nil:
		hashes += ", " + formatSize(info.Size())
	}
	if !s.Grows {
		growth = ""
	}
	return hashes, growth
}

// growing reports whether a filter that holds more keys than it was sized for will grow by itself.
func growing(filter *mmapfilter.Filter) bool {
	s := filter.Stats()
	return s.Grows && s.GrowthErr == ""
}

// canGrow reports whether a filter can be rebuilt from its hashes.
func canGrow(filter *mmapfilter.Filter) bool {
	s := filter.Stats()
	return s.KeepsHashes && s.GrowthErr == ""
}
