package sets

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/manifest"
)

var (
	shardName = regexp.MustCompile(`^(shard-\d{5,}-of-\d{5,}-[0-9a-f]{16}(?:-\d+)?\.mmf)(?:\..*)?$`) // or what stands beside it
	builtName = regexp.MustCompile(`^shard-\d{5,}-of-\d{5,}-([0-9a-f]{8})\.built$`)
)

const manifestSuffix = ".set"

// Superseded returns, in order, the paths of the shards in a directory that no manifest there
// names, and of their logs, hashes and .built files: what is left of sets that have been replaced,
// and of builds whose set was never assembled. All manifests of these shards must be in the directory,
// under names that end with ".set"; if one of them cannot be read, that is an error. A shard that
// is being built for the next set is among the paths: call Superseded only while no build runs.
func Superseded(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	named, plans := make(map[string]bool), make(map[string]bool)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), manifestSuffix) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := manifest.Decode(data)
		if err != nil {
			return nil, &FileError{file, err.Error()}
		}
		plans[m.Plan[:min(8, len(m.Plan))]] = true
		for _, s := range m.Shards {
			named[path.Base(s.File)] = true // the manifest may know dir by another name, such as that of a link
		}
	}
	var left []string
	for _, e := range entries {
		shard, built := shardName.FindStringSubmatch(e.Name()), builtName.FindStringSubmatch(e.Name())
		if shard != nil && !named[shard[1]] || built != nil && !plans[built[1]] {
			left = append(left, filepath.Join(dir, e.Name()))
		}
	}
	return left, nil
}
