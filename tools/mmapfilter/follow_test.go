package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestCheckFollows checks that a check with --follow looks up each key in the current file, and
// reports a missing file once.
func TestCheckFollows(t *testing.T) {
	t.Chdir(t.TempDir())
	build := func(keys string) {
		t.Helper()
		if exit, _, stderr := runHere(strings.NewReader(keys), "build", "-q", "-p", "1e-8", "-o", "f.mmf"); exit != 0 {
			t.Fatal(stderr)
		}
	}
	build("apple\n")
	stdin, typed := io.Pipe()
	printed, stdout := io.Pipe()
	lines := bufio.NewReader(printed)
	var stderr bytes.Buffer
	exit := make(chan int)
	go func() {
		status := run(context.Background(), []string{"check", "--follow", "--json", "-v", "f.mmf"}, stdin, stdout, &stderr)
		stdout.Close()
		exit <- status
	}()
	// ask ends with a key that is in no file and is always printed.
	ask := func(keys, want string) {
		t.Helper()
		io.WriteString(typed, keys+"nothing\n")
		var got []string
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err, &stderr)
			}
			_, key, _ := strings.Cut(line, `"key":"`)
			if key, _, _ = strings.Cut(key, `"`); key == "nothing" {
				break
			}
			got = append(got, key)
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("absent: %s, want %s", g, want)
		}
	}
	ask("apple\npear\nplum\n", "pear plum")
	build("apple\npear\n")
	ask("apple\npear\nplum\n", "plum")
	if err := os.Rename("f.mmf", "old.mmf"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ask("apple\npear\nplum\n", "plum")
	}
	build("plum\n")
	ask("apple\npear\nplum\n", "apple pear")
	typed.Close()
	if e := <-exit; e != exitError || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "f.mmf: no such file") {
		t.Errorf("exit %d, %s", e, &stderr)
	}
}

// TestFollowBesideBuilds: a file that is replaced while keys are looked up in it says "maybe". The
// check looks the keys up again, in the new file.
func TestFollowBesideBuilds(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "apple\n")
	f := followHere(t, "f.mmf")
	ended := make(chan string)
	go func() {
		rest, _ := io.ReadAll(f.lines)
		ended <- string(rest)
	}()
	built := make(chan bool)
	go func() {
		defer close(built)
		for range 50 {
			buildHere(t, "apple\n")
		}
	}()
	absent := strings.Repeat("pear\nplum\n", 1000)
	for building := true; building; {
		select {
		case <-built:
			building = false
		default:
		}
		if _, err := io.WriteString(f.typed, absent); err != nil {
			break
		}
	}
	io.WriteString(f.typed, "apple\n")
	f.typed.Close()
	if rest, e := <-ended, <-f.exit; rest != "apple\n" || e != exitYes || f.stderr.Len() > 0 {
		t.Errorf("%.100q, exit %d, %q", rest, e, &f.stderr)
	}
	<-built
}

// A following is a check that follows f.mmf, with typed keys.
type following struct {
	t      *testing.T
	typed  *io.PipeWriter
	lines  *bufio.Reader
	stderr bytes.Buffer
	exit   chan int
}

func followHere(t *testing.T, args ...string) *following {
	stdin, typed := io.Pipe()
	printed, stdout := io.Pipe()
	f := &following{t: t, typed: typed, lines: bufio.NewReader(printed), exit: make(chan int, 1)}
	go func() {
		status := run(context.Background(), append([]string{"check", "--follow"}, args...), stdin, stdout, &f.stderr)
		stdout.Close()
		stdin.Close()
		f.exit <- status
	}()
	return f
}

// ask types keys, the last of which is printed, and compares the output.
func (f *following) ask(keys, want string) {
	f.t.Helper()
	io.WriteString(f.typed, keys)
	for line := range strings.Lines(want) {
		if got, err := f.lines.ReadString('\n'); got != line {
			f.t.Fatalf("got %q, %v, want %q of %q", got, err, line, want)
		}
	}
}

