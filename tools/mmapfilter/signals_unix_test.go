//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asProgram is an environment variable that makes the test binary run as the program.
const asProgram = "MMAPFILTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// startProgram starts the program in a directory. When the program has ended, stderr has its standard
// error.
func startProgram(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, stdin io.WriteCloser, stderr *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	return startCommand(t, dir, append([]string{program}, args...)...)
}

func startCommand(t *testing.T, dir string, command ...string) (cmd *exec.Cmd, stdin io.WriteCloser, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr = new(bytes.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, stdin, stderr
}

// eventually waits until so returns true.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("this does not become true: ", what)
		}
	}
}

// startBuild starts a build in a directory of its own, and returns once the build has begun. The build
// waits for keys.
func startBuild(t *testing.T, command ...string) (cmd *exec.Cmd, stdin io.WriteCloser, stderr *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	cmd, stdin, stderr = startCommand(t, t.TempDir(), append(command, program, "build", "-q", "-o", "f.mmf")...)
	eventually(t, "the build begins", func() bool {
		drafts, _ := filepath.Glob(filepath.Join(cmd.Dir, "f.mmf.tmp-*"))
		return drafts != nil
	})
	return cmd, stdin, stderr
}

// endedBy reports whether a signal has ended a process.
func endedBy(cmd *exec.Cmd, s syscall.Signal) bool {
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == s
}

// TestSignals checks that a build that gets a signal removes its files, and then dies of the signal.
func TestSignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(s) {
			t.Logf("NOT TESTED: %v is ignored here, as under nohup", s)
			continue
		}
		cmd, stdin, stderr := startBuild(t)
		io.WriteString(stdin, "a\nb\n")
		noError(t, cmd.Process.Signal(s))
		cmd.Wait()
		if !endedBy(cmd, s) || stderr.String() != "mmapfilter: interrupted\n" {
			t.Errorf("%v: %v, %s", s, cmd.ProcessState, stderr)
		}
		if entries, err := os.ReadDir(cmd.Dir); err != nil || len(entries) > 0 {
			t.Errorf("%v: %v, %v is left", s, err, entries)
		}
	}
}

// TestIgnoredSignals checks that signals ignored at the start of the program stay ignored.
func TestIgnoredSignals(t *testing.T) {
	cmd, stdin, _ := startBuild(t, "sh", "-c", `trap "" INT HUP; exec "$@"`, "sh")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		noError(t, cmd.Process.Signal(s))
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
