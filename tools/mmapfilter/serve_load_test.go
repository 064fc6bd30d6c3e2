//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var (
	serveKeys    = flag.Int("serve-keys", 60, "number of keys in TestServeManyKeys; the server has a hundredth as many descriptors, but at least 100")
	serveClients = flag.Int("serve-clients", 400, "number of clients in TestServeManyClients")
)

// TestServeManyKeys uses more filters than the server has descriptors for. After the server has ended,
// each filter must take at most 64 KiB of disk, and have no log.
func TestServeManyKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	const clients = 12
	descriptors := max(*serveKeys/100, 100)
	s := serveIn(t, fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors), "--maxclients", strconv.Itoa(clients+1))
	var all sync.WaitGroup
	for c := range clients {
		client := s.another()
		all.Add(1)
		go func() {
			defer all.Done()
			for i := c; i < *serveKeys; i += clients {
				client.do(":1", fmt.Sprintf("CF.ADD key%d item%d", i, i), fmt.Sprintf("CF.EXISTS key%d item%d", i, i))
			}
		}()
	}
	all.Wait()
	for i := range *serveKeys {
		s.do(":1", fmt.Sprintf("CF.EXISTS key%d item%d", i, i))
	}
	s.do(fmt.Sprintf(":%d", *serveKeys), "DBSIZE")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	for i := range *serveKeys {
		files, blocks := 0, int64(0)
		for _, end := range []string{"", ".hashes", ".stash", ".stash.new"} {
			if info, err := os.Stat(fmt.Sprintf("key%d.mmf%s", i, end)); err == nil {
				files++
				blocks += info.Sys().(*syscall.Stat_t).Blocks
			}
		}
		if files != 2 || blocks > 64<<10/512 {
			t.Fatalf("key%d has %d files, %d KiB", i, files, blocks/2)
		}
	}
}

// TestServeManyClients opens more connections than the server accepts. It must serve the connections
// that it has accepted, although they were idle.
func TestServeManyClients(t *testing.T) {
	t.Chdir(t.TempDir())
	most := *serveClients
	s := serve(t, "--maxclients", strconv.Itoa(most))
	var idle []*served
	for range most - 1 {
		idle = append(idle, s.another())
	}
	idle[most-2].do("+PONG", "PING") // so the server has accepted all
	for range 100 {
		if got, err := s.another().in.ReadString('\n'); got != "-ERR max number of clients reached\r\n" {
			t.Fatal(got, err)
		}
	}
	for _, c := range idle {
		c.do(":1", "CF.ADD k item")
	}
}

// TestServeFullDisk fills the disk of a server. A command that needs room must get an error, other
// commands must be served, and all items that were added must be there. Adding must work once there is
// room again.
func TestServeFullDisk(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(t.TempDir())
	const mount = `mount -t tmpfs -o size=1500k none "$DISK" && cd "$DISK"`
	t.Setenv("DISK", dir)
	if out, err := exec.Command("unshare", "--mount", "--map-root-user", "sh", "-c", mount).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: a full disk: cannot mount a small one here: %v\n%s", err, out)
	}
	s := serveIn(t, `exec unshare --mount --map-root-user sh -c '`+mount+` && exec "$0" "$@"' "$0" "$@"`)
	full := func(reply string) bool {
		return strings.HasPrefix(reply, "-ERR ") && strings.Contains(reply, "no space left on device")
	}
	keys := 0
	for reply := ":1"; reply == ":1"; keys++ {
		if reply = s.ask(fmt.Sprintf("CF.ADD key%d first", keys)); reply != ":1" && !full(reply) {
			t.Fatal(reply)
		}
	}
	keys-- // the last key had no room
	other := s.another()
	other.do("+PONG", "PING")
	items := 0
	for ; items < 1_000_000; items++ {
		if reply := s.ask(fmt.Sprintf("CF.ADD key0 %d", items)); full(reply) {
			break
		} else if reply != ":1" {
			t.Fatal(reply)
		}
	}
	present := func() {
		t.Helper()
		for i := range items {
			other.do(":1", fmt.Sprintf("CF.EXISTS key0 %d", i))
		}
		for i := range keys {
			other.do(":1", fmt.Sprintf("CF.EXISTS key%d first", i))
		}
	}
	present()
	keys--
	s.do(":1", fmt.Sprintf("DEL key%d", keys))
	eventually(t, "there is room", func() bool { return s.ask("CF.ADD key0 more") == ":1" })
	present()
}

// TestServeBesideOthers has other processes look keys up in the file of a filter while clients add to it
// and it grows. A process must find each key whose add was answered before the process started.
func TestServeBesideOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serve(t, "--appendfsync", "always")
	add := func(c *served, from, to int) (keys []string) {
		var commands []string
		for i := from; i < to; i++ {
			keys = append(keys, strconv.Itoa(i))
			commands = append(commands, "CF.ADD k "+strconv.Itoa(i))
		}
		c.do(":1", commands...)
		return keys
	}
	other, done := s.another(), make(chan struct{})
	var added []string
	for round := range 5 {
		n := 500 << round
		keys := add(s, n, 2*n)
		added = append(added, keys...)
		go func() {
			add(other, 1_000_000+n, 1_000_000+2*n)
			done <- struct{}{}
		}()
		if got := must(t, strings.Join(added, "\n")+"\n", "check", "-c", "--follow", "k.mmf"); got != fmt.Sprintln(len(added)) {
			t.Errorf("of %d keys, another process finds %s", len(added), got)
		}
		<-done
	}
	if got := must(t, "a\nb\nc\n", "check", "-v", "k.mmf"); got == "" {
		t.Error("another process finds all absent keys")
	}
}
