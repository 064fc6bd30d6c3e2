package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
)

func (p *peer) want(line, reply string) {
	p.t.Helper()
	if got := p.do(line); got != reply {
		p.t.Errorf("%s: %s, want %s", line, got, reply)
	}
}

// wantDeadline checks that a key has the deadline of EXPIRE 1000, or nearly so if the test is slow.
func (p *peer) wantDeadline(name string) {
	p.t.Helper()
	reply := p.do("TTL " + name)
	if left, err := strconv.Atoi(reply[1:]); err != nil || left > 1000 || left < 100 {
		p.t.Errorf("TTL %s: %s", name, reply)
	}
}

// TestPipeline sends more commands than a socket holds before it reads a reply.
func TestPipeline(t *testing.T) {
	_, p := startOne(t, Config{})
	const n = 50_000
	go p.send(strings.Repeat("PING\r\n*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n", n))
	for range n {
		if got := append(p.reply(), p.reply()...); !slices.Equal(got, []string{"+PONG", `"x"`}) {
			t.Fatal(got)
		}
	}
}

// TestBrokenProtocol sends bytes that are no command. Their client must get an error, and other clients
// must be served.
func TestBrokenProtocol(t *testing.T) {
	_, addr := start(t, Config{})
	good := dial(t, addr)
	for _, c := range []string{"*1\r\n:1\r\n", "*99999999999\r\n", "*1\r\n$99999999999\r\n", strings.Repeat("x", resp.Known.Inline+16<<10), "'\r\n"} {
		bad := dial(t, addr)
		io.WriteString(bad.conn, c) // fails if the server closes the connection before the end
		if got := bad.reply()[0]; !strings.HasPrefix(got, "-ERR Protocol error: ") {
			t.Errorf("%.20q: %s", c, got)
		}
		good.want("PING", "+PONG")
	}
}

// TestUnknownClientIsLimited sends a large command without the password, and then with it.
func TestUnknownClientIsLimited(t *testing.T) {
	_, addr := start(t, Config{Password: "secret"})
	large := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n", resp.Unknown.Bulk+1)
	p := dial(t, addr)
	p.send(large)
	if got := p.reply()[0]; !strings.HasPrefix(got, "-ERR Protocol error: ") {
		t.Error(got)
	}
	p = dial(t, addr)
	p.want("AUTH secret", "+OK")
	p.send(large + strings.Repeat("x", resp.Unknown.Bulk+1) + "\r\n")
	if got := p.reply()[0]; len(got) != resp.Unknown.Bulk+3 {
		t.Errorf("%.80s", got)
	}
}

// TestTooManyClients opens one connection more than is allowed.
func TestTooManyClients(t *testing.T) {
	_, addr := start(t, Config{MaxClients: 2})
	a, b := dial(t, addr), dial(t, addr)
	a.want("PING", "+PONG")
	b.want("PING", "+PONG")
	if got := dial(t, addr).reply()[0]; got != "-ERR max number of clients reached" {
		t.Error(got)
	}
	a.want("QUIT", "+OK")
	if got := a.reply()[0]; got != "(closed)" {
		t.Error(got)
	}
	b.want("PING", "+PONG")
}

// TestSilentReader has a client that does not read a long reply. Meanwhile its connection must hold no
// lock, and other clients must be served.
func TestSilentReader(t *testing.T) {
	s, addr := start(t, Config{})
	good := dial(t, addr)
	silent := dialSlow(t, s)
	bad := &peer{t, silent, bufio.NewReaderSize(silent, 16)}
	bad.send(asArray(t, "CF.INSERT k ITEMS"+strings.Repeat(" a", 25_000)))
	if first, err := bad.in.ReadByte(); first != '*' || err != nil { // the rest of the reply waits
		t.Fatal(first, err)
	}
	good.conn.SetDeadline(time.Now().Add(writeTime / 2))
	good.want("CF.EXISTS k a", ":1")
	good.want("EXPIRE k 1000", ":1")
	good.want("DEL k", ":1")
	s.hurry(s.ticks.Load() + 1) // what the server does once writeTime is over
	silent.SetDeadline(time.Now().Add(writeTime / 2))
	if _, err := io.Copy(io.Discard, silent); err != nil { // up to the end of the connection
		t.Error(err)
	}
}

