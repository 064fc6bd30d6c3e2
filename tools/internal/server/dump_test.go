package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// args sends a command as an array, as clients do, and returns the lines of the reply.
func (p *peer) args(words ...string) []string {
	p.t.Helper()
	p.send(array(words))
	return p.reply()
}

func array(words []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// A part is a reply of SCANDUMP.
type part struct{ at, data string }

// scan returns the part of a dump after a position.
func (p *peer) scan(key, at string) part {
	p.t.Helper()
	reply := p.args(key[:2]+".SCANDUMP", key, at)
	if len(reply) != 3 || reply[0] != "*2" {
		p.t.Fatalf("SCANDUMP %s %s: %.100q", key, at, reply)
	}
	data, _ := strconv.Unquote(reply[2])
	return part{reply[1][1:], data}
}

// dump returns the parts of a dump.
func (p *peer) dump(key string) (all []part) {
	p.t.Helper()
	for at := p.scan(key, "0"); at.at != "0"; at = p.scan(key, at.at) {
		all = append(all, at)
	}
	return all
}

// load sends parts until a reply is not OK, and returns the last reply.
func (p *peer) load(key string, parts []part) (reply string) {
	p.t.Helper()
	for _, part := range parts {
		if reply = p.args(key[:2]+".LOADCHUNK", key, part.at, part.data)[0]; reply != "+OK" {
			break
		}
	}
	return reply
}

// TestDump copies filters to another server. A copy has the items that the filter had when the dump
// began, and none that are added later. Then it is used as its original would be.
func TestDump(t *testing.T) {
	_, addr := start(t, Config{})
	other, otherAddr := start(t, Config{})
	p, q := dial(t, addr), dial(t, otherAddr)
	for key, c := range map[string]struct{ reserve, add string }{
		"CFgrows": {"CF.RESERVE CFgrows 1000 RATE 1e-8 BUCKETSIZE 3", "CF.INSERT"},
		"CFlarge": {"CF.RESERVE CFlarge 1300000 RATE 1e-8", "CF.INSERT"}, // of several chunks
		"CFfixed": {"CF.RESERVE CFfixed 5000 EXPANSION 0 RATE 1e-8", "CF.INSERT"},
		"BFgrows": {"BF.RESERVE BFgrows 1e-8 1000", "BF.INSERT"},
		"BFfixed": {"BF.RESERVE BFfixed 1e-8 5000 NONSCALING", "BF.INSERT"},
	} {
		const items = 3000
		p.want(c.reserve, "+OK")
		p.want(c.add+" "+key+" ITEMS"+numbers(0, items), fmt.Sprintf("*%d", items)+strings.Repeat("\n:1", items))
		header := p.scan(key, "0")
		first := p.scan(key, header.at)
		p.want(c.add+" "+key+" ITEMS later", "*1\n:1")
		parts := []part{header}
		for at := first; at.at != "0"; at = p.scan(key, at.at) {
			parts = append(parts, at)
		}
		if large := len(parts) > 2; large != (key == "CFlarge") {
			t.Errorf("%s has %d chunks", key, len(parts)-1)
		}
		if got := q.load(key, parts); got != "+OK" {
			t.Fatalf("%s: %s", key, got)
		}
		if got := q.do(key[:2] + ".INFO " + key); !strings.Contains(got, "inserted\"\n:3000\n") || key == "CFgrows" && !strings.Contains(got, "Bucket size\"\n:3\n") {
			t.Errorf("%s: %s", key, got)
		}
		q.want(key[:2]+".MEXISTS "+key+numbers(0, items), fmt.Sprintf("*%d", items)+strings.Repeat("\n:1", items))
		q.want(key[:2]+".EXISTS "+key+" later", ":0")
		if !strings.HasSuffix(key, "grows") {
			continue
		}
		q.want(c.add+" "+key+" ITEMS"+numbers(items, 4*items), fmt.Sprintf("*%d", 3*items)+strings.Repeat("\n:1", 3*items))
		q.want(key[:2]+".MEXISTS "+key+numbers(0, 4*items), fmt.Sprintf("*%d", 4*items)+strings.Repeat("\n:1", 4*items))
	}
	other.dir.sweep(time.Now().Add(time.Hour))
	for _, k := range other.dir.all() {
		if report, err := mmapfilter.Verify(t.Context(), k.path); err != nil || len(report.Damage) > 0 {
			t.Errorf("%s: %v, %v", k.name, report.Damage, err)
		}
	}
}

// numbers returns the numbers in [from, to), with a space before each.
func numbers(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		fmt.Fprintf(&b, " %d", n)
	}
	return b.String()
}

