package main

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// What a program that imports package mmapfilter may link, beside this module.
const libraryLinks = "github.com/edsrzf/mmap-go github.com/klauspost/cpuid/v2 github.com/klauspost/crc32 github.com/zeebo/xxh3 golang.org/x/sys"

// TestConsumers does what someone does who has a proxy and an empty folder: it gets a module by its
// version, builds a program of testdata/consumer, and runs it twice. The program links what it needs and
// what the store needs, and nothing else; it needs no newer Go than the table says.
func TestConsumers(t *testing.T) {
	tree, proxy, work := readTree("../.."), t.TempDir(), t.TempDir()
	tree.writeProxy(proxy)
	// Without paths, Go compiles nothing again that the last run compiled. Sums were checked on the way
	// to the cache.
	env := append(consume(proxy, work), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GONOSUMDB=*")
	const store = "apple is red\npotato: %\nthe store was not asked for 1 key\n"
	for _, c := range []struct{ program, module, engine, goLine, prints, again string }{
		{"library", "", "", "1.24", "apple is new: true\napple may be in: true\npotato may be in: false\n", "apple is new: false\napple may be in: true\npotato may be in: false\n"},
		{"pebbleguard", "/mmapfilter/guard/pebbleguard", "github.com/cockroachdb/pebble/v2", "1.24.0", strings.Replace(store, "%", "pebble: not found", 1), ""},
		{"bboltguard", "/mmapfilter/guard/bboltguard", "go.etcd.io/bbolt", "1.25.0", strings.Replace(store, "%", "[]", 1), ""},
		{"badgerguard", "/mmapfilter/guard/badgerguard", "github.com/dgraph-io/badger/v4", "1.24.0", strings.Replace(store, "%", "Key not found", 1), ""},
		{"filterprom", "/mmapfilter/filterprom", "github.com/prometheus/client_golang/prometheus", "1.24", "mmapfilter_filter_keys 1\n", ""},
	} {
		dir, root := t.TempDir(), tree.modules[0].path()
		text := must(os.ReadFile(filepath.Join("testdata", "consumer", c.program, "main.go")))
		check(os.WriteFile(filepath.Join(dir, "main.go"), text, 0o666))
		run(dir, env, "go", "mod", "init", "example.com/consumer")
		run(dir, env, "go", "mod", "edit", "-go=1.24")
		run(dir, env, "go", "get", root+c.module+"@"+tree.version)
		run(dir, env, "go", "mod", "tidy")
		if goMod := string(must(os.ReadFile(filepath.Join(dir, "go.mod")))); !strings.Contains(goMod, "\ngo "+c.goLine+"\n") {
			t.Errorf("%s needs another Go than %s: %s", c.program, c.goLine, goMod)
		}
		linked := func(what string) []string {
			out := run(dir, env, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", what)
			return slices.Compact(slices.Sorted(slices.Values(strings.Fields(out))))
		}
		allowed := strings.Fields(libraryLinks)
		if c.engine != "" {
			allowed = append(allowed, linked(c.engine)...)
		}
		for _, module := range linked(".") {
			if !strings.HasPrefix(module, root) && !slices.Contains(allowed, module) {
				t.Errorf("%s links %s", c.program, module)
			}
		}
		run(dir, env, "go", "build", "-o", "program", ".")
		for i, want := range []string{c.prints, c.again} {
			if want == "" {
				want = c.prints
			}
			if got := run(dir, nil, "./program"); got != want {
				t.Errorf("run %d of %s prints\n%s, not\n%s", i+1, c.program, got, want)
			}
		}
	}
}

// TestArchives makes archives twice, from two clones of the last commit in folders of different names,
// and compares bytes. Then it installs the Debian package below a folder, and looks at what is there.
func TestArchives(t *testing.T) {
	here := must(filepath.Abs("../.."))
	var made [2]string
	for i := range made {
		made[i] = t.TempDir()
		dir := filepath.Join(t.TempDir(), strings.Repeat("clone", i+1))
		git(here, "clone", "-q", here, dir)
		readTree(dir).writeArchives(made[i], []string{"linux/amd64"})
		here = dir // whose last commit nobody changes
	}
	version := readTree(here).version
	names := []string{"SHA256SUMS", "mmapfilter-" + version + "-linux-amd64.tar.gz", "mmapfilter_" + version[1:] + "_amd64.deb"}
	for _, name := range names {
		if string(must(os.ReadFile(filepath.Join(made[0], name)))) != string(must(os.ReadFile(filepath.Join(made[1], name)))) {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
	run(made[0], nil, "sha256sum", "--check", "--strict", names[0])
	if _, err := exec.LookPath("dpkg"); err != nil || runtime.GOARCH != "amd64" {
		t.Skip("NOT TESTED: this is not Debian on amd64")
	}
	root := t.TempDir()
	dpkg := []string{"--root=" + root, "--force-not-root", "--path-include=/usr/share/*"}
	check(os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o777))
	check(os.MkdirAll(filepath.Join(root, "var/lib/dpkg/updates"), 0o777))
	check(os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o666))
	run("", nil, "dpkg", append(dpkg, "--install", filepath.Join(made[0], names[2]))...)
	command := filepath.Join(root, "usr/bin/mmapfilter")
	if got := run("", nil, command, "--version"); !strings.HasPrefix(got, "mmapfilter "+version+" ") {
		t.Errorf("the command of %s says it is %s", version, got)
	}
	if got := run("", nil, command, "demo"); !strings.Contains(got, "keys missing") {
		t.Errorf("the demonstration prints %s", got)
	}
	run("", nil, "bash", "-c", ". "+root+"/usr/share/bash-completion/completions/mmapfilter && complete -p mmapfilter")
	if _, err := exec.LookPath("groff"); err == nil {
		page := run("", []string{"MANPAGER=cat"}, "man", "-M", filepath.Join(root, "usr/share/man"), "mmapfilter-build")
		if !strings.Contains(page, "Build a filter from the keys in files") {
			t.Errorf("the page of build: %s", page)
		}
	}
	run("", nil, "dpkg", append(dpkg, "--purge", "mmapfilter")...)
	if left, err := os.ReadDir(filepath.Join(root, "usr")); err == nil {
		t.Errorf("the package leaves %v", left)
	}
}

// TestZip makes an archive for Windows of made files, and reads it.
func TestZip(t *testing.T) {
	b := &builder{tree: &tree{version: "v0.2.0"}, made: time.Unix(1e9, 0), files: fstest.MapFS{}}
	b.add("mmapfilter.exe", []byte("program"), 0o755)
	b.add("man/mmapfilter.1.gz", []byte("page"), 0o644)
	data := b.archives("windows", "arm64")["mmapfilter-v0.2.0-windows-arm64.zip"]
	r := must(zip.NewReader(bytes.NewReader(data), int64(len(data))))
	for _, f := range []struct {
		name, text string
		mode       fs.FileMode
	}{{"mmapfilter.exe", "program", 0o755}, {"man/mmapfilter.1.gz", "page", 0o644}} {
		name := "mmapfilter-v0.2.0-windows-arm64/" + f.name
		if text := string(must(fs.ReadFile(r, name))); text != f.text || must(fs.Stat(r, name)).Mode() != f.mode {
			t.Errorf("%s has %q and %v", name, text, must(fs.Stat(r, name)).Mode())
		}
	}
}
