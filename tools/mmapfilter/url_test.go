package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestURL checks that check, info and verify read a filter or a set from a web server, and that their
// messages show no password and no query.
func TestURL(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(input string, args ...string) string {
		t.Helper()
		out, err := runTool(context.Background(), args, input)
		noError(t, err)
		return out
	}
	run("a\nb\nc\n", "build", "-o", "good.mmf", "--keep-hashes")
	run("", "create", "-n", "100", "clean.mmf")
	run("a\nb\nc\n", "build", "--shards", "3", "-o", "good.set")
	data, err := os.ReadFile("good.mmf")
	noError(t, err)
	write := func(name string, data []byte) {
		noError(t, os.WriteFile(name, data, 0o600))
	}
	write("text.mmf", []byte(strings.Repeat("no filter", 10_000)))
	write("cut.mmf", data[:len(data)-1])
	data[33_000] ^= 1
	write("bit.mmf", data)
	manifest, err := os.ReadFile("good.set")
	noError(t, errors.Join(err, os.Mkdir("lost", 0o700)))
	write("lost/lost.set", manifest)
	shards, _ := filepath.Glob("shard-00000-*")
	shard := shards[0]
	server := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		command string
		says    string // the whole output if it ends in a line feed and the command is check; otherwise a part
	}{
		{"check -e a -e x URL/good.mmf", "a\n"},
		{"check -v -e a -e x URL/good.mmf", "x\n"},
		{"check -e x URL/good.mmf", "[exit 1]\n"},
		{"check -e x URL/clean.mmf", "[exit 1]\n"},
		{"info URL/good.mmf", "keys            3 of 3 (100.0 %)\n"},
		{"info --json URL/good.mmf", `"residency": "reader"`},
		{"check -e a -e x URL/good.set", "a\n"},
		{"check -v -e a -e x -e c URL/good.set?token=1", "x\n"},
		{"info URL/good.set", "3 of 3"},
		{"verify URL/good.mmf", "damage     none\n"},
		{"verify URL/clean.mmf", "damage     none\n"},
		{"verify URL/bit.mmf", "URL/bit.mmf: damaged region at offset 33000"},
		{"verify URL/cut.mmf", "URL/cut.mmf: damaged file at offset "},
		{"verify URL/text.mmf", "mmapfilter: URL/text.mmf: not an mmapfilter file\n[exit 2]\n"},
		{"verify --recover URL/good.mmf", "mmapfilter: URL/good.mmf: --recover cannot be used with a URL\n[exit 2]\n"},
		{"verify SECRET/none.mmf?signature=secret", "mmapfilter: http://me:xxxxx@HOST/none.mmf: no such file\n[exit 2]\n"},
		{"verify URL/good.set", "mmapfilter: URL/good.set: verify cannot read a set from a URL; verify its shards\n[exit 2]\n"},
		{"check --follow -e a URL/good.set", "mmapfilter: URL/good.set: --follow cannot be used with a URL\n[exit 2]\n"},
		{"check -e a SECRET/none.set?signature=secret", "mmapfilter: http://me:xxxxx@HOST/none.set: no such file\n[exit 2]\n"},
		{"check -e a SECRET/lost/lost.set?signature=secret", "a\nmmapfilter: http://me:xxxxx@HOST/lost/lost.set: shard 0: open http://me:xxxxx@HOST/lost/" + shard + ": the server says 404 Not Found\n[exit 2]\n"},
		{"info SECRET/lost/lost.set?signature=secret", "mmapfilter: http://me:xxxxx@HOST/lost/lost.set: shard 0: open http://me:xxxxx@HOST/lost/" + shard + ": the server says 404 Not Found\n"},
		{"info --json SECRET/good.set?signature=secret", `"keys": 3`},
		{"verify --json SECRET/bit.mmf?signature=secret", `"filter": "http://me:xxxxx@HOST/bit.mmf"`},
		{"check -e a URL/none.mmf", "mmapfilter: URL/none.mmf: no such file\n[exit 2]\n"},
		{"info URL/text.mmf", "mmapfilter: URL/text.mmf: not an mmapfilter file\n[exit 2]\n"},
		{"info URL/cut.mmf", "mmapfilter: URL/cut.mmf: corrupt file at offset "},
		{"info --recover URL/good.mmf", "mmapfilter: URL/good.mmf: --recover cannot be used with a URL\n[exit 2]\n"},
		{"check --follow -e a URL/good.mmf", "mmapfilter: URL/good.mmf: --follow cannot be used with a URL\n[exit 2]\n"},
		{"check -e a SECRET/none.mmf?signature=secret", "mmapfilter: http://me:xxxxx@HOST/none.mmf: no such file\n[exit 2]\n"},
		{"info SECRET/none.mmf?signature=secret", "mmapfilter: http://me:xxxxx@HOST/none.mmf: no such file\n[exit 2]\n"},
		{"check --follow -e a SECRET/good.mmf?signature=secret", "mmapfilter: http://me:xxxxx@HOST/good.mmf: --follow cannot be used with a URL\n[exit 2]\n"},
		{"check -e a http://me:secret@%zz/", "mmapfilter: URL: not an http or https URL\n[exit 2]\n"},
		{"check -e a https://", "mmapfilter: https://: not an http or https URL\n[exit 2]\n"},
	} {
		args := strings.Fields(strings.NewReplacer("SECRET", "HTTP://me:secret@"+host, "URL", server.URL).Replace(c.command))
		out := strings.NewReplacer(server.URL, "URL", host, "HOST").Replace(run("", args...))
		if all := strings.HasSuffix(c.says, "\n") && args[0] == "check"; out != c.says && (all || !strings.Contains(out, c.says)) {
			t.Errorf("%s\n%s", c.command, out)
		}
		if strings.Contains(out, "secret") {
			t.Errorf("%s tells the secret:\n%s", c.command, out)
		}
	}
}
