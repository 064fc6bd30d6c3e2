package sets

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var rounds = flag.Int("rounds", 12, "replacements in TestReplacedUnderReaders")

// Environment variables: what this program does instead of tests, and the path of the set.
const roleVariable, pathVariable = "SETS_TEST_ROLE", "SETS_TEST_PATH"

func TestMain(m *testing.M) {
	var err error
	switch path := os.Getenv(pathVariable); os.Getenv(roleVariable) {
	case "reader":
		err = readSet(path, os.Stdin, os.Stdout)
	case "writer":
		err = writeSet(path, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// always is how many keys every set of the test has.
const always = 20_000

// readSet looks up keys that the set always has, until its input ends. It says when the set is open,
// and when it has switched to another manifest.
func readSet(path string, in io.Reader, out io.Writer) error {
	s, err := Follow(path, &mmapfilter.OpenOptions{FollowInterval: time.Millisecond})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Fprintln(out, "0 0")
	var ended atomic.Bool
	go func() {
		io.Copy(io.Discard, in)
		ended.Store(true)
	}()
	keys := make([][]byte, 200)
	found := make([]bool, len(keys))
	swaps := uint64(0)
	for asked := 0; ; asked += len(keys) {
		for i := range keys {
			keys[i] = number(rand.IntN(always))
		}
		s.ContainsBatch(keys, found)
		for i, k := range keys {
			if !found[i] || !s.Contains(k) {
				return fmt.Errorf("%s is missing, in a batch: %t; %v", k, !found[i], s.Err())
			}
		}
		if n := s.Stats().Swaps; n != swaps || ended.Load() {
			fmt.Fprintf(out, "%d %d\n", n, asked)
			swaps = n
		}
		if ended.Load() {
			return nil
		}
	}
}

// writeSet inserts keys into a set, deletes most of them again, and syncs, until it is killed.
func writeSet(path string, out io.Writer) error {
	s, err := Open(path, nil)
	if err == nil {
		err = s.OpenShards()
	}
	for i := 0; err == nil; i++ {
		if err = s.Insert(number(1_000_000 + i)); err == nil && i >= 500 {
			_, err = s.Delete(number(1_000_000 + i - 500))
		}
		if err == nil && i >= 1000 && i%100 == 0 {
			err = s.Sync()
			fmt.Fprintln(out, i)
		}
	}
	return err
}

// A process is this program in a role.
type process struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func start(t *testing.T, role, path string) process {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	w, err := cmd.StdinPipe()
	must(t, err)
	r, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return process{cmd, w, bufio.NewScanner(r)}
}

// TestReplacedUnderReaders covers S3 and S4: eight processes look keys up while the set is replaced as
// a whole, a shard is rebuilt or goes missing for a while, and writers are killed. No key that the set
// always has is ever answered "certainly not".
func TestReplacedUnderReaders(t *testing.T) {
	rng := random(t)
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{Capacity: 3 * always}, 6)
	path := mustBuild(t, dir, p, numbers(0, always))
	var readers []process
	for range 8 {
		readers = append(readers, start(t, "reader", path))
	}
	for _, r := range readers {
		if !r.out.Scan() { // wait, since a reader that opens the set later would see fewer switches
			t.Fatal("a reader does not open the set")
		}
	}
	swaps := 0
	for round := range *rounds {
		file := shards(t, path)[rng.IntN(6)]
		switch round % 4 {
		case 0: // the whole set
			mustBuild(t, dir, p, numbers(0, always+1+round))
			swaps++
			for _, r := range readers {
				for n := -1; n < swaps && r.out.Scan(); {
					fmt.Sscan(r.out.Text(), &n)
				}
			}
			left, err := Superseded(dir)
			must(t, err)
			for _, name := range left {
				must(t, os.Remove(name))
			}
			t.Logf("round %d: %d superseded files removed", round, len(left))
		case 1: // a writer of all shards, killed
			w := start(t, "writer", path)
			for range 5 + rng.IntN(20) {
				w.out.Scan()
			}
			must(t, w.Process.Kill())
			w.Wait()
			s := mustOpen(t, path, nil) // recovers the shards
			must(t, s.OpenAll())
			must(t, s.Close())
		case 2: // a shard is rebuilt
			f, err := mmapfilter.Open(file, nil)
			must(t, err)
			must(t, f.Rebuild(background, &mmapfilter.RebuildOptions{Capacity: uint64(10_000 + rng.IntN(10_000)), Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, always), nil }}))
			must(t, f.Close())
		case 3: // a shard goes missing, and comes back as a copy
			must(t, os.Rename(file, file+".away"))
			copyFile(t, file+".away", file+".back")
			must(t, os.Rename(file+".back", file))
			must(t, os.Remove(file+".away"))
		}
	}
	for _, r := range readers {
		r.in.Close()
		last := ""
		for r.out.Scan() {
			last = r.out.Text()
		}
		if err := r.Wait(); err != nil {
			t.Errorf("a reader: %v", err)
		}
		n, asked := 0, 0
		if fmt.Sscan(last, &n, &asked); n != swaps || asked == 0 {
			t.Errorf("a reader followed %d of %d manifests, and asked for %d keys", n, swaps, asked)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp-*")); len(left) > 0 {
		t.Errorf("left behind: %s", strings.Join(left, " "))
	}
}
