package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

const allSystems = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// A builder makes archives of the command in a folder of its own.
type builder struct {
	*tree
	made  time.Time
	work  string
	env   []string // of builds
	files fstest.MapFS
}

// writeArchives writes the archives of the command for systems, its Debian packages, and checksums. It
// builds the command as `go install` does: from the modules of a proxy.
func (t *tree) writeArchives(dir string, systems []string) {
	dir = t.newFolder(dir)
	b := &builder{tree: t, made: t.time(), work: must(os.MkdirTemp("", "release-")), files: fstest.MapFS{}}
	defer os.RemoveAll(b.work)
	t.writeProxy(filepath.Join(b.work, "proxy"))
	b.env = append(consume(filepath.Join(b.work, "proxy"), b.work),
		"GOFLAGS=-modcacherw -trimpath -ldflags=-s", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0",
		"GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=", "GOENV=off", "GOSUMDB="+strings.TrimSpace(run("", nil, "go", "env", "GOSUMDB")))
	b.addShared()
	var sums strings.Builder
	for _, system := range systems {
		goos, goarch, _ := strings.Cut(system, "/")
		program := b.command(goos, goarch)
		b.add(filepath.Base(program), must(os.ReadFile(program)), 0o755)
		archives := b.archives(goos, goarch)
		delete(b.files, filepath.Base(program))
		for _, name := range slices.Sorted(maps.Keys(archives)) {
			check(os.WriteFile(filepath.Join(dir, name), archives[name], 0o666))
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archives[name]), name)
		}
	}
	check(os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o666))
}

// add adds a file to the archives.
func (b *builder) add(name string, data []byte, mode fs.FileMode) {
	b.files[name] = &fstest.MapFile{Data: data, Mode: mode, ModTime: b.made}
}

// addShared adds the files that the archives of all systems have: documents, a unit of systemd, and the
// manual pages and completions that the command prints.
func (b *builder) addShared() {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "tools/release/pack/mmapfilter.service"} {
		b.add(filepath.Base(name), must(os.ReadFile(filepath.Join(b.root, name))), 0o644)
	}
	command, manual := b.command(runtime.GOOS, runtime.GOARCH), filepath.Join(b.work, "man")
	for _, shell := range []string{"bash", "fish", "zsh"} {
		b.add("completion/"+shell, []byte(run(b.work, nil, command, "completion", shell)), 0o644)
	}
	run(b.work, nil, command, "man", manual)
	for _, page := range must(os.ReadDir(manual)) {
		b.add("man/"+page.Name()+".gz", packed(must(os.ReadFile(filepath.Join(manual, page.Name())))), 0o644)
	}
}

// command builds the command for a system and returns the path of the program.
func (b *builder) command(goos, goarch string) string {
	run(b.work, append(b.env, "GOOS="+goos, "GOARCH="+goarch), "go", "install", b.modules[0].path()+"/tools/mmapfilter@"+b.version)
	program := fmt.Sprintf("%s/path/bin/%s_%s/mmapfilter", b.work, goos, goarch)
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		program = b.work + "/path/bin/mmapfilter"
	}
	if goos == "windows" {
		program += ".exe"
	}
	return program
}

// archives returns the archives of the files for a system, by name.
func (b *builder) archives(goos, goarch string) map[string][]byte {
	folder := fmt.Sprintf("mmapfilter-%s-%s-%s", b.version, goos, goarch)
	within := fstest.MapFS{}
	for name, file := range b.files {
		within[folder+"/"+name] = file
	}
	for _, name := range []string{"", "/man", "/completion"} {
		within[folder+name] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: b.made}
	}
	var out bytes.Buffer
	if goos == "windows" {
		w := zip.NewWriter(&out)
		check(w.AddFS(within))
		check(w.Close())
		return map[string][]byte{folder + ".zip": out.Bytes()}
	}
	w := tar.NewWriter(&out)
	check(w.AddFS(within))
	check(w.Close())
	archives := map[string][]byte{folder + ".tar.gz": packed(out.Bytes())}
	if goos == "linux" {
		archives[fmt.Sprintf("mmapfilter_%s_%s.deb", b.version[1:], goarch)] = b.debian(goarch)
	}
	return archives
}

func packed(data []byte) []byte {
	var out bytes.Buffer
	w := must(gzip.NewWriterLevel(&out, gzip.BestCompression))
	must(w.Write(data))
	check(w.Close())
	return out.Bytes()
}

// debianPlaces says where Debian packages put the files of the archives.
var debianPlaces = map[string]string{
	"mmapfilter":      "/usr/bin/mmapfilter",
	"completion/bash": "/usr/share/bash-completion/completions/mmapfilter",
	"completion/fish": "/usr/share/fish/vendor_completions.d/mmapfilter.fish",
	"completion/zsh":  "/usr/share/zsh/vendor-completions/_mmapfilter",
	"LICENSE":         "/usr/share/doc/mmapfilter/copyright",

	"mmapfilter.service": "/usr/lib/systemd/system/mmapfilter.service",
}

// debian returns a Debian package of the files.
func (b *builder) debian(goarch string) []byte {
	dir := filepath.Join(b.work, "deb-"+goarch)
	check(os.CopyFS(dir, b.files))
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "mmapfilter", Arch: goarch, Version: b.version, Section: "database", Priority: "optional", MTime: b.made,
		Maintainer:  "The maintainers of mmapfilter <mmapfilter@users.noreply.github.com>",
		Homepage:    "https://" + b.modules[0].path(),
		Description: "cuckoo filters in memory-mapped files\nBuilds, updates and asks filters: sets of keys that say \"certainly not\" or \"maybe\".\nMany processes share a file, and it survives crashes.",
	})
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		place, ok := debianPlaces[name]
		if man, isPage := strings.CutPrefix(name, "man/"); isPage {
			place = "/usr/share/man/man1/" + man
		} else if !ok {
			place = "/usr/share/doc/mmapfilter/" + name
		}
		own := &files.ContentFileInfo{Owner: "root", Group: "root", Mode: b.files[name].Mode, MTime: b.made}
		info.Contents = append(info.Contents, &files.Content{Source: filepath.Join(dir, name), Destination: place, FileInfo: own})
	}
	check(nfpm.PrepareForPackager(info, "deb"))
	var out bytes.Buffer
	check(deb.Default.Package(info, &out))
	return out.Bytes()
}
