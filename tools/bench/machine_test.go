package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const smapsText = `55d1a8e00000-55d1a8e02000 r--p 00000000 fe:00 1234                       /usr/bin/measure
Size:                  8 kB
Rss:                   8 kB
Pss:                   1 kB
Pss_Dirty:             0 kB
Shared_Clean:          8 kB
Shared_Dirty:          0 kB
Private_Clean:         0 kB
Private_Dirty:         0 kB
THPeligible:           0
VmFlags: rd mr mw me
7f0000000000-7f0000400000 r--s 00000000 fe:00 99                         /data/a filter: x.mmf
Rss:                4096 kB
Pss:                2048 kB
Shared_Clean:       4092 kB
Private_Clean:         4 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      2048 kB
VmFlags: rd sh mr rr
7f0000400000-7f0000800000 r--s 00400000 fe:00 99                         /data/a filter: x.mmf
Rss:                 100 kB
Pss:                 100 kB
Private_Dirty:       100 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0
Rss:                  12 kB
Pss:                  12 kB
`

func TestSmaps(t *testing.T) {
	const kB = 1024
	for name, c := range map[string]struct {
		match func(string) bool
		want  mapUse
	}{
		"all":      {func(string) bool { return true }, mapUse{4216 * kB, 2161 * kB, 2048 * kB}},
		"one file": {func(name string) bool { return name == "/data/a filter: x.mmf" }, mapUse{4196 * kB, 2148 * kB, 2048 * kB}},
		"no name":  {func(name string) bool { return name == "" }, mapUse{12 * kB, 12 * kB, 0}},
		"none":     {func(string) bool { return false }, mapUse{}},
	} {
		if got := parseSmaps(smapsText, c.match); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	rollup := "562105722000-7ffefd465000 ---p 00000000 00:00 0                          [rollup]\nRss:                1752 kB\nPss:                 329 kB\n"
	if got := parseSmaps(rollup, func(string) bool { return true }); got != (mapUse{rss: 1752 * kB, pss: 329 * kB}) {
		t.Errorf("rollup: %+v", got)
	}
}

func TestField(t *testing.T) {
	const text = "rchar: 12\nread_bytes: 8192\nVmPTE:\t      44 kB\nName:\tRssFile: 3\nodd: 3 MB\n"
	for name, want := range map[string]int64{"rchar": 12, "read_bytes": 8192, "VmPTE": 44 * 1024} {
		if got, err := field(text, name); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"bytes", "RssFile", "odd", "", "Name"} {
		if got, err := field(text, name); err == nil {
			t.Errorf("%q: %d", name, got)
		}
	}
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	write := func(name string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(name), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: the commit of a run, for there is no git here")
	}
	if got := commitOf(dir); got != "" {
		t.Errorf("%q, in a directory that is not under version control", got)
	}
	git("init", "-q")
	write("file")
	git("add", "file")
	git("commit", "-q", "-m", "first")
	clean := commitOf(dir)
	if len(clean) != 12 {
		t.Errorf("%q", clean)
	}
	for _, name := range []string{"tools/bench/PAPER.md", "tools/bench/RESULTS.md", "tools/bench/churn.csv", "tools/bench/churn-rate.svg"} {
		write(name)
		if got := commitOf(dir); got != clean {
			t.Errorf("%q, with results in %s that a run has written", got, name)
		}
	}
	write("tools/other")
	for _, at := range []string{dir, filepath.Join(dir, "tools")} {
		if got := commitOf(at); got != clean+" + changes" {
			t.Errorf("%q in %s, with a file that is in no commit", got, at)
		}
	}
}

// TestPages reads what Linux reports about the pages of this program.
func TestPages(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	if got := pagesOf(self); !strings.Contains(got, "pages") {
		t.Errorf("the pages of this program: %q", got)
	}
	if got := pagesOf("/nothing/there"); got != "" {
		t.Errorf("the pages of a file that is not mapped: %q", got)
	}
}

func TestHead(t *testing.T) {
	form := regexp.MustCompile(`^    go run \.\n\n20\d\d-\d\d-\d\d, .+, \d+ cores?; [0-9]+\.\d GiB of memory; Linux \d\S+; go1\.\S+; commit \S.*; files on \w+\n$`)
	if got := head("go run .", t.TempDir()); !form.MatchString(got) || strings.Contains(got, " 0.0 GiB") {
		t.Errorf("%s", got)
	}
}

func TestShellWords(t *testing.T) {
	if got, want := shellWords([]string{"peers", "-dir", "a b='c' d"}), `peers -dir 'a b='\''c'\'' d'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
