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
func (t *tree) writeProxy(dir string) {
	info := must(json.Marshal(map[string]any{"Version": t.version, "Time": t.time()}))
	for _, m := range t.modules {
		at := filepath.Join(dir, filepath.FromSlash(must(module.EscapePath(m.path()))), "@v")
		check(os.MkdirAll(at, 0o777))
		check(os.WriteFile(filepath.Join(at, "list"), []byte(t.version+"\n"), 0o666))
		check(os.WriteFile(filepath.Join(at, t.version+".info"), info, 0o666))
		check(os.WriteFile(filepath.Join(at, t.version+".mod"), must(os.ReadFile(filepath.Join(t.root, m.dir, "go.mod"))), 0o666))
		t.writeZip(m, filepath.Join(at, t.version+".zip"))
	}
}

// writeZip writes the zip of a module, as Go makes it from the repository.
func (t *tree) writeZip(m *mod, name string) {
	w := must(os.Create(name))
	defer w.Close()
	var files []zip.File
	for _, name := range m.files {
		files = append(files, file{t.root, name, strings.TrimPrefix(strings.TrimPrefix(name, m.dir), "/")})
	}
	if !slices.Contains(m.files, path.Join(m.dir, "LICENSE")) {
		files = append(files, file{t.root, "LICENSE", "LICENSE"}) // as Go does for modules in folders
	}
	check(zip.Create(w, module.Version{Path: m.path(), Version: t.version}, files))
	check(w.Close())
}

// A file is a file of the tree, with its name in a module.
type file struct{ root, name, inModule string }

func (f file) Path() string                 { return f.inModule }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// time returns the time of the last commit, which all archives carry.
func (t *tree) time() time.Time {
	return must(time.Parse(time.RFC3339, strings.TrimSpace(git(t.root, "log", "-1", "--format=%cI")))).UTC()
}

// consume returns an environment in which Go takes the modules of the tree from a proxy, and keeps all
// modules in the folder work, apart from the user's.
func consume(proxy, work string) []string {
	cache, others, _ := strings.Cut(strings.TrimSpace(run("", nil, "go", "env", "GOMODCACHE", "GOPROXY")), "\n")
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + others,
		"GOMODCACHE=" + filepath.Join(work, "mod"), "GOPATH=" + filepath.Join(work, "path"), "GOBIN=", "GOWORK=off",
		"GOFLAGS=-modcacherw", "GONOSUMDB=github.com/mmapfilter", "GONOPROXY=", "GOPRIVATE=",
	}
}
