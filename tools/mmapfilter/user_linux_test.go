package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestAsAnotherUser checks the messages for a user who has fewer rights than the owner of a file.
func TestAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: messages for other users: only root can run a process of another user")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	noError(t, errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o777)))
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err != nil || info.Mode()&1 == 0 {
			t.Skip("NOT TESTED: messages for other users: they may not enter", d)
		}
	}
	// The binary of go test is in a directory that only its owner can read.
	executable, err := os.Executable()
	noError(t, err)
	program, err := os.ReadFile(executable)
	if err == nil {
		err = os.WriteFile("program", program, 0o777)
	}
	noError(t, err)
	as := func(uid uint32, stdin string, args ...string) (exit int, output string) {
		t.Helper()
		cmd := exec.Command("./program", args...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		cmd.Stdin = strings.NewReader(stdin)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	must(t, "", "create", "-n", "1k", "-p", "1e-6", "f.mmf")
	noError(t, leaveDead("f.mmf", "d.mmf", "a\n"))
	for _, name := range []string{"d.mmf", "d.mmf.stash", "f.mmf"} {
		noError(t, os.Chmod(name, 0o644))
	}
	for _, args := range []string{"info d.mmf", "check d.mmf", "check --recover d.mmf", "verify d.mmf", "verify --recover d.mmf"} {
		const want = "mmapfilter: d.mmf: its writer has died, and you may not write to it; ask someone who may to run: mmapfilter recover d.mmf\n"
		if exit, output := as(4321, "a\n", strings.Fields(args)...); exit != exitError || output != want {
			t.Errorf("%s: exit %d, %s", args, exit, output)
		}
	}
	if exit, output := as(4321, "a\n", "add", "f.mmf"); exit != exitError || output != "mmapfilter: f.mmf: permission denied\n" {
		t.Errorf("exit %d, %s", exit, output)
	}
	if exit, output := as(4321, "a\n", "recover", "d.mmf"); exit != recoverFailed || output != "mmapfilter: d.mmf: permission denied\n" {
		t.Errorf("exit %d, %s", exit, output)
	}
	noError(t, os.Chmod("f.mmf", 0o600))
	if exit, output := as(4321, "a\n", "info", "f.mmf"); exit != exitError || output != "mmapfilter: f.mmf: permission denied\n" {
		t.Errorf("exit %d, %s", exit, output)
	}
	if exit, output := as(4321, "", "check", "f.mmf", "f.mmf"); exit != exitError || output != "mmapfilter: f.mmf: permission denied\n" {
		t.Errorf("exit %d, %s", exit, output)
	}

	// A new file gets the owner 4321 and not the old file's owner, because only root may give files
	// away.
	noError(t, os.Chmod("f.mmf", 0o666))
	const owner = "mmapfilter: f.mmf: the new file has owner 4321: this process may not give it the owner of the old one, 0\n"
	if exit, output := as(4321, "a\n", "build", "-q", "-o", "f.mmf"); exit != exitYes || !strings.Contains(output, owner) || strings.Count(output, "\n") != strings.Count(output, "mmapfilter: f.mmf: ") {
		t.Errorf("exit %d, %s", exit, output)
	}
}
