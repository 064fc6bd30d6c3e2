package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// unwatched turns off the watching of pollers, so a poller waits for a command however long it takes.
func unwatched(s *Server) {
	for _, p := range s.links {
		p.mu.Lock()
		p.watched = true // so that watch is not called
		p.mu.Unlock()
	}
}

// dialTwo returns two clients of the same poller. The test fails if the server does not reply to them.
func dialTwo(t *testing.T, s *Server, addr net.Addr) (a, b *peer) {
	t.Helper()
	for i := range len(s.links) + 1 {
		b = dial(t, addr)
		b.conn.SetDeadline(time.Now().Add(time.Minute))
		b.want("PING", "+PONG")
		if i == 0 {
			a = b
		}
	}
	return a, b
}

// TestHalfCommand has a client send half a command, after commands that fill a read. Other clients must
// be served before the other half comes.
func TestHalfCommand(t *testing.T) {
	s, addr := start(t, Config{})
	unwatched(s)
	slow, fast := dialTwo(t, s, addr)
	const n = 10_000
	go slow.send(strings.Repeat("*1\r\n$4\r\nPING\r\n", n) + "*1\r\n$4") // the socket may hold less
	fast.want("PING", "+PONG")
	for range n {
		if got := slow.reply()[0]; got != "+PONG" {
			t.Fatal(got)
		}
	}
	fast.want("PING", "+PONG")
	for range 3 {
		slow.send("\r\nPING\r\nPING\r\n*1\r\n$4")
		for range 2 {
			if got := slow.reply()[0]; got != "+PONG" {
				t.Fatal(got)
			}
		}
		fast.want("PING", "+PONG")
	}
}

// TestLongCommands blocks commands that take long, that open a filter, or that find it locked.
// Meanwhile, other clients must be served. The commands get their replies in the end.
func TestLongCommands(t *testing.T) {
	for _, c := range []struct{ command, reply string }{
		{"DEL k", ":1"},
		{"UNLINK k", ":1"},
		{"RENAME k l", "+OK"},
		{"EXPIRE k 1000", ":1"},
		{"FLUSHALL", "+OK"},
		{"CF.RESERVE l 100", "+OK"},
		{"BF.RESERVE l 0.1 100", "+OK"},
		{"WAITAOF 1 0 0", "*2\n:1\n:0"},
		{"CF.ADD l x", ":1"},
		{"BF.MADD l x", "*1\n:1"},
		{"CF.EXISTS k x", ":1"},
		{"CF.ADD k x", ":1"},
		{"TYPE k", "+MBbloomCF"},
	} {
		t.Run(c.command, func(t *testing.T) {
			s, addr := start(t, Config{})
			unwatched(s)
			slow, fast := dialTwo(t, s, addr)
			fast.want("CF.ADD k x", ":1")
			k := s.dir.find("k")
			s.dir.names.Lock()
			k.mu.Lock()
			first, then := sync.OnceFunc(k.mu.Unlock), sync.OnceFunc(s.dir.names.Unlock)
			defer then()
			defer first()
			slow.send(c.command + "\r\n")
			fast.want("PING", "+PONG")
			first()
			fast.want("PING", "+PONG")
			then()
			if got := strings.Join(slow.reply(), "\n"); got != c.reply {
				t.Error(got)
			}
			slow.want("PING", "+PONG")
		})
	}
}

// TestDurableBeside checks that other clients are served while one waits for a sync.
func TestDurableBeside(t *testing.T) {
	s, addr := start(t, Config{Sync: true})
	unwatched(s)
	slow, fast := dialTwo(t, s, addr)
	fast.want("CF.ADD k x", ":1")
	s.dir.names.Lock()
	slow.send("CF.ADD k x\r\n")
	fast.want("PING", "+PONG")
	s.dir.names.Unlock()
	if got := slow.reply()[0]; got != ":1" {
		t.Error(got)
	}
}

// TestWatch has a command wait that is not expected to. After a while, other clients must be served.
func TestWatch(t *testing.T) {
	s, addr := start(t, Config{})
	slow, fast := dialTwo(t, s, addr)
	fast.want("CF.ADD k x", ":1")
	k := s.dir.find("k")
	k.mu.RLock()
	k.expires.Store(1) // so that a lookup removes it
	slow.send("CF.EXISTS k x\r\n")
	fast.want("PING", "+PONG")
	k.mu.RUnlock()
	if got := slow.reply()[0]; got != ":0" {
		t.Error(got)
	}
	slow.want("PING", "+PONG")
}

