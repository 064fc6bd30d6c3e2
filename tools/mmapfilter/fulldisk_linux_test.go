package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// onSmallDisk runs a shell script in a directory of its own on a file system of 400 KiB. In the script,
// "$0" is the program, and what it prints to standard error is in the output.
func onSmallDisk(t *testing.T, script string) string {
	t.Helper()
	mount := `mount -t tmpfs -o size=400k none "$1" && cd "$1" && touch mounted`
	try := func(script string) (string, error) {
		program, err := os.Executable()
		noError(t, err)
		cmd := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-c", script, program, t.TempDir())
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := try(mount); err != nil {
		t.Skipf("NOT TESTED: a full disk: cannot make one here: %v\n%s", err, out)
	}
	out, err := try(mount + "\nexec 2>&1\n" + script)
	if err != nil {
		t.Errorf("%v", err)
	}
	return out
}

// TestAddOnFullDisk tests an add without room for the log. It says so, changes nothing, and can
// be resumed once there is room.
func TestAddOnFullDisk(t *testing.T) {
	out := onSmallDisk(t, `
		"$0" create -n 1k -p 1e-8 f.mmf || exit 1
		cat /dev/zero >ballast 2>/dev/null
		seq 5 | "$0" add -v f.mmf
		echo $?
		rm ballast
		seq 5 | "$0" add -v --resume f.mmf`)
	const want = `mmapfilter: f.mmf: disk full while writing f.mmf.stash; nothing was changed
2
mmapfilter: f.mmf: 5 keys added
`
	if !strings.HasSuffix(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
}

// TestSetOnFullDisk tests each task of a set without room for its files. It says so, leaves nothing
// behind, and does its work once there is room.
func TestSetOnFullDisk(t *testing.T) {
	out := onSmallDisk(t, `
		full() { # command: fails on a full disk, changes nothing, and succeeds once there is room
			cat /dev/zero >ballast 2>/dev/null
			ls spool out >before 2>/dev/null
			"$@" >/dev/null
			echo $?
			ls spool out >after 2>/dev/null
			cmp before after
			rm ballast
			"$@" -q || exit 1
		}
		mkdir spool out ref
		touch before after
		seq 5000 >keys
		"$0" build -q -n 5k --shards 2 -o ref/x.set keys || exit 1
		full "$0" set plan -n 5k --shards 2 -o plan
		full "$0" set partition --plan plan --task a --spool spool keys
		full "$0" set build --plan plan --shard 0 --spool spool --out out
		full "$0" set build --plan plan --shard 1 --spool spool --out out
		full "$0" set assemble --plan plan --spool spool --out out -o out/x.set
		for f in ref/*; do cmp $f out/${f##*/}; done
		rm -r out/*
		full "$0" build -n 5k --shards 2 -o out/x.set keys
		for f in ref/*; do cmp $f out/${f##*/}; done
		ls out | wc -l`)
	full := func(line string) bool {
		return strings.HasPrefix(line, "mmapfilter: ") && (strings.HasSuffix(line, "disk full") || strings.HasSuffix(line, "no space left on device"))
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		switch last := i == len(lines)-1; {
		case last && line == "3", i%2 == 0 && full(line), i%2 == 1 && line == "2":
		default:
			t.Errorf("line %d: %s", i+1, line)
		}
	}
	if len(lines) != 13 {
		t.Errorf("%s", out)
	}
}
