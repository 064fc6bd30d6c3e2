package main

import (
	"runtime/debug"
	"strings"
)

// version describes this program as far as the build recorded it: the version of its module, the
// revision of its source, and the version of Go.
func version(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "unknown"
	}
	words := []string{info.Main.Version}
	if words[0] == "" {
		words[0] = "(devel)"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		if settings["vcs.modified"] == "true" {
			revision += ", modified"
		}
		words = append(words, "(revision "+revision+")")
	}
	return strings.Join(append(words, info.GoVersion), " ")
}
