package machine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

func TestParseSmaps(t *testing.T) {
	const kB = 1024
	for name, c := range map[string]struct {
		match func(string) bool
		want  MapUse
	}{
		"all":      {func(string) bool { return true }, MapUse{4216 * kB, 2161 * kB, 2048 * kB}},
		"one file": {func(name string) bool { return name == "/data/a filter: x.mmf" }, MapUse{4196 * kB, 2148 * kB, 2048 * kB}},
		"no name":  {func(name string) bool { return name == "" }, MapUse{12 * kB, 12 * kB, 0}},
		"none":     {func(string) bool { return false }, MapUse{}},
	} {
		if got, err := ParseSmaps(strings.NewReader(smapsText), c.match); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	rollup := "562105722000-7ffefd465000 ---p 00000000 00:00 0                          [rollup]\nRss:                1752 kB\nPss:                 329 kB\n"
	if got, err := ParseSmaps(strings.NewReader(rollup), func(string) bool { return true }); err != nil || got != (MapUse{Rss: 1752 * kB, Pss: 329 * kB}) {
		t.Errorf("rollup: %+v, %v", got, err)
	}
}

func TestFindField(t *testing.T) {
	const text = "rchar: 12\nread_bytes: 8192\nVmPTE:\t      44 kB\nName:\tRssFile: 3\nodd: 3 MB\n"
	for field, want := range map[string]int64{"rchar": 12, "read_bytes": 8192, "VmPTE": 44 * 1024} {
		if got, err := FindField(text, field); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", field, got, err, want)
		}
	}
	for _, field := range []string{"bytes", "RssFile", "odd", "", "Name"} {
		if got, err := FindField(text, field); err == nil {
			t.Errorf("%q: %d", field, got)
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
		t.Errorf("%q, where nothing is under version control", got)
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

// TestPages reads what Linux says about this program itself.
func TestPages(t *testing.T) {
	if got := (MapUse{Rss: 4 << 20, Large: 3 << 20}).pages(); got != "75 % in large pages" {
		t.Errorf("%q", got)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/smaps"); err == nil && !strings.Contains(Pages(self), "pages") {
		t.Errorf("the pages of this program: %q", Pages(self))
	}
	if got := Pages("/nothing/there"); got != "" {
		t.Errorf("the pages of what is not mapped: %q", got)
	}
}

func TestHead(t *testing.T) {
	if head := (Machine{}).Head("x", t.TempDir()); !strings.Contains(head, "; commit not recorded; files on ") {
		t.Errorf("%s", head)
	}
	head := (Machine{Processor: "P", Cores: 1, System: "S", Go: "G", Commit: "0123456789ab"}).Head("go run .", t.TempDir())
	if !strings.HasPrefix(head, "    go run .\n\n0001-01-01, P, 1 core; memory unknown; S; G; commit 0123456789ab; files on ") {
		t.Errorf("%s", head)
	}
}

func TestMachine(t *testing.T) {
	if got, want := (Machine{Processor: "P", Cores: 1, System: "S", Go: "G"}).String(), "P, 1 core; memory unknown; S; G"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	two := Machine{Processor: "P", Cores: 2, MemoryBytes: 8 << 30, System: "Linux 6.1.0-amd64", Go: "go1.24.0"}
	if got, want := two.String(), "P, 2 cores; 8.0 GiB of memory; Linux 6.1.0-amd64; go1.24.0"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	m := This()
	if m.Processor == "" || m.Cores < 1 || m.System == "" || m.Go == "" || m.Date.IsZero() {
		t.Errorf("%+v", m)
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && (m.MemoryBytes < 64<<20 || !strings.HasPrefix(m.System, "Linux ")) {
		t.Errorf("%+v", m)
	}
}

func TestShellWords(t *testing.T) {
	if got, want := ShellWords([]string{"peers", "-dir", "a b='c' d"}), `peers -dir 'a b='\''c'\'' d'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
