package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// published starts publish, and returns its URL and a function that ends it.
func published(t *testing.T, args ...string) (url string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, said := io.Pipe()
	exit := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		exit <- run(ctx, append([]string{"publish", "--listen", "127.0.0.1:0"}, args...), nil, said, &stderr)
		said.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	end = func() {
		cancel()
		if e := <-exit; e != exitYes {
			t.Errorf("publish: exit %d, %s", e, &stderr)
		}
	}
	return "http://" + strings.TrimPrefix(strings.TrimSpace(line), "listening on "), end
}

// TestReplicate publishes a filter while other commands change it. replicate must create a copy and
// bring it up to date, and must fail with a wrong token.
func TestReplicate(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "", "create", "-n", "1k", "--seed", "1", "--keep-hashes", "f.mmf")
	must(t, "a\nb\n", "add", "f.mmf")
	must(t, "", "create", "-n", "1k", "bare.mmf")
	for name, text := range map[string]string{"token": "a secret\n", "wrong": "another\n", "empty": "\n"} {
		noError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	url, end := published(t, "f.mmf", "--token-file", "token")
	replicate := func(token string) (exit int, stdout, stderr string) {
		return runHere(nil, "replicate", "--once", "--token-file", token, url, "copy.mmf")
	}
	if exit, _, stderr := replicate("wrong"); exit != exitError || strings.Count(stderr, "401") != 1 {
		t.Errorf("with a wrong token: exit %d, %s", exit, stderr)
	}
	if exit, stdout, stderr := replicate("token"); exit != exitYes || !strings.HasPrefix(stdout, "2 keys, position ") || stderr != "" {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	must(t, "c\nd\n", "add", "f.mmf")
	must(t, "a\n", "del", "f.mmf")
	if exit, stdout, stderr := replicate("token"); exit != exitYes || !strings.HasPrefix(stdout, "3 keys, position ") || stderr != "" {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if out := must(t, "a\nb\nc\nd\n", "check", "copy.mmf"); out != "b\nc\nd\n" {
		t.Errorf("the copy has %q", out)
	}
	end()
	for says, args := range map[string][]string{
		"keeps no hashes":        {"publish", "bare.mmf"},
		"there is no token":      {"publish", "--listen", ":0", "f.mmf"},
		"its first line":         {"publish", "--token-file", "empty", "f.mmf"},
		"no such file":           {"publish", "none.mmf"},
		"needs a URL":            {"replicate", "f.mmf"},
		"choose another name":    {"replicate", url, "f.mmf"},
		"not an http or https":   {"replicate", "f.mmf", "g.mmf"},
		"needs one filter file,": {"publish"},
	} {
		if exit, _, stderr := runHere(nil, args...); exit != exitError || !strings.Contains(stderr, says) {
			t.Errorf("%v: exit %d, %s", args, exit, stderr)
		}
	}
}
