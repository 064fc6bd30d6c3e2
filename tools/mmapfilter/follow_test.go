package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A typing is a run of the program to which the test types keys.
type typing struct {
	t      *testing.T
	typed  *io.PipeWriter
	lines  *bufio.Reader
	stderr bytes.Buffer
	exit   chan int
}

// typeTo starts the program.
func typeTo(t *testing.T, args ...string) *typing {
	stdin, typed := io.Pipe()
	printed, stdout := io.Pipe()
	f := &typing{t: t, typed: typed, lines: bufio.NewReader(printed), exit: make(chan int, 1)}
	go func() {
		status := run(context.Background(), args, stdin, stdout, &f.stderr)
		stdout.Close()
		stdin.Close()
		f.exit <- status
	}()
	return f
}

func followHere(t *testing.T, args ...string) *typing {
	return typeTo(t, append([]string{"check", "--follow"}, args...)...)
}

// ask types keys, and compares what the program prints. It returns once the program has looked the
// keys up, even if it prints nothing.
func (f *typing) ask(keys, want string) {
	f.t.Helper()
	io.WriteString(f.typed, keys)
	if want == "" {
		f.typed.Write(nil) // waits until the program reads on
	}
	for line := range strings.Lines(want) {
		if got, err := f.lines.ReadString('\n'); got != line {
			f.t.Fatalf("got %q, %v, want %q of %q", got, err, line, want)
		}
	}
}

// end types the last keys, and checks the output and the exit status. It returns standard error.
func (f *typing) end(keys, want string, exit int) (stderr string) {
	f.t.Helper()
	go func() {
		io.WriteString(f.typed, keys)
		f.typed.Close()
	}()
	rest, _ := io.ReadAll(f.lines)
	if e := <-f.exit; string(rest) != want || e != exit {
		f.t.Errorf("%.100q, exit %d, want %q, %d", rest, e, want, exit)
	}
	return f.stderr.String()
}

// endWith does what end does, and checks standard error.
func (f *typing) endWith(keys, want string, exit int, stderr string) {
	f.t.Helper()
	if got := f.end(keys, want, exit); got != stderr {
		f.t.Errorf("%q, want %q", got, stderr)
	}
}

// TestCheckFollows checks that check --follow looks keys up in the current file or set: in one that
// appears, in its successor, in one with another way to read keys, and in the last one if that is
// removed.
func TestCheckFollows(t *testing.T) {
	for _, c := range []struct {
		name string
		made []string
		away string // the file that is removed
		told string
	}{
		{"f.mmf", nil, "f.mmf", "f.mmf: no such file\n"},
		{"f.set", []string{"--shards", "1"}, "shard-*", "f.set: shard 0: "},
	} {
		t.Chdir(t.TempDir())
		build := func(keys string, args ...string) {
			t.Helper()
			must(t, keys, slices.Concat([]string{"build", "-q", "-p", "1e-8", "-o", c.name}, c.made, args)...)
		}
		f := followHere(t, "--wait-for-file", "-v", c.name)
		f.ask("apple\n", "") // while the file is missing, any key may be in the filter
		build("apple\npear\n")
		f.ask("apple\npear\nplum\n", "plum\n")
		build("plum\n")
		f.ask("plum\napple\npear\n", "apple\npear\n")
		build("PLUM\n", "--trim-cr")
		f.ask("PLUM\r\nplum\n", "plum\n")
		if c.made != nil {
			must(t, "", "set", "gc", "-q", ".")
		}
		noError(t, os.Rename(oneFile(t, c.away), "away"))
		for range 2 {
			f.ask("PLUM\napple\n", "apple\n") // the file is still open
		}
		build("plum\n", "--trim-cr")
		f.ask("PLUM\nplum\napple\n", "PLUM\napple\n")
		told := f.end("", "", exitError)
		if !strings.HasPrefix(told, "mmapfilter: "+c.name+": no such file yet: any key may be in it\nmmapfilter: "+c.told) || strings.Count(told, "\n") != 2 {
			t.Error(told)
		}
	}
}

// TestFollowBesideBuilds replaces a file while keys are looked up in it, so that it answers "maybe". The
// check must look the keys up again, in the new file.
func TestFollowBesideBuilds(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "apple\n")
	f := followHere(t, "f.mmf")
	printed := make(chan string)
	go func() {
		rest, _ := io.ReadAll(f.lines)
		printed <- string(rest)
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
		f.ask(absent, "")
		time.Sleep(100 * time.Microsecond) // with one processor, the builds would never get their turn
	}
	f.ask("apple\n", "")
	f.typed.Close()
	if rest, e := <-printed, <-f.exit; rest != "apple\n" || e != exitYes || f.stderr.Len() > 0 {
		t.Errorf("%.100q, exit %d, %q", rest, e, &f.stderr)
	}
}

// buildHere builds f.mmf from keys.
func buildHere(t *testing.T, keys string, args ...string) {
	t.Helper()
	args = append([]string{"build", "-q", "-p", "1e-8", "-o", "f.mmf"}, args...)
	must(t, keys, args...)
}

