package clients

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var program string // the command mmapfilter

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "clients")
	if err == nil {
		program = filepath.Join(dir, "mmapfilter")
		build := exec.Command("go", "build", "-o", program, "./tools/mmapfilter")
		build.Dir, build.Stderr = "../..", os.Stderr
		err = build.Run()
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// A server is a process that serves a directory.
type server struct {
	t        testing.TB
	dir      string
	port     int
	password string
	rate     string
	cmd      *exec.Cmd
}

// serve starts a server, which ends with the test. If password is empty, the server has none.
func serve(t testing.TB, password string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), password: password, rate: "0.000001"}
	s.start()
	t.Cleanup(func() {
		s.cmd.Process.Signal(os.Interrupt)
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("the server ends: %v", err)
		}
	})
	return s
}

// start starts the server and waits until it listens. From the second start on, the port stays the same.
// The rate is so low that no item is taken for another.
func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(program, "serve", "--dir", s.dir, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port), "--rate", s.rate)
	if s.password != "" {
		path := filepath.Join(s.dir, "password")
		must(s.t, os.WriteFile(path, []byte(s.password+"\n"), 0o600))
		s.cmd.Args = append(s.cmd.Args, "--requirepass-file", path)
	}
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	must(s.t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the server says %q: %v", line, err)
	}
	at := strings.LastIndexByte(line, ':')
	if s.port, err = strconv.Atoi(strings.TrimSpace(line[at+1:])); err != nil {
		s.t.Fatalf("the server says %q", line)
	}
}

// kill kills the server.
func (s *server) kill() {
	s.t.Helper()
	s.cmd.Process.Kill()
	if err := s.cmd.Wait(); err == nil {
		s.t.Fatal("the server ended before it was killed")
	}
}
