//go:build unix

package replica

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var (
	kills    = flag.Int("kills", 20, "how often TestKill kills a primary, a replica or both")
	killSeed = flag.Uint64("seed", 0, "the seed of TestKill, which chooses whom it kills, but not when; 0 means another in each run")
)

// roleVariable tells a child process its role, its directory and the URL of the proxy.
const roleVariable = "MMAPFILTER_TEST_REPLICA"

// TestMain also runs the child processes of TestKill.
func TestMain(m *testing.M) {
	var role, dir, url string
	if _, err := fmt.Sscanf(os.Getenv(roleVariable), "%s %q %q", &role, &dir, &url); err != nil {
		os.Exit(m.Run())
	}
	go func() { // when the test ends, for any reason
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var err error
	switch role {
	case "primary":
		err = runPrimary(dir)
	case "replica":
		err = runReplica(dir, url)
	}
	if err != nil {
		fmt.Println("VIOLATION:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The number of an operation of the primary, as in its position, says what the operation does. So a
// position says which keys a filter must have. Of three operations
//
//   - the first inserts a key that stays; in one of five cases, one that is there already;
//   - the second inserts a key that stays for 3·lag operations;
//   - the third deletes such a key; the first lag ones insert, by InsertUnique, a key that stays.
const lag = 300

func killKey(i uint64) []byte {
	if i%15 == 3 {
		i -= 3
	}
	return fmt.Appendf(nil, "operation %d", i)
}

// operate does an operation.
func operate(f *mmapfilter.Filter, i uint64) (err error) {
	switch {
	case i%3 != 2:
		return f.Insert(killKey(i))
	case i < 3*lag:
		_, err = f.InsertUnique(killKey(i))
		return err
	}
	deleted, err := f.Delete(killKey(i - 3*lag - 1))
	if err == nil && !deleted {
		err = fmt.Errorf("operation %d finds nothing to delete", i)
	}
	return err
}

// deletedBy returns the number of the operation that deletes the key that operation i inserts. It
// returns 0 if operation i inserts no key, and the largest number if its key stays.
func deletedBy(i uint64) uint64 {
	switch {
	case i%3 == 1:
		return i + 3*lag + 1
	case i%3 == 2 && i >= 3*lag:
		return 0
	}
	return 1<<64 - 1
}

// keysAt returns how many keys the primary has before operation n.
func keysAt(n uint64) (keys uint64) {
	for i := range n {
		if deletedBy(i) >= n {
			keys++
		}
	}
	return keys
}

// runPrimary does operations and publishes the filter. When the test says that it is the end, it only
// publishes.
func runPrimary(dir string) error {
	path := filepath.Join(dir, "primary.mmf")
	o := &mmapfilter.Options{Capacity: 2000, AutoGrow: true}
	if _, err := os.Stat(filepath.Join(dir, "keep")); err == nil {
		o.KeepChanges = time.Hour // otherwise the changes would be gone after a rebuild, and replicas would take snapshots
	}
	f, err := retry(func() (*mmapfilter.Filter, error) { return mmapfilter.OpenOrCreate(path, o, nil) })
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(listener, Handler(f))
	fmt.Println("at http://" + listener.Addr().String())
	for i := f.Position().Number; ; i++ {
		if err := operate(f, i); err != nil {
			return err
		}
		if i%20 != 0 {
			continue
		}
		if i%100 == 0 {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "end")); err == nil {
			break
		}
		time.Sleep(time.Millisecond) // leave the processor to other processes
	}
	if err := f.Sync(); err != nil {
		return err
	}
	fmt.Println("end", f.Position())
	select {}
}

// retry repeats f while another process recovers the file.
func retry[T any](f func() (T, error)) (v T, err error) {
	for range 10_000 {
		v, err = f()
		if err == nil || !errors.Is(err, mmapfilter.ErrLocked) && !errors.Is(err, mmapfilter.ErrNeedsRecovery) && !errors.Is(err, mmapfilter.ErrBusy) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return v, err
}

// runReplica follows the primary, and looks keys up all the time, until it reaches the last position of
// the primary.
func runReplica(dir, url string) error {
	path := filepath.Join(dir, "replica.mmf")
	r, err := retry(func() (*Replica, error) { return Follow(context.Background(), url, path, quick()) })
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for {
		first := r.Stats()
		before := first.Position.Number
		for range min(before, 1000) {
			i := rng.Uint64N(before)
			if deletedBy(i) >= before && !r.Contains(killKey(i)) {
				if err := excused(r, i, first); err != nil {
					return err
				}
			}
		}
		if end, err := os.ReadFile(filepath.Join(dir, "target")); err == nil && string(end) == r.Stats().Position.String() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s := r.Stats()
	fmt.Printf("replica at the end: %d sets, %d snapshots, %d failures\n", s.Sets, s.Snapshots, s.Failures)
	return r.Close()
}

// excused returns an error if a key was not found before its delete was applied. If its delete is in a
// set that is being applied, the next position shows this. A new snapshot may also have replaced a file
// that had only a part of a set. first is from before the lookup.
func excused(r *Replica, i uint64, first Stats) error {
	at := r.Stats().Position
	for range 60_000 {
		s := r.Stats()
		switch {
		case s.Position.Number >= deletedBy(i), s.Snapshots != first.Snapshots:
			return nil
		case s.Position != at:
			return fmt.Errorf("the key of operation %d is \"certainly not\" at %v, and operation %d deletes it; %+v; found again: %t", i, at, deletedBy(i), s, r.Contains(killKey(i)))
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("the key of operation %d is \"certainly not\" at %v, and operation %d deletes it; the position has stayed there; %v", i, at, deletedBy(i), r.Err())
}

// A killer runs a primary and a replica, and kills them.
type killer struct {
	t     *testing.T
	dir   string
	url   string // of the proxy
	proxy *proxy
	ends  chan string // what a primary says at the end
}

// A child is a child process.
type child struct {
	*exec.Cmd
	role  string
	stdin io.Closer
	ended chan struct{}
}

// start starts this program in a role. The test gets what the program prints.
func (k *killer) start(role string) *child {
	c := &child{Cmd: exec.Command(os.Args[0]), role: role, ended: make(chan struct{})}
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %q %q", roleVariable, role, k.dir, k.url))
	c.Stderr = os.Stderr
	var err error
	c.stdin, err = c.StdinPipe()
	must(k.t, err)
	out, err := c.StdoutPipe()
	must(k.t, err)
	must(k.t, c.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			switch word {
			case "at":
				k.proxy.reach(rest)
			case "end":
				k.ends <- rest
			default:
				k.t.Log(lines.Text())
			}
		}
		c.Wait()
		close(c.ended)
	}()
	return c
}

// kill kills a child, which must not have ended by itself.
func (k *killer) kill(c *child) {
	select {
	case <-c.ended:
		k.t.Fatalf("the %s ended by itself: %v", c.role, c.ProcessState)
	default:
	}
	if c.role == "primary" {
		k.proxy.reach("")
	}
	c.Process.Kill()
	<-c.ended
	c.stdin.Close()
}

// TestKill kills a primary and a replica at random moments, with a proxy between them that does what
// networks do. No key is "certainly not" before its delete is applied, neither in the replica's process
// nor in another process, and in the end both filters have the same keys.
func TestKill(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	k := &killer{t: t, dir: t.TempDir(), proxy: newProxy(seed), ends: make(chan string, 1)}
	k.proxy.set("", 30)
	k.url = serve(t, k.proxy)
	if rng.IntN(3) > 0 {
		must(t, os.WriteFile(filepath.Join(k.dir, "keep"), nil, 0o666))
	}
	p, r := k.start("primary"), k.start("replica")
	defer func() {
		for _, c := range []*child{p, r} {
			c.Process.Kill()
			<-c.ended
		}
	}()
	for range *kills {
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		k.read()
		whom := rng.IntN(5)
		if whom <= 2 {
			k.kill(r)
		}
		if whom >= 2 {
			k.kill(p)
			p = k.start("primary")
		}
		if whom <= 2 {
			r = k.start("replica")
		}
	}
	must(t, os.WriteFile(filepath.Join(k.dir, "end"), nil, 0o666))
	end, err := mmapfilter.ParsePosition(<-k.ends)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(k.dir, "target"), []byte(end.String()), 0o666))
	k.proxy.set(k.proxy.to, 0)
	<-r.ended
	if !r.ProcessState.Success() {
		t.Fatalf("the replica: %v", r.ProcessState)
	}
	k.kill(p)
	k.compare(end)
	k.proxy.mu.Lock()
	defer k.proxy.mu.Unlock()
	t.Logf("%d operations; proxy: %v; answers %v", end.Number, k.proxy.done, k.proxy.answers)
	if n := k.proxy.answers["409"]; n > 0 {
		t.Errorf("the primary said %d times that the replica has another history", n)
	}
}

// read looks keys up in the file of the replica, as another process does.
func (k *killer) read() {
	path := filepath.Join(k.dir, "replica.mmf")
	f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{NoRecover: true, ServeUnrecovered: true})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	must(k.t, err)
	defer f.Close()
	n := f.Position().Number
	for i := range n {
		if deletedBy(i) == 1<<64-1 && !f.Contains(killKey(i)) {
			k.t.Fatalf("a reader does not find the key of operation %d at operation %d: %v", i, n, f.Err())
		}
	}
}

// compare compares the files of primary and replica after the last operation.
func (k *killer) compare(end mmapfilter.Position) {
	t := k.t
	f, err := mmapfilter.Open(filepath.Join(k.dir, "primary.mmf"), nil)
	must(t, err)
	defer f.Close()
	copied := filepath.Join(k.dir, "copy.mmf")
	at, err := f.Snapshot(t.Context(), copied)
	must(t, err)
	want, err := mmapfilter.OpenReadOnly(copied, nil)
	must(t, err)
	defer want.Close()
	path := filepath.Join(k.dir, "replica.mmf")
	if _, err := mmapfilter.Verify(t.Context(), path); err != nil {
		t.Error(err)
	}
	got, err := mmapfilter.OpenReadOnly(path, nil)
	must(t, err)
	defer got.Close()
	if at != end || got.Position() != end || got.Len() != want.Len() || got.Len() != keysAt(end.Number) {
		t.Errorf("the primary is at %v and the replica at %v, not %v; they have %d and %d keys, not %d", at, got.Position(), end, want.Len(), got.Len(), keysAt(end.Number))
	}
	for i := range end.Number {
		if deletedBy(i) < end.Number {
			continue
		}
		copies := uint64(1)
		if i%15 == 0 && i+3 < end.Number || i%15 == 3 {
			copies = 2
		}
		if !got.Contains(killKey(i)) || got.Count(killKey(i)) < copies {
			t.Fatalf("the replica has the key of operation %d %d times, not %d", i, got.Count(killKey(i)), copies)
		}
	}
	if a, b := want.Stats().Plan, got.Stats().Plan; a.Lines != b.Lines || a.Quotients != b.Quotients || a.RemainderBits != b.RemainderBits {
		return // it is from before the last rebuild, and has other false positives
	}
	for i := range 100_000 {
		if absent := key(i); got.Count(absent) != want.Count(absent) {
			t.Fatalf("the replica has %q %d times, and a copy %d times", absent, got.Count(absent), want.Count(absent))
		}
	}
}
