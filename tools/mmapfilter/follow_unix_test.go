//go:build unix

package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestCutFile truncates a file while a command looks up keys in it. The command must end with an error
// that names the file, not with a signal.
func TestCutFile(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, manyLines(0, 1000), "-n", "3k")
	must(t, manyLines(0, 1000), "build", "-q", "-p", "1e-8", "--shards", "1", "-o", "f.set")
	must(t, manyLines(0, 1000), "add", "f.mmf")
	for _, c := range []struct{ command, cut string }{
		{"check f.mmf", "f.mmf"}, {"check --follow f.mmf", "f.mmf"}, {"add -v --resume f.mmf", "f.mmf"},
		{"check f.set", "shard-*.mmf"}, {"check --follow f.set", "shard-*.mmf"},
	} {
		name := oneFile(t, c.cut)
		whole, err := os.ReadFile(name)
		noError(t, err)
		f := typeTo(t, strings.Fields(c.command)...)
		if strings.HasPrefix(c.command, "check") {
			f.ask("0\n", "0\n")
		} else {
			f.ask("0\n", "")
			f.typed.Write(nil) // waits until the line has been compared
		}
		noError(t, os.Truncate(name, 4096))
		go func() {
			io.WriteString(f.typed, manyLines(1, 999))
			f.typed.Close()
		}()
		io.Copy(io.Discard, f.lines) // until the command notices, it may print any key
		if exit := <-f.exit; exit != exitError || !strings.Contains(f.stderr.String(), name+": damaged ") {
			t.Errorf("%s: exit %d, %s", c.command, exit, &f.stderr)
		}
		noError(t, os.WriteFile(name, whole, 0o666))
	}
}

// TestFollowTellsOfDeath checks that the death of a writer is reported once, and that its
// committed keys are still found.
func TestFollowTellsOfDeath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, _ := startProgram(t, dir, "add", "--sync-every", "1", "f.mmf")
	io.WriteString(stdin, "a\n")
	eventually(t, "the key is seen", func() bool { return visible(t, "a") })
	f := followHere(t, "f.mmf")
	f.ask("b\na\n", "a\n")
	cmd.Process.Kill()
	cmd.Wait()
	f.ask("b\na\n", "a\n")
	f.endWith("b\na\n", "a\n", exitError, "mmapfilter: f.mmf: its writer has died; run: mmapfilter recover f.mmf, or give --recover\n")
}
