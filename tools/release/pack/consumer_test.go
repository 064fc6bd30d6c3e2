package main

import (
	"archive/zip"
	"bytes"
	"go/format"
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

// libraryLinks are the modules that a program that imports package mmapfilter may link beside this one.
const libraryLinks = "github.com/edsrzf/mmap-go github.com/klauspost/cpuid/v2 github.com/klauspost/crc32 github.com/zeebo/xxh3 golang.org/x/sys"

// A guide is what the README of a guard shows: a command, a program without and with the guard, and what
// the program prints.
type guide struct{ get, before, after, prints string }

// readGuide reads a README, in which the two programs are in a block that is a diff.
func readGuide(name string) (g guide) {
	diff := false
	for line := range strings.Lines(string(must(os.ReadFile(name)))) {
		switch {
		case strings.HasPrefix(line, "```"):
			diff = !diff
		case diff && line == "\n":
			g.before, g.after = g.before+line, g.after+line
		case diff && line[0] == '-':
			g.before += line[1:]
		case diff && line[0] == '+':
			g.after += line[1:]
		case diff && line[0] == ' ':
			g.before, g.after = g.before+line[1:], g.after+line[1:]
		case diff:
			refuse("%s: a line of a diff is %q", name, line)
		case strings.HasPrefix(line, "    go get "):
			g.get += strings.TrimSpace(line)
		case strings.HasPrefix(line, "    "):
			g.prints += line[4:]
		}
	}
	return g
}

// A consumer gets modules from a proxy that serves the tree. env names the proxy.
type consumer struct {
	tree *tree
	env  []string
}

// module creates a module with the given files, and runs the command get, which must get the module at
// path in the version of the tree.
func (c consumer) module(t *testing.T, get, path string, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(dir, files)
	run(dir, c.env, "go", "mod", "init", "example.com/consumer")
	run(dir, c.env, "go", "mod", "edit", "-go=1.24")
	if want := "go get " + c.tree.modules[0].path() + path + "@" + c.tree.version; get != want {
		t.Errorf("the command is %q, not %q", get, want)
	}
	run(dir, c.env, "go", strings.Fields(get)[1:]...)
	run(dir, c.env, "go", "mod", "tidy")
	return dir
}

// TestConsumers does what a user with a proxy and an empty directory does: it gets a module by its
// version, builds the program of testdata/consumer or of a README, and runs it twice. The program must
// link only modules that it or the store needs, and must need the Go version in the table. Without the
// guard, the program must print the same, except the last line.
func TestConsumers(t *testing.T) {
	tree, proxy := readTree("../../.."), t.TempDir()
	tree.writeProxy(proxy)
	// With -trimpath, Go does not compile again what the last run compiled. The sums of other modules
	// were checked when they came into the cache.
	env := append(consume(proxy, t.TempDir()), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0", "GOTOOLCHAIN=local", "GONOSUMDB=*")
	all, root := consumer{tree, env}, tree.modules[0].path()
	const rest = "apple may be in: true\npotato may be in: false\n"
	for _, c := range []struct{ program, module, engine, goLine, prints, again string }{
		{"library", "", "", "1.24", "apple is new: true\n" + rest, "apple is new: false\n" + rest},
		{"filterprom", "/mmapfilter/filterprom", "github.com/prometheus/client_golang/prometheus", "1.24", "mmapfilter_filter_keys 1\n", ""},
		{"pebbleguard", "/mmapfilter/guard/pebbleguard", "github.com/cockroachdb/pebble/v2", "1.24.0", "", ""},
		{"bboltguard", "/mmapfilter/guard/bboltguard", "go.etcd.io/bbolt", "1.25.0", "", ""},
		{"badgerguard", "/mmapfilter/guard/badgerguard", "github.com/dgraph-io/badger/v4", "1.24.0", "", ""},
	} {
		var g guide
		if c.prints != "" {
			text := must(os.ReadFile(filepath.Join("testdata", "consumer", c.program, "main.go")))
			g = guide{get: "go get " + root + c.module + "@" + tree.version, after: string(text), prints: c.prints}
		} else {
			g = readGuide("../../.." + c.module + "/README.md")
		}
		if c.again == "" {
			c.again = g.prints
		}
		files := map[string]string{"main.go": g.after}
		if g.before != "" {
			files["before/main.go"] = g.before
		}
		for name, text := range files {
			if string(must(format.Source([]byte(text)))) != text {
				t.Errorf("gofmt would change %s of %s", name, c.program)
			}
		}
		dir := all.module(t, g.get, c.module, files)
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
		for name := range files {
			run(filepath.Join(dir, filepath.Dir(name)), env, "go", "build", "-o", "program", ".")
		}
		for i, want := range []string{g.prints, c.again} {
			if got := run(dir, nil, "./program"); got != want {
				t.Errorf("run %d of %s prints\n%s, not\n%s", i+1, c.program, got, want)
			}
		}
		if g.before != "" {
			got := run(filepath.Join(dir, "before"), nil, "./program")
			if last, ok := strings.CutPrefix(g.prints, got); !ok || strings.Count(last, "\n") != 1 {
				t.Errorf("without %s, the program prints\n%s", c.program, got)
			}
		}
	}
	t.Run("adapter", func(t *testing.T) { testAdapter(t, all) })
}

// testAdapter runs the example of package guard in a module of its own. The example must have the
// program that the README of the package shows.
func testAdapter(t *testing.T, c consumer) {
	const path = "/mmapfilter/guard"
	g, name := readGuide("../../.."+path+"/README.md"), "example_test.go"
	example := string(must(os.ReadFile(filepath.Join("../../..", path, name))))
	if g.before == "" || !strings.Contains(example, g.after) {
		t.Errorf("%s does not have\n%s", name, g.after)
	}
	dir := c.module(t, g.get, path, map[string]string{name: example})
	run(dir, c.env, "go", "test", "-run", "^Example$", ".")
}

// TestArchives builds archives twice, from two clones of the last commit in directories with different
// names, and compares their bytes. Then it installs the Debian package below a directory, and checks its
// files.
func TestArchives(t *testing.T) {
	here := must(filepath.Abs("../../.."))
	var made [2]string
	for i := range made {
		made[i] = t.TempDir()
		dir := filepath.Join(t.TempDir(), strings.Repeat("clone", i+1))
		git(here, "clone", "-q", here, dir)
		readTree(dir).writeArchives(made[i], []string{"linux/amd64"})
		here = dir // the last commit of a clone stays the same
	}
	version := readTree(here).version
	names := []string{"SHA256SUMS", "mmapfilter-" + version + "-linux-amd64.tar.gz", "mmapfilter_" + version[1:] + "_amd64.deb"}
	for _, name := range names {
		if string(must(os.ReadFile(filepath.Join(made[0], name)))) != string(must(os.ReadFile(filepath.Join(made[1], name)))) {
			t.Errorf("%s has other bytes in the second archive", name)
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
	testUnit(t, root, command)
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

// testUnit runs the command of the unit of an installed package, as far as that works without systemd.
func testUnit(t *testing.T, root, command string) {
	unit := string(must(os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/mmapfilter.service"))))
	here := filepath.Join(t.TempDir(), "mmapfilter.service")
	check(os.WriteFile(here, []byte(strings.ReplaceAll(unit, "/usr/bin/mmapfilter", command)), 0o666))
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		run("", nil, "systemd-analyze", "verify", here)
	}
	_, words, found := strings.Cut(unit, "ExecStart=/usr/bin/mmapfilter ")
	words, _, _ = strings.Cut(words, "\n")
	words = strings.NewReplacer("%S/mmapfilter", filepath.Join(root, "none"), "$FLAGS", "--listen 127.0.0.1:0").Replace(words)
	out, err := exec.Command(command, strings.Fields(words)...).CombinedOutput()
	if !found || err == nil || !strings.Contains(string(out), "no such file or directory") { // the command fails only when it opens the directory
		t.Errorf("%s: %v, %s", words, err, out)
	}
}

// TestZip builds an archive for Windows from two small files, and reads it.
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
