package clients

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRedisCLI gives the commands of the transcripts to redis-cli, one a line. redis-cli prints JSON.
func TestRedisCLI(t *testing.T) {
	missing(t, []string{"redis-cli", "--version"})
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", version), func(t *testing.T) {
			s := serve(t, "")
			for _, path := range transcripts(t) {
				played := entries(t, path)
				lines := []string{"FLUSHALL"}
				for _, e := range played {
					lines = append(lines, e.Command)
				}
				cmd := exec.Command("redis-cli", "-p", strconv.Itoa(s.port), "-"+strconv.Itoa(version), "--json")
				cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
				out, err := cmd.CombinedOutput()
				replies := strings.Split(strings.TrimSpace(string(out)), "\n")
				if err != nil || len(replies) != len(lines) {
					t.Fatalf("%d replies to %d commands, %v: %s", len(replies), len(lines), err, out)
				}
				for i, e := range played {
					want, _ := parse(t, e.Reply(version))
					compare(t, path, e, show(fromCLI(t, replies[i+1])), show(want))
				}
			}
		})
	}
}

var errorOfCLI = regexp.MustCompile(`error:("(?:[^"\\]|\\.)*")`)

// fromCLI returns the value of a line that redis-cli prints. The line is JSON, except that errors in it
// are not.
func fromCLI(t *testing.T, line string) any {
	t.Helper()
	value, err := decode(errorOfCLI.ReplaceAllString(line, `{"error": $1}`))
	must(t, err)
	return value
}

// TestRedisBenchmark has redis-benchmark send commands. None may fail, and CF.ADD must insert all items.
func TestRedisBenchmark(t *testing.T) {
	missing(t, []string{"redis-benchmark", "--version"})
	s := serve(t, "")
	c := newGoRedis(t, s, 3)
	defer c.close()
	const n = 2000
	benchmark := func(words ...string) {
		t.Helper()
		args := append([]string{"-p", strconv.Itoa(s.port), "-n", strconv.Itoa(n), "-r", "100000000", "-P", "16", "-q"}, words...)
		out, err := exec.Command("redis-benchmark", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "requests per second") || strings.Contains(string(out), "Error") {
			t.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	benchmark("CF.ADD", "k", "__rand_int__")
	benchmark("BF.MADD", "b", "__rand_int__", "fixed")
	got := c.send([][]string{{"BF.EXISTS", "b", "fixed"}, {"CF.INFO", "k"}})
	info, _ := got[1].(map[string]any)
	if got[0] != true || info["Number of items inserted"] != int64(n) {
		t.Errorf("after %d calls of CF.ADD and BF.MADD: %v", n, got)
	}
	for _, words := range []string{
		"CF.EXISTS k __rand_int__", "CF.MEXISTS k __rand_int__ __rand_int__", "CF.COUNT k __rand_int__",
		"CF.DEL k __rand_int__", "CF.ADDNX k __rand_int__", "BF.EXISTS b __rand_int__", "-t ping",
	} {
		benchmark(strings.Fields(words)...)
	}
}