// end types the last keys, and checks the output, the exit status and standard error.
func (f *following) end(keys, want string, exit int, stderr string) {
	f.t.Helper()
	io.WriteString(f.typed, keys)
	f.typed.Close()
	rest, _ := io.ReadAll(f.lines)
	if e := <-f.exit; string(rest) != want || e != exit || f.stderr.String() != stderr {
		f.t.Errorf("%q, exit %d, %q, want %q, %d, %q", rest, e, &f.stderr, want, exit, stderr)
	}
}

// buildHere builds f.mmf from keys.
func buildHere(t *testing.T, keys string, args ...string) {
	t.Helper()
	args = append([]string{"build", "-q", "-p", "1e-8", "-o", "f.mmf"}, args...)
	if exit, _, stderr := runHere(strings.NewReader(keys), args...); exit != 0 {
		t.Fatal(stderr)
	}
}

// TestFollowRemakesKeys tests rebuilds that change what is done to keys. Keys that were read
// before the new file is seen are made again, also with --record and on the command line.
func TestFollowRemakesKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "aa\nff\n")
	f := followHere(t, "f.mmf")
	f.ask("AA\nff\naa\n", "ff\naa\n")
	buildHere(t, "aa\nff\n", "--hex")
	f.ask("AA\nbb\nff\n", "AA\nff\n")
	f.ask("aa\n", "aa\n") // already made in the new format
	buildHere(t, "pear\r\n", "--trim-cr")
	f.ask("ff\naa\npear\r\npear\n", "pear\npear\n")
	buildHere(t, "pear\r\n")
	f.ask("pear\npear\r\n", "pear\r\n")
	buildHere(t, "aa\n", "--hex")
	f.end("aa\nxyz\nAA\n", "aa\n", exitError, "mmapfilter: standard input: record 15: key \"xyz\" is not hex (as recorded in f.mmf; --plain reads lines)\n")

	buildHere(t, "bb\n")
	f = followHere(t, "-v", "f.mmf")
	f.ask("bb\naa\n", "aa\n")
	buildHere(t, "aa\n", "--hex")
	f.end("bb\nxyz\nAA\n", "bb\n", exitError, "mmapfilter: standard input: record 4: key \"xyz\" is not hex (as recorded in f.mmf; --plain reads lines)\n")

	buildHere(t, "aa:1\n", "-d", ":", "-f", "1")
	f = followHere(t, "--record", "-n", "f.mmf")
	f.ask("AA:1\naa:2\n", "2:aa:2\n")
	buildHere(t, "aa:1\n", "-d", ":", "-f", "1", "--hex")
	f.end("AA:3\nbb:4\naa:5\n", "3:AA:3\n5:aa:5\n", exitYes, "")

	// The command line overrides what is recorded, in every file.
	buildHere(t, "aa\n")
	f = followHere(t, "--hex=false", "f.mmf")
	f.ask("AA\naa\n", "aa\n")
	buildHere(t, "aa\n", "--hex")
	f.end("aa\n", "", exitYes, "")
}