// TestEndsWithSlowReader closes a server while a client reads many replies slowly. Close must return.
func TestEndsWithSlowReader(t *testing.T) {
	s, _ := start(t, Config{})
	slow := dialSlow(t, s)
	(&peer{t, slow, nil}).send(strings.Repeat("COMMAND\r\n", 1500)) // more than 5 MB of replies
	some := make([]byte, 1000)
	if _, err := slow.Read(some); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for range 20 {
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
			return
		case <-time.After(closeTime):
			io.ReadFull(slow, make([]byte, 100_000))
		}
	}
	t.Error("the server does not end")
}

// TestRestart checks that keys, items and deadlines are there after a restart of the server, and that
// files without a key are removed.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	s, addr := start(t, Config{Dir: dir})
	p := dial(t, addr)
	p.want("CF.RESERVE c 1000 BUCKETSIZE 4 MAXITERATIONS 7 EXPANSION 3", "+OK")
	p.want("CF.ADD c x", ":1")
	p.want(`BF.ADD "b /%" x`, ":1")
	p.want("EXPIRE c 1000", ":1")
	if _, err := New(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Error(err)
	}
	p.want("SHUTDOWN", "(closed)")
	<-s.Down()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	files(t, dir, "b%20%2f%25.mmf", "b%20%2f%25.mmf.hashes", "c.mmf", "c.mmf.expire", "c.mmf.hashes") // no log
	for _, name := range []string{"gone.mmf.expire", "gone.mmf.hashes", newFiles + "/c.mmf.load"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("1\n"), 0o644))
	}
	_, addr = start(t, Config{Dir: dir})
	p = dial(t, addr)
	p.want("DBSIZE", ":2")
	p.wantDeadline("c")
	p.want("CF.EXISTS c x", ":1")
	p.want(`BF.EXISTS "b /%" x`, ":1")
	p.want("TYPE c", "+MBbloomCF")
	if got := p.do("CF.INFO c"); !strings.Contains(got, "\"Bucket size\"\n:4\n\"Expansion rate\"\n:3\n\"Max iterations\"\n:7") {
		t.Error(got)
	}
	p.want(`DEL c "b /%"`, ":2")
	files(t, dir)
	files(t, filepath.Join(dir, newFiles))
}

// TestExpiryOverRestart has a key that expires before the server starts again.
func TestExpiryOverRestart(t *testing.T) {
	dir := t.TempDir()
	s, addr := start(t, Config{Dir: dir})
	p := dial(t, addr)
	p.want("CF.ADD k x", ":1")
	p.want("EXPIRE k 1000", ":1")
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, "k.mmf.expire"), []byte("1\n"), 0o644))
	_, addr = start(t, Config{Dir: dir})
	dial(t, addr).want("EXISTS k", ":0")
	files(t, dir)
}

// TestConfusingNames has keys whose names look like files that belong to other keys.
func TestConfusingNames(t *testing.T) {
	dir := t.TempDir()
	s, addr := start(t, Config{Dir: dir})
	p := dial(t, addr)
	names := []string{"a", "a.mmf", "a.mmf.load", "a.mmf.dump-1", "a.mmf.expire", "a.mmf.expire.new", "a.mmf.hashes", "a.mmf.stash", ".new"}
	for i, name := range names {
		p.want(fmt.Sprintf("CF.ADD %s item%d", name, i), ":1")
		p.want("EXPIRE "+name+" 1000", ":1")
	}
	must(t, s.Close())
	_, addr = start(t, Config{Dir: dir})
	p = dial(t, addr)
	for i, name := range names {
		p.want(fmt.Sprintf("CF.EXISTS %s item%d", name, i), ":1")
		p.wantDeadline(name)
	}
	p.want("DEL "+strings.Join(names, " "), fmt.Sprintf(":%d", len(names)))
	files(t, dir)
}