// TestStuck checks that a write that takes long is detached, and that the next write to the same key is
// detached before it begins.
func TestStuck(t *testing.T) {
	k := new(key)
	for _, stuck := range []bool{false, true} {
		p, err := newPoller()
		must(t, err)
		c := &client{link: link{poller: p, fd: -1}}
		p.serving = c
		if c.change(k); c.detached != stuck {
			t.Errorf("the key is stuck: %v; detached: %v", stuck, c.detached)
		}
		if p.watch(); !c.detached || !k.stuck.Load() {
			t.Errorf("detached: %v, the key is stuck: %v", c.detached, k.stuck.Load())
		}
		links{p}.end()
		if stuck {
			c.s = new(Server)
			if c.wrote(k, nil); k.stuck.Load() {
				t.Error("the key is still stuck")
			}
		}
	}
}

// TestCloseInTheMiddle closes a server with four clients: one is idle, one has sent half a command, one
// does not read, and one waits for a long command. The last must get its reply. No goroutines or
// descriptors may be left.
func TestCloseInTheMiddle(t *testing.T) {
	defer func(d time.Duration) { closeTime = d }(closeTime)
	closeTime = time.Minute // the machine may be busy
	before := pollDescriptors(t)
	s, addr := start(t, Config{})
	slow, idle := dialTwo(t, s, addr)
	half, long := dialTwo(t, s, addr)
	half.send("PING\r\n*1\r\n$4\r\nPI")
	if got := half.reply()[0]; got != "+PONG" {
		t.Fatal(got)
	}
	go io.WriteString(slow.conn, strings.Repeat("COMMAND\r\n", 5000)) // 20 MB of replies
	if _, err := slow.in.ReadByte(); err != nil {
		t.Fatal(err)
	}
	idle.want("CF.ADD k x", ":1")
	s.dir.names.Lock()
	long.send("DEL k\r\n")
	for err := error(nil); err == nil; _, err = os.Stat(filepath.Join(s.Dir, "k.mmf")) {
		runtime.Gosched()
	}
	long.send("PING\r\n") // too late to get a reply
	s.ticks.Add(1)        // the reader has been slow so far, so Close does not wait for it
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for _, p := range []*peer{idle, half} {
		if got := p.reply()[0]; got != "(closed)" {
			t.Error(got)
		}
	}
	s.dir.names.Unlock()
	if got := long.reply()[0]; got != ":1" {
		t.Error(got)
	}
	if rest, _ := io.ReadAll(long.in); len(rest) > 0 {
		t.Errorf("after the last reply: %q", rest)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	stacks := make([]byte, 1<<20)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) { // the last goroutine may not have returned yet
		now := stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(now, []byte("server.(*poller)")) {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("goroutines are left:\n%s", now)
		}
	}
	if after := pollDescriptors(t); after != before {
		t.Errorf("%d descriptors for polling, %d before", after, before)
	}
}

// pollDescriptors returns the number of descriptors with which the process waits for other descriptors.
func pollDescriptors(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, fd := range all {
		if what, _ := os.Readlink(fd); strings.HasPrefix(what, "anon_inode:[event") {
			n++
		}
	}
	return n
}

// FuzzServe sends bytes to a server, which are mostly no commands, at once and then in pieces. The
// replies must be the same, and must end. The server has a password, so the replies do not depend on its
// keys. Between the pieces, another client must be served.
func FuzzServe(f *testing.F) {
	for _, stream := range []string{
		"PING\r\n*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n\r\n\r\nHELLO 3\r\n", "*1\r\n$4\r\nQUIT\r\nPING\r\n", "*0\r\n*-1\r\nMULTI\r\n'\r\n",
		"POST / HTTP\r\n", "*3\r\n$4\r\nAUTH\r\n$1\r\na\r\n$1\r\nb\r\n*1\r\n:1\r\n", "*9\r\n$999999\r\n", strings.Repeat("PING\n", 4000) + "*1\r\n$4\r\nPI",
	} {
		f.Add([]byte(stream), []byte{1, 3, 200, 0, 5})
	}
	s, addr := start(f, Config{Password: "not to be guessed"})
	l, err := net.Listen("unix", f.TempDir()+"/socket")
	must(f, err)
	go s.Serve(l)
	other := dial(f, addr)
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		other := &peer{t, other.conn, other.in}
		send := func(cuts []byte) string {
			p := dial(t, l.Addr())
			p.conn.SetDeadline(time.Now().Add(time.Minute))
			rest := stream
			for _, n := range cuts {
				n := min(int(n), len(rest))
				p.conn.Write(rest[:n]) // fails once the server has closed the connection
				rest = rest[n:]
				other.want("PING", "-NOAUTH Authentication required.")
			}
			p.conn.Write(rest)
			p.conn.(*net.UnixConn).CloseWrite()
			replies, err := io.ReadAll(bufio.NewReader(p.conn))
			if err, late := err.(net.Error); late && err.Timeout() {
				t.Errorf("no end after %.100q", replies)
			}
			return string(replies)
		}
		if whole, pieces := send(nil), send(cuts); whole != pieces {
			t.Errorf("at once %q, in pieces %q", whole, pieces)
		}
	})
}
