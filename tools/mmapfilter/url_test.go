package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestURL: check and info read a filter from a web server, and say in their words what is wrong with
// one, without a password or a query.
func TestURL(t *testing.T) {
	t.Chdir(t.TempDir())
	run := func(input string, args ...string) string {
		t.Helper()
		out, err := runTool(context.Background(), args, input)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("a\nb\nc\n", "build", "-o", "good.mmf", "--keep-hashes")
	run("", "create", "-n", "100", "clean.mmf")
	data, err := os.ReadFile("good.mmf")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("text.mmf", []byte(strings.Repeat("no filter", 10_000)))
	write("cut.mmf", data[:len(data)-1])
	server := httptest.NewServer(http.FileServer(http.Dir(".")))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, c := range []struct {
		command string
		says    string // all of it, but for info
	}{
		{"check -e a -e x URL/good.mmf", "a\n"},
		{"check -v -e a -e x URL/good.mmf", "x\n"},
		{"check -e x URL/good.mmf", "[exit 1]\n"},
		{"check -e x URL/clean.mmf", "[exit 1]\n"},
		{"info URL/good.mmf", "keys            3 of 3 (100.0 %)\n"},
		{"info --json URL/good.mmf", `"residency": "reader"`},
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
	}
}
