package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestReplyBeforeRest sends a command, and after it an empty command or the beginning of another
// command. The reply must not wait for more.
func TestReplyBeforeRest(t *testing.T) {
	_, p := startOne(t, Config{})
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	for _, rest := range []string{"\r\n", "*0\r\n", "*1\r\n$4\r\nPI"} {
		p.send("PING\r\n" + rest)
		if got := p.reply()[0]; got != "+PONG" {
			t.Fatal(got)
		}
	}
	p.want("NG", "+PONG")
}

// TestKeepsWhatIsUsed checks that a filter stays open while a command uses it, even if the descriptors
// are needed for other filters.
func TestKeepsWhatIsUsed(t *testing.T) {
	s, addr := start(t, Config{})
	s.dir.most = 4
	p := dial(t, addr)
	p.want("CF.ADD used x", ":1")
	k, err := s.dir.get("used", cuckoo, nil)
	must(t, err)
	defer k.mu.RUnlock()
	for _, command := range []string{"CF.ADD a x", "CF.ADD b x", "CF.ADD c x", "CF.ADD d x", "CF.ADD e x"} {
		p.want(command, ":1")
	}
	if k.filter == nil {
		t.Fatal("the filter was closed")
	}
	if err := k.filter.Insert([]byte("y")); err != nil {
		t.Error(err)
	}
}

// TestOverdueMeanwhile checks that a key stays if it gets a later deadline while its removal waits for
// commands that use it.
func TestOverdueMeanwhile(t *testing.T) {
	s, p := startOne(t, Config{})
	p.want("CF.ADD k x", ":1")
	k := s.dir.find("k")
	k.mu.RLock()
	k.expires.Store(1)
	found := make(chan *key)
	go func() { found <- s.dir.find("k") }()
	for k.mu.TryRLock() { // until the removal waits
		k.mu.RUnlock()
		time.Sleep(time.Millisecond)
	}
	k.expires.Store(time.Now().Add(time.Hour).UnixMilli())
	k.mu.RUnlock()
	if <-found != k {
		t.Error("the key is gone")
	}
	p.want("CF.EXISTS k x", ":1")
}

// TestNamesBesideSweep checks that the names of other keys become durable while a sweep waits for a
// command that uses an expired key.
func TestNamesBesideSweep(t *testing.T) {
	s, addr := start(t, Config{})
	dial(t, addr).want("CF.ADD k x", ":1")
	k := s.dir.find("k")
	k.mu.RLock()
	defer k.mu.RUnlock()
	k.expires.Store(1)
	for k.mu.TryRLock() { // until the sweep waits
		k.mu.RUnlock()
		time.Sleep(time.Millisecond)
	}
	s.dir.change()
	for begun, changed := time.Now(), true; changed; time.Sleep(time.Millisecond) {
		s.dir.names.Lock()
		changed = s.dir.changed
		s.dir.names.Unlock()
		if time.Since(begun) > time.Minute {
			t.Fatal("the names are not synced")
		}
	}
}

// TestOverdueStays checks that creating an expired key again gives an error if its files cannot be
// removed.
func TestOverdueStays(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD k x", ":1")
	stuck := filepath.Join(dir, "k.mmf.past", "file")
	must(t, os.MkdirAll(stuck, 0o755))
	s.dir.find("k").expires.Store(1)
	p.conn.SetDeadline(time.Now().Add(time.Minute))
	for _, command := range []string{"CF.ADD k y", "CF.RESERVE k 100"} {
		if got := p.do(command); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "k.mmf.past") {
			t.Error(got)
		}
	}
	p.want("CF.EXISTS k x", ":0")
	must(t, os.Remove(stuck))
	p.want("CF.ADD k y", ":1")
	p.want("CF.EXISTS k x", ":0")
}

