package sets

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

var (
	shardName = regexp.MustCompile(`^(shard-\d{5,}-of-\d{5,}-[0-9a-f]{16}(?:-\d+)?\.mmf)(?:\..*)?$`) // or a file beside it
	builtName = regexp.MustCompile(`^shard-\d{5,}-of-\d{5,}-([0-9a-f]{8})\.built$`)
)

const manifestSuffix = ".set"

// Superseded returns, in order, the paths of the shards in a directory that no manifest there names,
// and of their logs, hashes and .built files. These files are left over from sets that have been
// replaced, and from builds whose set was never assembled. All manifests of these shards must be in the
// directory, under names that end with ".set"; if a manifest cannot be read, Superseded returns an
// error. A shard that is being built for the next set is among the paths, so call Superseded only while
// no build runs.
func Superseded(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all, err := manifests(dir, entries, "")
	if err != nil {
		return nil, err
	}
	named, plans := make(map[string]bool), make(map[string]bool)
	for _, m := range all {
		plans[m.Plan[:min(8, len(m.Plan))]] = true
		for _, s := range m.Shards {
			named[path.Base(s.File)] = true // compare base names: the manifest may know dir by another name, such as a link
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

// manifests returns the manifests in a directory by path, and leaves out the file whose name the
// parameter but has. Filters, and files that are not regular, are no manifests. If any other file
// cannot be read, manifests returns an error, since the file may be a manifest that names shards. It
// also returns an error for a link to nothing, since its target may come back.
func manifests(dir string, entries []fs.DirEntry, but string) (map[string]*manifest, error) {
	all := make(map[string]*manifest)
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(file, manifestSuffix) || e.Name() == but {
			continue
		}
		info, err := os.Stat(file)
		if gone := errors.Is(err, fs.ErrNotExist) && e.Type()&fs.ModeSymlink == 0; gone || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if f, _, err := osfile.OpenFile(file); err == nil {
			f.Close()
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if all[file], err = decodeManifest(data); err != nil {
			return nil, &FileError{file, err.Error()}
		}
	}
	return all, nil
}

// others returns the manifests in the directory of shards, except the manifest at the path set.
func others(dir, set string) (map[string]*manifest, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	here, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	replaced := ""
	if beside, err := os.Stat(filepath.Dir(set)); err == nil && os.SameFile(here, beside) {
		replaced = filepath.Base(set)
	}
	return manifests(dir, entries, replaced)
}