// TestBrowser sends a command in an HTTP request, as a web page might. The server must not run it.
func TestBrowser(t *testing.T) {
	s, addr := start(t, Config{})
	for _, first := range []string{"POST / HTTP/1.1", "GET / HTTP/1.1\r\nHost: localhost"} {
		p := dial(t, addr)
		p.send(first + "\r\n\r\nCF.ADD k x\r\n")
		for p.reply()[0] != "(closed)" {
		}
	}
	if s.dir.find("k") != nil {
		t.Error("the server has run the command")
	}
}

// TestDurable checks that replies wait for a sync, and that a pipeline needs few syncs. If a sync fails,
// the client gets an error instead of the replies.
func TestDurable(t *testing.T) {
	s, p := startOne(t, Config{Sync: true})
	p.want("CF.ADD k x", ":1")
	const n = 200
	p.send(strings.Repeat("CF.ADD k y\r\n", n))
	for range n {
		if got := p.reply()[0]; got != ":1" {
			t.Fatal(got)
		}
	}
	k := s.dir.find("k")
	if stats := k.filter.Stats(); stats.Pending != 0 || stats.Commits > n/2 {
		t.Errorf("%d commits, %d operations are not committed", stats.Commits, stats.Pending)
	}
	p.want("DEL k", ":1")
	if s.dir.changed {
		t.Error("the directory was not synced")
	}
	var out bytes.Buffer
	c := &client{s: s, d: s.dir, buffers: &buffers{out: resp.NewWriter(&out)}, changed: true, unsynced: []*key{{lost: errors.New("broken disk")}}}
	c.out.Simple("OK")
	if err := c.flush(); err == nil || !c.quits || out.String() != "-ERR not durable: broken disk\r\n" {
		t.Error(err, out.String())
	}
}

// TestWaitAOF checks that WAITAOF makes all operations durable, also those of filters that were closed
// since, or reports that it cannot.
func TestWaitAOF(t *testing.T) {
	s, p := startOne(t, Config{})
	p.want("CF.ADD k x", ":1")
	p.want("WAITAOF 1 0 0", "*2\n:1\n:0")
	k := s.dir.find("k")
	if stats := k.filter.Stats(); stats.Pending != 0 || s.dir.changed {
		t.Errorf("%d operations are not committed", stats.Pending)
	}
	s.dir.sweep(time.Now().Add(time.Hour))
	k.lost = errors.New("broken disk")
	p.want("WAITAOF 1 0 0", "-ERR broken disk")
	p.want("CF.EXISTS k x", ":1") // opens it
	p.want("WAITAOF 1 0 0", "*2\n:1\n:0")
}

