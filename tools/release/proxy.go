package main

import (
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// writeProxy writes the modules of the tree as a module proxy of files: GOPROXY=file://DIR.
func (t *tree) writeProxy(dir string) error {
	made, err := t.time()
	if err != nil {
		return err
	}
	for _, m := range t.modules {
		escaped, err := module.EscapePath(m.path())
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(at, 0o777); err != nil {
			return err
		}
		info, err := json.Marshal(struct {
			Version string
			Time    time.Time
		}{t.version, made})
		if err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(t.root, m.dir, "go.mod"))
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{"list": []byte(t.version + "\n"), t.version + ".info": info, t.version + ".mod": text} {
			if err := os.WriteFile(filepath.Join(at, name), text, 0o666); err != nil {
				return err
			}
		}
		if err := t.writeZip(m, filepath.Join(at, t.version+".zip")); err != nil {
			return err
		}
	}
	return nil
}

// writeZip writes the zip of a module, as Go makes it from the repository.
func (t *tree) writeZip(m *mod, name string) error {
	w, err := os.Create(name)
	if err != nil {
		return err
	}
	defer w.Close()
	var files []zip.File
	for _, name := range m.files {
		files = append(files, file{t.root, name, strings.TrimPrefix(strings.TrimPrefix(name, m.dir), "/")})
	}
	if !slices.Contains(m.files, path.Join(m.dir, "LICENSE")) {
		files = append(files, file{t.root, "LICENSE", "LICENSE"}) // as Go does for modules in folders
	}
	if err := zip.Create(w, module.Version{Path: m.path(), Version: t.version}, files); err != nil {
		return err
	}
	return w.Close()
}

// A file is one of the tree, and its name in a module.
type file struct{ root, name, inModule string }

func (f file) Path() string                 { return f.inModule }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// time returns the time of the last commit, which stands in whatever is made from it.
func (t *tree) time() (time.Time, error) {
	out, err := git(t.root, "log", "-1", "--format=%cI")
	if err != nil {
		return time.Time{}, err
	}
	made, err := time.Parse(time.RFC3339, strings.TrimSpace(out))
	return made.UTC(), err
}

// consume returns the environment in which Go takes the modules of the tree from a proxy, what they need
// from where it has it already, if it has, and keeps them apart from those of the user, in work.
func consume(proxy, work string) ([]string, error) {
	known, err := run("", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(known), "\n")
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + others,
		"GOMODCACHE=" + filepath.Join(work, "mod"), "GOPATH=" + filepath.Join(work, "path"), "GOBIN=", "GOWORK=off",
		"GOFLAGS=-modcacherw", "GONOSUMDB=github.com/mmapfilter", "GONOSUMCHECK=", "GOPRIVATE=", "GONOPROXY=none",
	}, nil
}