// TestFollowRemakesKeys replaces files by files with another key format. Keys that were read before the
// check notices the new file must be converted again, with --record, too. Flags override the format.
func TestFollowRemakesKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "aa\nff\n")
	f := followHere(t, "f.mmf")
	f.ask("AA\nff\naa\n", "ff\naa\n")
	buildHere(t, "aa\nff\n", "--hex")
	f.ask("AA\nbb\nff\n", "AA\nff\n")
	f.ask("aa\n", "aa\n") // converted in the new format at once
	buildHere(t, "pear\r\n", "--trim-cr")
	f.ask("ff\naa\npear\r\npear\n", "pear\npear\n")
	buildHere(t, "pear\r\n")
	f.ask("pear\npear\r\n", "pear\r\n")
	buildHere(t, "aa\n", "--hex")
	f.endWith("aa\nxyz\nAA\n", "aa\n", exitError, "mmapfilter: standard input: record 15: key \"xyz\" is not hex (as recorded in f.mmf; --plain reads lines)\n")

	buildHere(t, "bb\n")
	f = followHere(t, "-v", "f.mmf")
	f.ask("bb\naa\n", "aa\n")
	buildHere(t, "aa\n", "--hex")
	f.endWith("bb\nxyz\nAA\n", "bb\n", exitError, "mmapfilter: standard input: record 4: key \"xyz\" is not hex (as recorded in f.mmf; --plain reads lines)\n")

	buildHere(t, "aa:1\n", "-d", ":", "-f", "1")
	f = followHere(t, "--record", "-n", "f.mmf")
	f.ask("AA:1\naa:2\n", "2:aa:2\n")
	buildHere(t, "aa:1\n", "-d", ":", "-f", "1", "--hex")
	f.endWith("AA:3\nbb:4\naa:5\n", "3:AA:3\n5:aa:5\n", exitYes, "")

	// A flag overrides what any file records.
	buildHere(t, "aa\n")
	f = followHere(t, "--hex=false", "f.mmf")
	f.ask("AA\naa\n", "aa\n")
	buildHere(t, "aa\n", "--hex")
	f.endWith("aa\n", "", exitYes, "")
}

// TestFollowEndsWithTheExtraction replaces files by files that record another part of the input as the
// key. This ends a check, because its input has been split in the old format.
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
	f.endWith("aa:1\naa\n", "", exitError, message(field, line))

	f = followHere(t, "f.mmf")
	f.ask("bb:1\naa:1\n", "aa\n")
	buildHere(t, "aa\n")
	f.endWith("aa:1\naa\n", "", exitError, message(line, field))

	// An extraction given on the command line applies to both files.
	f = followHere(t, "-d", ":", "-f", "1", "f.mmf")
	f.ask("bb:1\naa:1\n", "aa\n")
	buildHere(t, "aa\n", "-d", ",", "--field", "2", "--hex")
	f.endWith("bb:1\nAA:1\n", "AA\n", exitYes, "")

	// With --plain, a new file changes nothing.
	buildHere(t, "aa\n")
	f = followHere(t, "--plain", "f.mmf")
	f.ask("aa\n", "aa\n")
	buildHere(t, "aa\n", "-d", ":", "-f", "1", "--hex")
	f.ask("aa\n\xaa\n", "\xaa\n")
	f.endWith("aa:1\n", "", exitYes, "")

	// The note of another program is an error even if the check has begun.
	buildHere(t, "aa\n")
	f = followHere(t, "f.mmf")
	f.ask("aa\n", "aa\n")
	opts := mmapfilter.Options{Normalisation: "lower case"}
	filter, err := mmapfilter.Build(context.Background(), "f.mmf", &opts, func(yield func([]byte, error) bool) { yield([]byte("aa"), nil) })
	noError(t, err)
	filter.Close()
	f.endWith("aa\n", "", exitError, "mmapfilter: f.mmf: \"lower case\" is a way to read keys that this program does not know; with --plain, keys are read as the other flags say\n")
}

// TestFollowWaitsInVain checks that a check answers "maybe" for any key if its file never appears.
func TestFollowWaitsInVain(t *testing.T) {
	t.Chdir(t.TempDir())
	f := followHere(t, "--wait-for-file", "f.mmf")
	f.ask("aa\n", "aa\n")
	const none = "mmapfilter: f.mmf: no such file yet: any key may be in it\n"
	f.endWith("bb\n", "bb\n", exitYes, none)
	followHere(t, "--wait-for-file", "-v", "f.mmf").endWith("aa\n", "", exitNo, none)
}

// TestFollowUnrecovered checks that --unrecovered uses the filter of a dead writer until it is
// recovered.
func TestFollowUnrecovered(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "1k", "-p", "1e-8", "e.mmf")
	noError(t, leaveDead("e.mmf", "f.mmf", "aa\n"))
	f := followHere(t, "--unrecovered", "f.mmf")
	f.ask("aa\nbb\n", "aa\nbb\n")
	f.ask("bb\n", "bb\n")
	must(t, "", "recover", "f.mmf")
	f.ask("bb\naa\n", "aa\n")
	f.endWith("bb\n", "", exitYes, "mmapfilter: f.mmf: its writer has died, and it has not been recovered: any key may be in it\n")
}

// TestCheckOfReplacedFile checks that, without --follow, a check whose file is replaced ends, with an
// error that names the flag.
func TestCheckOfReplacedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "apple\n")
	f := typeTo(t, "check", "f.mmf")
	f.ask("apple\n", "apple\n")
	buildHere(t, "pear\n")
	f.endWith("pear\n", "", exitError, "mmapfilter: f.mmf: another file has taken its place; run it again, or give --follow, which goes on in the new file\n")
}
