//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// With this in its environment, the test binary is the program.
const asProgram = "MMAPFILTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// startBuild starts a build that waits for more keys, in a directory of its
// own, and returns when it has begun.
func startBuild(t *testing.T, command ...string) (cmd *exec.Cmd, stdin io.WriteCloser) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command = append(command, program, "build", "-q", "-o", "f.mmf")
	cmd = exec.Command(command[0], command[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	for range 1000 {
		if drafts, _ := filepath.Glob(filepath.Join(cmd.Dir, "f.mmf.tmp-*")); drafts != nil {
			return cmd, stdin
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the build does not begin")
	return nil, nil
}

// A signal ends a build in order, and then the process as a signal does.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, _ := startBuild(t)
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != s {
			t.Errorf("%v: %v", s, cmd.ProcessState)
		}
		if entries, err := os.ReadDir(cmd.Dir); err != nil || len(entries) > 0 {
			t.Errorf("%v: %v, %v is left", s, err, entries)
		}
	}
}

// Signals that are ignored when the program starts stay so.
func TestIgnoredSignals(t *testing.T) {
	cmd, stdin := startBuild(t, "sh", "-c", `trap "" INT HUP; exec "$@"`, "sh")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(stdin, "a\n")
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(cmd.Dir, "f.mmf")); err != nil {
		t.Error(err)
	}
}
