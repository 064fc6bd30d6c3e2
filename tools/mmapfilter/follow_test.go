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

// A check that follows its file asks for each key in the one that is there by
// then, and tells once of one that is none.
func TestCheckFollows(t *testing.T) {
	t.Chdir(t.TempDir())
	build := func(keys string) {
		t.Helper()
		if exit, _, stderr := runHere(strings.NewReader(keys), "build", "-q", "-f", "30", "-o", "f.mmf"); exit != 0 {
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
	// ask has the last key printed, being in no file.
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