// TestLoadRefuses loads dumps that are incomplete or damaged. There must be no key afterwards.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	items, added := numbers(0, 1500), "*1500"+strings.Repeat("\n:1", 1500) // three pages of hashes
	p.want("CF.INSERT CFa ITEMS"+items, added)
	p.want("BF.ADD BFa x", ":1")
	parts := p.dump("CFa")
	chunk := parts[1]
	piece := func(from, to int) part {
		head := []byte(chunk.data[:prefixBytes])
		head[0], head[1], head[2] = byte(from), byte(from>>8), byte(from>>16)
		return part{chunk.at, string(head) + chunk.data[prefixBytes+from:prefixBytes+to]}
	}
	all := len(chunk.data) - prefixBytes
	withoutHashes := piece(0, int(number([]byte(chunk.data[8:]))))
	withoutHashes.data = withoutHashes.data[:16] + chunk.data[8:16] + withoutHashes.data[prefixBytes:]
	const broken = "-Couldn't load chunk!"
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"no header", []part{chunk}, broken},
		{"another header", []part{{"1", dumpHeader[1:] + "CF"}}, "-Invalid header"},
		{"another kind", []part{{"1", dumpHeader + "BF"}}, "-" + string(errOtherKind)},
		{"a chunk of another kind", append([]part{parts[0]}, p.dump("BFa")[1:]...), "-" + string(errOtherKind)},
		{"a short chunk", []part{parts[0], {"2", "x"}}, broken},
		{"a gap", []part{parts[0], piece(0, 1000), piece(1001, all)}, broken},
		{"no end", []part{parts[0], piece(0, all-1)}, "+OK"},
		{"too much", []part{parts[0], {chunk.at, chunk.data + "x"}}, broken},
		{"no hashes", []part{parts[0], withoutHashes}, broken},
		{"no position", []part{{"0", ""}}, "-Invalid position"},
		{"a word", []part{{"x", ""}}, "-Invalid position"},
		{"negative length", []part{parts[0], {chunk.at, strings.Repeat("\xff", prefixBytes) + "x"}}, broken},
	} {
		if got := p.load("CFb", c.parts); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		p.want("EXISTS CFb", ":0")
	}
	p.want("CF.RESERVE CFfixed 2000 EXPANSION 0", "+OK")
	p.want("CF.INSERT CFfixed ITEMS"+items, added)
	for _, key := range []string{"CFa", "CFfixed"} { // one has hashes to find damaged lines by, the other checksums
		lines := []byte(p.dump(key)[1].data)
		for at := prefixBytes + layout.OffRegion; at < prefixBytes+layout.OffRegion+10*layout.LineBytes; at += layout.LineBytes {
			lines[at+20] ^= 1 // a bit of a remainder
		}
		if got := p.load("CFb", []part{parts[0], {chunk.at, string(lines)}}); got != broken {
			t.Errorf("%s with damaged lines: %s", key, got)
		}
		p.want("EXISTS CFb", ":0")
	}
	for at := prefixBytes; at < len(chunk.data); at += 4093 { // all pages
		damaged := []byte(chunk.data)
		damaged[at] ^= 1
		if got := p.load("CFb", []part{parts[0], {chunk.at, string(damaged)}}); got == "+OK" {
			if p.do("CF.MEXISTS CFb"+items) != added || p.do("CF.COMPACT CFb") != "+OK" {
				t.Errorf("a dump with a damaged byte %d is loaded, and the filter lacks an item or its hashes", at)
			}
			p.want("DEL CFb", ":1")
		}
	}
	p.want("CF.LOADCHUNK CFa 1 x", "-ERR item exists")
	p.want("BF.LOADCHUNK CFa 1 x", "-WRONGTYPE Operation against a key holding the wrong kind of value")
	if got := p.load("CFb", []part{parts[0], piece(0, 1000), piece(0, 1000), piece(500, all)}); got != "+OK" { // some bytes twice
		t.Error(got)
	}
	p.want("CF.MEXISTS CFb"+items, added)
	if n := len(s.dir.dumps.dumps); n != 0 {
		t.Errorf("%d dumps have not ended", n)
	}
	p.want("FLUSHALL", "+OK")
	files(t, dir)
}

// TestLoadSwept begins a load and does not end it. A sweep removes its file once the load is old enough,
// and not before.
func TestLoadSwept(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD CFa x", ":1")
	parts := p.dump("CFa")
	for _, after := range []time.Duration{-time.Second, time.Minute} { // when the load is not old enough, and when it is
		if got := p.load("CFb", parts[:1]); got != "+OK" {
			t.Fatal(got)
		}
		s.dir.sweepNew(time.Now().Add(after))
	}
	files(t, filepath.Join(dir, newFiles))
	if got := p.load("CFb", parts[1:]); got != "-Couldn't load chunk!" {
		t.Error(got)
	}
}

// TestDumpsAtOnce begins dumps at the same time: two of one key, one that stops in the middle, and one
// more than are allowed.
func TestDumpsAtOnce(t *testing.T) {
	s, p := startOne(t, Config{})
	p.want("CF.ADD CFa x", ":1")
	first := p.scan("CFa", "1")
	p.want("CF.ADD CFa y", ":1")
	second := p.scan("CFa", "1")
	if first == second {
		t.Error("both dumps have the same chunk")
	}
	if p.scan("CFa", first.at).at != "0" || p.scan("CFa", second.at).at != "0" {
		t.Error("a dump has more than one chunk")
	}
	p.want("CF.SCANDUMP CFa "+first.at, "-Invalid position")
	p.want("CF.ADD CFb x", ":1")
	third := p.scan("CFa", "1")
	p.want("CF.SCANDUMP CFb "+third.at, "-Invalid position")
	for range mostDumps - 1 {
		p.scan("CFa", "1")
	}
	next := s.dir.madeAt(fmt.Sprint("dump", s.dir.dumps.last+1))
	if err := os.Mkdir(next, 0o755); err != nil { // so one more dump could not begin
		t.Fatal(err)
	}
	p.want("CF.SCANDUMP CFa 1", "-ERR too many dumps at once")
	must(t, os.Remove(next))
	s.dir.sweep(time.Now().Add(time.Hour))
	p.want("CF.SCANDUMP CFa "+third.at, "-Invalid position")
	p.scan("CFa", "1")
}