// TestRenameFreesNameLast stops a RENAME before its end. The old name must not be free while there are
// files of that name, because RENAME would then remove files of a new key.
func TestRenameFreesNameLast(t *testing.T) {
	dir := t.TempDir()
	s, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD a x", ":1")
	p.want("EXPIRE a 1000", ":1")
	s.dir.names.Lock()
	go p.send("RENAME a b\r\n")
	for b := (*key)(nil); b == nil || b.expires.Load() == 0; time.Sleep(time.Millisecond) {
		b = s.dir.find("b")
	}
	if _, err := os.Stat(filepath.Join(dir, "a.mmf.expire")); err == nil && s.dir.find("a") == nil {
		t.Error("the name is free before its files are gone")
	}
	s.dir.names.Unlock()
	if got := p.reply()[0]; got != "+OK" {
		t.Error(got)
	}
	files(t, dir, "b.mmf", "b.mmf.expire", "b.mmf.hashes")
	p.wantDeadline("b")
}

// TestDelAfterKilledRebuild checks that DEL also removes the files that a killed rebuild has left.
func TestDelAfterKilledRebuild(t *testing.T) {
	dir := t.TempDir()
	_, p := startOne(t, Config{Dir: dir})
	p.want("CF.ADD k x", ":1")
	for _, name := range []string{"k.mmf.tmp-rebuild", "k.mmf.tmp-rebuild.hashes", "k.mmf.tmp-rebuild.stash"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	p.want("DEL k", ":1")
	files(t, dir)
}

// TestCutShort truncates a file while it is served. The first lookup must answer "maybe", later lookups
// must fail, and other filters must work as before.
func TestCutShort(t *testing.T) {
	dir := t.TempDir()
	_, p := startOne(t, Config{Dir: dir})
	p.want("CF.RESERVE k 100000", "+OK")
	p.want("CF.ADD k a", ":1")
	p.want("CF.ADD other a", ":1")
	must(t, os.Truncate(filepath.Join(dir, "k.mmf"), 0))
	p.want("CF.EXISTS k b", ":1")
	for _, command := range []string{"CF.EXISTS k b", "CF.MEXISTS k a b", "CF.ADD k b", "CF.COUNT k b"} {
		if got := p.do(command); !strings.HasPrefix(got, "-ERR open ") {
			t.Errorf("%s: %s", command, got)
		}
	}
	p.want("CF.EXISTS other a", ":1")
	p.want("CF.EXISTS other b", ":0")
	if err := os.Truncate(filepath.Join(dir, "other.mmf"), 0); err != nil {
		t.Fatal(err)
	}
	if got := p.do("CF.COUNT other b"); !strings.HasPrefix(got, "-ERR ") {
		t.Error(got)
	}
}

// TestRemovedUnderReader has another process read a key that is removed: by a command, or because its
// time is over. Once a client knows that a new key of this name has an item, the reader must not answer
// "certainly not".
func TestRemovedUnderReader(t *testing.T) {
	s, p := startOne(t, Config{})
	for _, remove := range []string{"DEL k", "UNLINK k", "FLUSHALL", "EXPIRE k 0", "", "RENAME"} {
		p.want("CF.ADD k old", ":1")
		p.want("CF.ADD other new", ":1")
		f, err := mmapfilter.OpenReadOnly(filepath.Join(s.Dir, "k.mmf"), nil)
		must(t, err)
		defer f.Close()
		if k := s.dir.find("k"); remove == "" || remove == "RENAME" {
			k.expires.Store(1)
		} else if p.do(remove); !errors.Is(f.Err(), mmapfilter.ErrSuperseded) {
			t.Errorf("%s: the reader does not know that the key is removed: %v", remove, f.Err())
		}
		if remove == "RENAME" {
			p.want("RENAME other k", "+OK")
		} else {
			p.want("CF.ADD k new", ":1")
		}
		if err := f.Err(); !f.ContainsString("new") || !errors.Is(err, mmapfilter.ErrSuperseded) {
			t.Errorf("%s: the reader lacks the item of the new key: %v", remove, err)
		}
		p.want("FLUSHALL", "+OK")
	}
}
