package sets

import (
	"bufio"
	"errors"
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

// What this program does instead of tests, and the set.
const roleVariable, pathVariable = "SETS_TEST_ROLE", "SETS_TEST_PATH"

func TestMain(m *testing.M) {
	switch path := os.Getenv(pathVariable); os.Getenv(roleVariable) {
	case "reader":
		os.Exit(report(readSet(path, os.Stdin, os.Stdout)))
	case "writer":
		os.Exit(report(writeSet(path, os.Stdout)))
	}
	os.Exit(m.Run())
}

func report(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// always is how many keys every set of the test has.
const always = 20_000

// readSet looks keys up that are always there, until its input ends, and says when the set is open, and
// when it has switched to another manifest.
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

// writeSet inserts keys into a set, and syncs, until it is killed.
func writeSet(path string, out io.Writer) error {
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	if err := s.OpenShards(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := s.Insert(number(1_000_000 + i%1000)); err != nil && !errors.Is(err, mmapfilter.ErrFull) {
			return err
		}
		if i < 1000 {
			continue // it has not inserted what it would delete
		}
		if _, err := s.Delete(number(1_000_000 + (i+500)%1000)); err != nil {
			return err
		}
		if i%100 == 0 { // after a thousand inserts
			if err := s.Sync(); err != nil {
				return err
			}
			fmt.Fprintln(out, i)
		}
	}
}

// process starts this program in a role.
func process(t *testing.T, role, path string) (cmd *exec.Cmd, in io.Closer, out *bufio.Scanner) {
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	w, err := cmd.StdinPipe()
	must(t, err)
	r, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, w, bufio.NewScanner(r)
}

// TestReplacedUnderReaders: eight processes look keys up, while the set is replaced as a whole, a shard
// is rebuilt or goes missing for a while, and writers are killed: no key that is always there is
// ever answered "certainly not" (S3, S4).
func TestReplacedUnderReaders(t *testing.T) {
	rng := random(t)
	dir := t.TempDir()
	p := mustPlan(t, mmapfilter.Options{Capacity: 3 * always}, 6)
	path := mustBuild(t, dir, p, numbers(0, always))
	type reader struct {
		cmd *exec.Cmd
		in  io.Closer
		out *bufio.Scanner
	}
	var readers []reader
	for range 8 {
		cmd, in, out := process(t, "reader", path)
		readers = append(readers, reader{cmd, in, out})
	}
	for _, r := range readers {
		if !r.out.Scan() { // one that opened the set later would see fewer switches
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
			cmd, _, out := process(t, "writer", path)
			for range 5 + rng.IntN(20) {
				out.Scan()
			}
			must(t, cmd.Process.Kill())
			cmd.Wait()
			s := mustOpen(t, path, nil) // recovers them
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
		if err := r.cmd.Wait(); err != nil {
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
