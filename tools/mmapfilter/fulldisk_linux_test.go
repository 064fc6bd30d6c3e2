package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestAddOnFullDisk tests an add without room for the log. It says so, changes nothing, and can
// be resumed once there is room.
func TestAddOnFullDisk(t *testing.T) {
	mount := `mount -t tmpfs -o size=400k none "$1" && cd "$1" && touch mounted`
	try := func(script string) (string, error) {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-c", script, program, t.TempDir())
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := try(mount); err != nil {
		t.Skipf("NOT TESTED: a full disk: cannot make one here: %v\n%s", err, out)
	}
	out, err := try(mount + `
		exec 2>&1
		"$0" create -n 1k -f 30 f.mmf || exit 1
		cat /dev/zero >ballast 2>/dev/null
		seq 5 | "$0" add -v f.mmf
		echo $?
		rm ballast
		seq 5 | "$0" add -v --resume f.mmf`)
	const want = `mmapfilter: f.mmf: disk full while writing f.mmf.stash; nothing was changed
2
mmapfilter: f.mmf: 5 keys added
`
	if !strings.HasSuffix(out, want) || err != nil {
		t.Errorf("%s%v, want %s", out, err, want)
	}
}
