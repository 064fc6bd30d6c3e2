//go:build unix

package main

import (
	"io"
	"testing"
)

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
	f.end("b\na\n", "a\n", exitError, "mmapfilter: f.mmf: its writer has died; run: mmapfilter recover f.mmf, or give --recover\n")
}