// TestFollowEndsWithTheExtraction tests rebuilds that change which part of a file is a key. They
// end a check, because its input has been split in the old format.
func TestFollowEndsWithTheExtraction(t *testing.T) {
	t.Chdir(t.TempDir())
	const line, field = "one key a line", `delim=":" field=1`
	message := func(read, have string) string {
		return "mmapfilter: f.mmf: the new file records that keys are read as: " + read + "; so far they were read as: " + have + "; run check again\n"
	}
	buildHere(t, "aa\n")
	f := followHere(t, "f.mmf")
	f.ask("bb\naa\n", "aa\n")
	buildHere(t, "aa\n", "-d", ":", "-f", "1")
	f.end("aa:1\naa\n", "", exitError, message(field, line))

	f = followHere(t, "f.mmf")
	f.ask("bb:1\naa:1\n", "aa\n")
	buildHere(t, "aa\n")
	f.end("aa:1\naa\n", "", exitError, message(line, field))

	// An extraction given on the command line applies to both files.
	f = followHere(t, "-d", ":", "-f", "1", "f.mmf")
	f.ask("bb:1\naa:1\n", "aa\n")
	buildHere(t, "aa\n", "-d", ",", "--field", "2", "--hex")
	f.end("bb:1\nAA:1\n", "AA\n", exitYes, "")

	// With --plain a rebuild changes nothing.
	buildHere(t, "aa\n")
	f = followHere(t, "--plain", "f.mmf")
	f.ask("aa\n", "aa\n")
	buildHere(t, "aa\n", "-d", ":", "-f", "1", "--hex")
	f.ask("aa\n\xaa\n", "\xaa\n")
	f.end("aa:1\n", "", exitYes, "")

	// The note of another program is an error in mid-stream too.
	buildHere(t, "aa\n")
	f = followHere(t, "f.mmf")
	f.ask("aa\n", "aa\n")
	opts := mmapfilter.Options{Normalisation: "lower case"}
	filter, err := mmapfilter.Build(context.Background(), "f.mmf", &opts, func(yield func([]byte, error) bool) { yield([]byte("aa"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	filter.Close()
	f.end("aa\n", "", exitError, "mmapfilter: f.mmf: \"lower case\" is a way to read keys that this program does not know; with --plain, keys are read as the other flags say\n")
}

// TestFollowWaitsForFile checks that any key may be in a file that does not exist yet.
func TestFollowWaitsForFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const none = "mmapfilter: f.mmf: no such file yet: any key may be in it\n"
	f := followHere(t, "--wait-for-file", "f.mmf")
	f.ask("aa\nbb\n", "aa\nbb\n")
	f.ask("bb\n", "bb\n")
	buildHere(t, "aa\n", "--hex")
	f.ask("bb\nAA\n", "AA\n")
	f.end("bb\n", "", exitYes, none)

	os.Remove("f.mmf")
	f = followHere(t, "--wait-for-file", "-v", "f.mmf")
	f.end("aa\n", "", exitNo, none)
}

// TestFollowUnrecovered checks that --unrecovered uses the filter of a dead writer until it is
// recovered.
func TestFollowUnrecovered(t *testing.T) {
	t.Chdir(t.TempDir())
	if exit, _, stderr := runHere(nil, "create", "-n", "1k", "-p", "1e-8", "e.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	if err := leaveDead("e.mmf", "f.mmf", "aa\n"); err != nil {
		t.Fatal(err)
	}
	f := followHere(t, "--unrecovered", "f.mmf")
	f.ask("aa\nbb\n", "aa\nbb\n")
	f.ask("bb\n", "bb\n")
	if exit, _, stderr := runHere(nil, "recover", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	f.ask("bb\naa\n", "aa\n")
	f.end("bb\n", "", exitYes, "mmapfilter: f.mmf: its writer has died, and it has not been recovered: any key may be in it\n")
}

// TestCheckOfReplacedFile: without --follow, a check whose file is replaced ends, and names the flag.
func TestCheckOfReplacedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "apple\n")
	stdin, typed := io.Pipe()
	answers, stdout := io.Pipe()
	var stderr bytes.Buffer
	exit := make(chan int)
	go func() { exit <- run(context.Background(), []string{"check", "f.mmf"}, stdin, stdout, &stderr) }()
	io.WriteString(typed, "apple\n")
	if _, err := io.ReadFull(answers, make([]byte, len("apple\n"))); err != nil {
		t.Fatal(err)
	}
	buildHere(t, "pear\n")
	io.WriteString(typed, "pear\n")
	typed.Close()
	const want = "mmapfilter: f.mmf: another file has taken its place; run it again, or give --follow, which goes on in the new file\n"
	if e := <-exit; e != exitError || stderr.String() != want {
		t.Errorf("exit %d, %s, want %s", e, &stderr, want)
	}
}
