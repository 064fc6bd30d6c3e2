package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
	"github.com/mmapfilter/mmapfilter/tools/internal/resp/transcript"
)

func init() { seed = 1 } // so that no item is taken for another one in one run of many

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts a server, which runs until the test ends.
func start(t testing.TB, c Config) (*Server, net.Addr) {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Logf == nil {
		c.Logf = t.Logf
	}
	s, err := New(c)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr()
}

// startOne starts a server and connects a client.
func startOne(t testing.TB, c Config) (*Server, *peer) {
	t.Helper()
	s, addr := start(t, c)
	return s, dial(t, addr)
}

// A peer is a client in a test.
type peer struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dial(t testing.TB, addr net.Addr) *peer {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &peer{t, conn, bufio.NewReader(conn)}
}

// dialSlow connects a client to the server, with the smallest possible buffers.
func dialSlow(t *testing.T, s *Server) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	slow, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { slow.Close() })
	conn, err := l.Accept()
	if err == nil {
		err = errors.Join(slow.(*net.TCPConn).SetReadBuffer(1), conn.(*net.TCPConn).SetWriteBuffer(1))
	}
	must(t, err)
	s.welcome(conn)
	return slow
}

// do sends a line and returns the lines of the reply.
func (p *peer) do(line string) string {
	p.t.Helper()
	p.send(line + "\r\n")
	return strings.Join(p.reply(), "\n")
}

func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, text); err != nil {
		p.t.Fatal(err)
	}
}

// reply reads a reply. It returns a line for each value, and for the header of each array or map.
// Strings are in quotes; other values are as they are on the wire.
func (p *peer) reply() []string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err == io.EOF && line == "" {
		return []string{"(closed)"}
	}
	must(p.t, err)
	line = strings.TrimSuffix(line, "\r\n")
	n, err := strconv.Atoi(line[1:])
	switch {
	case line[0] == '$' && n >= 0 && err == nil:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(p.in, text); err != nil {
			p.t.Fatal(err)
		}
		return []string{strconv.Quote(string(text[:n]))}
	case line[0] == '*' || line[0] == '%':
		lines := []string{line}
		if line[0] == '%' {
			n *= 2
		}
		for range n {
			lines = append(lines, p.reply()...)
		}
		return lines
	}
	return []string{line}
}

// asArray returns the array that clients send for a line of words.
func asArray(t *testing.T, line string) string {
	t.Helper()
	r := resp.NewReader(strings.NewReader(line + "\n"))
	r.Limits = resp.Known
	words, err := r.Command()
	must(t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// TestTranscripts plays the files in testdata, in both versions of the protocol, with commands as lines
// and as arrays. The replies were written by hand, from descriptions of the replies of RedisBloom and
// Redis. They differ from these only in sizes, names, help texts, and where doc.go says so.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, version := range []int{2, 3} {
			if version == 3 && strings.HasSuffix(file, "password.txt") { // HELLO 3 needs the password first
				continue
			}
			name := fmt.Sprintf("%s/RESP%d", strings.TrimSuffix(filepath.Base(file), ".txt"), version)
			t.Run(name, func(t *testing.T) { play(t, file, version, false) })
			t.Run(name+"/arrays", func(t *testing.T) { play(t, file, version, true) })
		}
	}
}

func play(t *testing.T, file string, version int, arrays bool) {
	entries, err := transcript.Read(file)
	must(t, err)
	c := Config{Rate: 1e-6, Version: "v0"} // so that no item is taken for another
	if strings.HasSuffix(file, "password.txt") {
		c.Password = "secret"
	}
	_, addr := start(t, c)
	p := dial(t, addr)
	if version == 3 {
		p.do("HELLO 3")
	}
	for _, e := range entries {
		sent := e.Command + "\r\n"
		if arrays {
			sent = asArray(t, e.Command)
		}
		p.send(sent)
		if got, want := p.reply(), e.Reply(version); !slices.EqualFunc(got, want, transcript.Same) {
			t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", file, e.Line, e.Command, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