// files checks which files a directory has.
func files(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		if e.Name() != newFiles {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestExpiry checks that an expired key is not found any more, and that its files are removed.
func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD k x", ":1")
	p.want("CF.ADD swept x", ":1")
	for _, name := range []string{"k", "swept"} {
		if changed, err := s.dir.expire(s.dir.find(name), time.Now().UnixMilli(), nil); changed != 1 || err != nil {
			t.Fatal(changed, err)
		}
	}
	p.want("CF.EXISTS k x", ":0")
	p.want("TTL k", ":-2")
	s.dir.sweep(time.Now().Add(-time.Hour))
	files(t, dir)
	p.want("CF.ADD k y", ":1")
	p.want("TTL k", ":-1")
	p.want("CF.EXISTS k x", ":0")
}

// TestManyKeys has several clients use more keys than may be open at once.
func TestManyKeys(t *testing.T) {
	dir := t.TempDir()
	s, addr := start(t, Config{Dir: dir})
	s.dir.most = 4
	const clients, each = 4, 12
	var all sync.WaitGroup
	for c := range clients {
		p := dial(t, addr)
		all.Add(1)
		go func() {
			defer all.Done()
			for round := range 2 {
				for i := range each {
					key := fmt.Sprintf("key%d", (i*clients+c)%(each*clients-4*round))
					p.want(fmt.Sprintf("CF.ADD %s item%d", key, c), ":1")
					p.want(fmt.Sprintf("CF.EXISTS %s item%d", key, c), ":1")
				}
			}
		}()
	}
	all.Wait()
	p := dial(t, addr)
	for i := range clients * each {
		p.want(fmt.Sprintf("CF.EXISTS key%d item%d", i, i%clients), ":1")
	}
	if n := len(s.dir.opens()); n > 4 {
		t.Errorf("%d filters are open", n)
	}
	for closing := 1; closing > 0; time.Sleep(time.Millisecond) { // until no filter is being closed in the background
		s.dir.mu.Lock()
		closing = s.dir.closing
		s.dir.mu.Unlock()
	}
	s.dir.sweep(time.Now().Add(time.Hour))
	if n := len(s.dir.opens()); n != 0 || s.dir.taken != 0 {
		t.Errorf("%d filters are open, %d taken", n, s.dir.taken)
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.stash"))
	if len(logs) > 0 {
		t.Errorf("closed filters have logs: %v", logs)
	}
}

// TestServesForeignFile serves a filter that the server has not created.
func TestServesForeignFile(t *testing.T) {
	dir := t.TempDir()
	f, err := mmapfilter.Create(filepath.Join(dir, "k.mmf"), &mmapfilter.Options{Capacity: 1000})
	must(t, err)
	must(t, f.Insert([]byte("a")))
	s, p := startOne(t, Config{Dir: dir})
	if got := p.do("CF.EXISTS k a"); !strings.HasPrefix(got, "-ERR open ") || !strings.Contains(got, "open for writing") {
		t.Error(got)
	}
	p.want("PING", "+PONG")
	must(t, f.Close())
	p.want("CF.EXISTS k a", ":1")
	p.want("CF.ADD k b", ":1")
	s.dir.sweep(time.Now().Add(time.Hour))
	must(t, os.Remove(filepath.Join(dir, "k.mmf")))
	p.want("CF.EXISTS k a", ":0")
	p.want("DBSIZE", ":0")
}

// TestRenameFails renames a filter to names of filters that another program has open for writing, and
// renames a truncated filter. All filters must stay as they are.
func TestRenameFails(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD a x", ":1")
	p.want("CF.ADD b y", ":1")
	s.dir.sweep(time.Now().Add(time.Hour))
	path := func(name string) string { return filepath.Join(dir, name+".mmf") }
	b, err := mmapfilter.Open(path("b"), nil)
	must(t, err)
	other, err := mmapfilter.Create(path("new"), &mmapfilter.Options{Capacity: 10})
	must(t, err)
	for _, to := range []string{"b", "new"} {
		if got := p.do("RENAME a " + to); !strings.HasPrefix(got, "-ERR rename ") {
			t.Error(got)
		}
	}
	must(t, errors.Join(b.Close(), other.Close(), os.Remove(path("new"))))
	p.want("EXISTS a b new", ":2")
	p.want("CF.EXISTS a x", ":1")
	p.want("CF.EXISTS b y", ":1")
	s.dir.sweep(time.Now().Add(time.Hour))
	must(t, os.Truncate(path("a"), 20_000))
	if got := p.do("RENAME a b"); !strings.HasPrefix(got, "-ERR open ") {
		t.Error(got)
	}
	p.want("EXISTS a b new", ":2")
	p.want("CF.EXISTS b y", ":1")
	s.dir.sweep(time.Now().Add(time.Hour))
	files(t, dir, "a.mmf", "a.mmf.hashes", "b.mmf", "b.mmf.hashes")
}

// TestRenames has several clients rename keys in circles. This must not deadlock or lose a key.
func TestRenames(t *testing.T) {
	_, addr := start(t, Config{})
	first := dial(t, addr)
	first.want("CF.ADD a x", ":1")
	var all sync.WaitGroup
	for _, pair := range []string{"a b", "b a", "b c", "c a"} {
		p := dial(t, addr)
		all.Add(1)
		go func() {
			defer all.Done()
			for range 10 {
				if got := p.do("RENAME " + pair); got != "+OK" && got != "-ERR no such key" {
					t.Error(got)
				}
			}
		}()
	}
	all.Wait()
	first.want("DBSIZE", ":1")
}

// TestFull fills filters that do not grow.
func TestFull(t *testing.T) {
	_, p := startOne(t, Config{})
	p.want("CF.RESERVE c 4 EXPANSION 0 RATE 1e-8", "+OK") // so that no new item is taken for one that is in
	p.want("BF.RESERVE b 1e-8 4 NONSCALING", "+OK")
	for i, full := 0, false; !full; i++ {
		switch got := p.do(fmt.Sprintf("CF.ADD c %d", i)); got {
		case ":1":
			p.want(fmt.Sprintf("CF.EXISTS c %d", i), ":1")
		case "-Filter is full":
			full = true
		default:
			t.Fatal(got)
		}
	}
	p.want("CF.INSERT c ITEMS x", "*1\n:-1")
	p.want("CF.INSERTNX c ITEMS y", "*1\n:-1")
	p.want("CF.ADDNX c z", "-Filter is full")
	p.want("CF.EXISTS c 0", ":1")
	items := 0
	for full := false; !full; items++ {
		full = p.do(fmt.Sprintf("BF.ADD b %d", items)) == "-ERR non scaling filter is full"
	}
	p.want("BF.MADD b 0 new other", "*2\n:0\n-ERR non scaling filter is full")
	p.want("HELLO 3 COLOUR", "-ERR Syntax error in HELLO option 'COLOUR'")
	if got := p.do("HELLO 3"); got[0] != '%' {
		t.Fatal(got)
	}
	p.want("CF.INSERT c ITEMS x", "*1\n#f")
	p.want("CF.INSERTNX c ITEMS y", "*1\n:-1")
}

func TestFileName(t *testing.T) {
	all := ""
	for i := range 256 {
		all += string([]byte{byte(i)})
	}
	for _, key := range []string{"", "a", "a:b", "..", ".", "../x", "/etc", "%", "%41", all[:60], all[60:120], all[120:180], all[190:], strings.Repeat("a", maxName)} {
		file, err := fileName(key)
		if err != nil || filepath.Base(file) != file || file[0] == '.' {
			t.Errorf("%q: %q, %v", key, file, err)
		}
		if back, ok := keyName(file); !ok || back != key {
			t.Errorf("%q: %q: %q, %v", key, file, back, ok)
		}
	}
	for _, file := range []string{"a", "a b.mmf", "%zz.mmf", "%41.mmf", "%2F.mmf", "%2.mmf", ".a.mmf", "a.mmf.hashes", strings.Repeat("a", maxName+1) + ".mmf"} {
		if key, ok := keyName(file); ok {
			t.Errorf("%q is taken as the file of %q", file, key)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "a", true}, {"", "", true}, {"", "a", false}, {"a*c", "abbc", true}, {"a*c", "abb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"**b*", "aab/", true}, {"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false},
		{"[^a-c]x", "dx", true}, {`\*`, "*", true}, {`\*`, "a", false}, {`[\]]`, "]", true}, {"[a", "a", false}, {`\`, `\`, false},
		{"a*b*c", "a-b-b-c", true}, {"ab*", "a", false}, {"a*c", "a/b/c", true}, {"a?c", "a/c", true}, {"a/*", "a/b", true}, {"a/*", "ab", false},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("%s %s: %v", c.pattern, c.text, got)
		}
	}
	if glob(strings.Repeat("*a", 1000)+"b", strings.Repeat("a", 10_000)) {
		t.Error("a pattern matches a text without its last letter")
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.8.8.8:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.org:1": false, "127.0.0.1": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
