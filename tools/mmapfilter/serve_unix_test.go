//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A served is a client of a server, which runs in a process of its own, in the current directory.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	conn net.Conn
	in   *bufio.Reader
}

// serve starts a server on the Unix socket "socket", waits until it listens, and connects a client.
func serve(t *testing.T, flags ...string) *served {
	t.Helper()
	return serveIn(t, `exec "$0" "$@"`, flags...)
}

// serveIn does what serve does, with a shell script that gets the program as $0 and its arguments as $@.
func serveIn(t *testing.T, script string, flags ...string) *served {
	t.Helper()
	program, err := os.Executable()
	noError(t, err)
	socket, err := filepath.Abs("socket")
	noError(t, err)
	words := append([]string{"sh", "-c", script, program, "serve", "--dir", ".", "--listen", "none", "--unix", socket}, flags...)
	cmd, _, stderr := startCommand(t, ".", words...)
	for wait := time.Millisecond; wait < time.Minute; wait *= 2 {
		if conn, err := net.Dial("unix", "socket"); err == nil {
			t.Cleanup(func() { conn.Close() })
			return &served{t, cmd, conn, bufio.NewReader(conn)}
		}
		time.Sleep(wait)
	}
	t.Fatalf("no server: %s", stderr)
	return nil
}

// another returns another client of the server.
func (s *served) another() *served {
	s.t.Helper()
	var conn net.Conn
	eventually(s.t, "the server accepts connections", func() bool {
		var err error
		if conn, err = net.Dial("unix", "socket"); !errors.Is(err, syscall.EAGAIN) { // too many wait to be accepted
			noError(s.t, err)
		}
		return err == nil
	})
	s.t.Cleanup(func() { conn.Close() })
	return &served{s.t, s.cmd, conn, bufio.NewReader(conn)}
}

// ask sends a command and returns its reply, which must have one line.
func (s *served) ask(command string) string {
	s.t.Helper()
	if _, err := fmt.Fprint(s.conn, command+"\r\n"); err != nil {
		s.t.Fatal(err)
	}
	line, err := s.in.ReadString('\n')
	if err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// do sends commands, and checks that each gets the given reply of one line.
func (s *served) do(reply string, commands ...string) {
	s.t.Helper()
	if _, err := fmt.Fprint(s.conn, strings.Join(commands, "\r\n")+"\r\n"); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range commands {
		if line, err := s.in.ReadString('\n'); line != reply+"\r\n" {
			s.t.Fatalf("%s: %q, %v; want %s", c, line, err, reply)
		}
	}
}

// TestServeRenamesAfterKill renames a key after a kill, before any other command has opened it.
func TestServeRenamesAfterKill(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serve(t, "--rate", "1e-6")
	s.do(":1", "CF.ADD a x", "CF.ADD b y")
	s.kill()
	s = serve(t)
	s.do("+OK", "RENAME a b")
	s.do(":1", "CF.EXISTS b x")
	s.do(":0", "CF.EXISTS b y")
}

// kill kills the server.
func (s *served) kill() {
	s.t.Helper()
	s.cmd.Process.Kill()
	if err := s.cmd.Wait(); !endedBy(s.cmd, syscall.SIGKILL) {
		s.t.Fatal(err)
	}
}

// TestServeEndsInOrder ends servers by a signal and by SHUTDOWN. They must leave no files but the
// filters, which other commands can read.
func TestServeEndsInOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	noError(t, os.WriteFile("password", []byte("secret\n"), 0o600))
	s := serve(t, "--requirepass-file", "password", "--appendfsync", "always", "--rate", "1e-6")
	s.do("-NOAUTH Authentication required.", "PING")
	s.do("+OK", "AUTH secret")
	s.do(":1", "CF.ADD k apple")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	s = serve(t)
	s.do(":1", "CF.EXISTS k apple")
	if _, err := fmt.Fprint(s.conn, "SHUTDOWN\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(fileNames(t, "."), " "); got != ".new k.mmf k.mmf.hashes password" {
		t.Error(got)
	}
	if got := must(t, "apple\npear\n", "check", "k.mmf"); got != "apple\n" {
		t.Error(got)
	}
}
