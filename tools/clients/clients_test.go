package clients

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/internal/resp"
	"github.com/mmapfilter/mmapfilter/tools/internal/resp/transcript"
)

// kinds has the kinds of clients that the tests send commands with.
var kinds = []struct {
	name     string
	needs    []string // a command that succeeds if the client is installed
	versions []int
	connect  func(t testing.TB, s *server, version int) client
}{
	{name: "go-redis", versions: []int{2, 3}, connect: newGoRedis},
	{name: "rueidis", versions: []int{2, 3}, connect: newRueidis},
	{name: "redis-py", needs: []string{python, "-c", "import redis.commands.bf"}, versions: []int{2}, connect: newPython},
	{name: "node-redis", needs: []string{"node", "-e", "require('redis')"}, versions: []int{2, 3}, connect: newNode},
}

// lacks returns why a client is not installed, or nil if it is.
func lacks(needs []string) error {
	if len(needs) == 0 {
		return nil
	}
	out, err := exec.Command(needs[0], needs[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%v: %w: %s", needs, err, out)
	}
	return err
}

// missing skips a test whose client is not installed.
func missing(t testing.TB, needs []string) {
	if err := lacks(needs); err != nil {
		t.Skip("NOT TESTED: ", err)
	}
}

// transcripts returns the paths of the transcripts whose commands do not depend on a connection.
func transcripts(t *testing.T) []string {
	all, err := filepath.Glob("../internal/server/testdata/*.txt")
	all = slices.DeleteFunc(all, func(path string) bool {
		return strings.HasSuffix(path, "/connection.txt") || strings.HasSuffix(path, "/password.txt")
	})
	if err != nil || len(all) < 4 {
		t.Fatal(all, err)
	}
	return all
}

// TestTranscripts sends the commands of the transcripts with each client.
func TestTranscripts(t *testing.T) {
	for _, k := range kinds {
		for _, version := range k.versions {
			t.Run(fmt.Sprintf("%s/RESP%d", k.name, version), func(t *testing.T) {
				t.Parallel()
				missing(t, k.needs)
				c := k.connect(t, serve(t, ""), version)
				defer c.close()
				for _, path := range transcripts(t) {
					wantOK(t, c.send([][]string{{"FLUSHALL"}})[0])
					for _, e := range entries(t, path) {
						want, _ := parse(t, e.Reply(version))
						compare(t, path, e, show(c.send([][]string{words(t, e.Command)})[0]), show(want))
					}
				}
				wantOK(t, c.send([][]string{{"FLUSHALL"}})[0])
				const calls = "../internal/server/testdata/calls.txt"
				for _, e := range entries(t, calls) {
					want, _ := parse(t, e.Reply(3))
					compare(t, calls, e, asIntegers(show(c.call(words(t, e.Command)))), asIntegers(show(want)))
				}
			})
		}
	}
}

// TestPassword checks that each client logs in with the server's password.
func TestPassword(t *testing.T) {
	s := serve(t, "secret")
	stranger := newGoRedis(t, &server{port: s.port}, 2)
	defer stranger.close()
	if err, ok := stranger.send([][]string{{"CF.ADD", "k", "a"}})[0].(error); !ok || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	for _, k := range kinds {
		for _, version := range k.versions {
			t.Run(fmt.Sprintf("%s/RESP%d", k.name, version), func(t *testing.T) {
				missing(t, k.needs)
				c := k.connect(t, s, version)
				defer c.close()
				if got := c.send([][]string{{"CF.ADD", "k", "a"}})[0]; got != true && got != int64(1) {
					t.Error(got)
				}
			})
		}
	}
}

// TestDumps copies filters with SCANDUMP and LOADCHUNK as their documentation says: a chunk is loaded at
// the position that came with it, and position 0 means the end.
func TestDumps(t *testing.T) {
	for _, k := range kinds {
		for _, version := range k.versions {
			t.Run(fmt.Sprintf("%s/RESP%d", k.name, version), func(t *testing.T) {
				t.Parallel()
				missing(t, k.needs)
				c := k.connect(t, serve(t, ""), version)
				defer c.close()
				for _, kind := range []string{"CF", "BF"} {
					items := []string{"\x00\r\n\xff"}
					for i := range 3000 {
						items = append(items, fmt.Sprint(i))
					}
					c.send([][]string{append([]string{kind + ".INSERT", kind, "ITEMS"}, items...)})
					copied := copyFilter(t, c, kind)
					found, _ := c.send([][]string{append([]string{kind + ".MEXISTS", kind + "copy"}, items...)})[0].([]any)
					lost := slices.ContainsFunc(found, func(v any) bool { return v != true && v != int64(1) })
					if len(found) != len(items) || lost || copied < 2 {
						t.Errorf("%s: %d answers for %d items, %d chunks; items are missing: %v", kind, len(found), len(items), copied, lost)
					}
				}
			})
		}
	}
}

// copyFilter copies the filter of a key by a dump, and returns the number of its chunks.
func copyFilter(t *testing.T, c client, kind string) (chunks int) {
	t.Helper()
	for at := int64(0); ; chunks++ {
		part, _ := c.call([]string{kind + ".SCANDUMP", kind, fmt.Sprint(at)}).([]any)
		if len(part) != 2 {
			t.Fatalf("%s.SCANDUMP: %v", kind, part)
		}
		if at, _ = part[0].(int64); at == 0 {
			return chunks
		}
		chunk, _ := part[1].(string)
		wantOK(t, c.call([]string{kind + ".LOADCHUNK", kind + "copy", fmt.Sprint(at), chunk}))
	}
}

func entries(t *testing.T, path string) []transcript.Entry {
	t.Helper()
	all, err := transcript.Read(path)
	must(t, err)
	return all
}

func compare(t *testing.T, path string, e transcript.Entry, got, want []string) {
	t.Helper()
	if !slices.EqualFunc(got, want, transcript.Same) {
		t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", filepath.Base(path), e.Line, e.Command, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wantOK(t testing.TB, value any) {
	t.Helper()
	if value != "OK" {
		t.Fatal(value)
	}
}

// words splits a line of a transcript into words, as the server does.
func words(t testing.TB, line string) []string {
	t.Helper()
	r := resp.NewReader(strings.NewReader(line + "\n"))
	r.Limits = resp.Known
	args, err := r.Command()
	must(t, err)
	var all []string
	for _, a := range args {
		all = append(all, string(a))
	}
	return all
}
