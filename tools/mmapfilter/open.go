package main

import "github.com/mmapfilter/mmapfilter/mmapfilter/sets"

// isSet reports whether the file at a path is the manifest of a set.
func isSet(path string) bool {
	set, _ := sets.IsSet(path)
	return set
}
