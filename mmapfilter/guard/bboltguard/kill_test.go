package bboltguard

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var kills = flag.Int("kills", 10, "how often the kill test kills a program")

// childEnv has the directory of the store, in the process that is to be killed.
const childEnv = "BBOLTGUARD_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Println(child(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child writes to a store until it is killed, and a line to the standard output for each commit.
func child(dir string) error {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	fmt.Println("opening")
	o := fast()
	o.NoSync = r.IntN(2) == 0
	g := killed(filepath.Base(dir) == "exact")
	if r.IntN(2) == 0 {
		g.CommitInterval = time.Hour // leaves much in the outbox
	}
	d, err := Open(filepath.Join(dir, "db"), 0o600, o, g)
	if err != nil {
		return err
	}
	d.MaxBatchDelay = 0
	failed := make(chan error)
	for i := range 4 {
		w := &writer{db: d, r: rand.New(rand.NewPCG(r.Uint64(), 0)), name: fmt.Appendf(nil, "w%d", i), m: newModel()}
		if err := d.View(func(t *Tx) error {
			if b := t.Bucket(w.name); b != nil {
				w.m.read(b.engineBucket, b.path)
			}
			return nil
		}); err != nil {
			return err
		}
		go func() {
			for {
				if err := w.run(); err != nil {
					failed <- err
				}
				fmt.Println("committed")
			}
		}()
	}
	for _, do := range []func() error{func() error { return rebuild(d) }, d.Guard().Work} {
		if r.IntN(2) == 0 {
			continue
		}
		go func() {
			for {
				if err := do(); err != nil {
					failed <- err
				}
			}
		}()
	}
	for range 2 {
		go func() {
			for {
				if err := d.View(func(t *Tx) error { _, err := hidden(t); return err }); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func killed(exact bool) *guard.Options {
	g := &guard.Options{Capacity: 1000, Deletes: guard.Rebuild, CommitInterval: 2 * time.Millisecond}
	if exact {
		g.Deletes = guard.Exact
	}
	return g
}

// TestKill kills a program that writes to a store, again and again. Each time the store is opened here
// (a copy of it, so that the program itself comes upon what it left) and has all its keys.
func TestKill(t *testing.T) {
	r := random(t)
	base := t.TempDir()
	var atOnce, replayed, rebuilt, keys int
	for i := range *kills {
		exact := i%2 == 0
		dir := filepath.Join(base, map[bool]string{true: "exact", false: "rebuild"}[exact])
		must(t, os.MkdirAll(dir, 0o700))
		runAndKill(t, dir, 1+r.IntN(120))
		copied := filepath.Join(copyDir(t, dir), "db")

		d := mustOpen(t, copied, nil, killed(exact))
		s := d.GuardStats()
		keys += mustHaveAll(t, d)
		if s.Err != "" {
			rebuilt++
		} else if s.State == "serving" {
			atOnce++
		}
		if s.Replayed > 0 {
			replayed++
		}
		eventually(t, d, "opened", serving)
		mustHaveAll(t, d)
		update(t, d, put("a"))
		must(t, d.Guard().Rebuild(context.Background()))
		mustHaveAll(t, d)
		must(t, d.Close())
		d = mustOpen(t, copied, nil, killed(exact))
		if s := d.GuardStats(); s.State != "serving" {
			t.Errorf("closed and opened: %+v", s)
		}
		mustHaveAll(t, d)
		must(t, d.Close())
		if t.Failed() {
			return
		}
	}
	t.Logf("%d kills: %d filters served at once, %d were given keys from the outbox, %d were rebuilt; %d keys", *kills, atOnce, replayed, rebuilt, keys)
}

// runAndKill kills the program once it has written so many lines.
func runAndKill(t *testing.T, dir string, lines int) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+dir)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	s := bufio.NewScanner(out)
	for i := 0; i < lines && s.Scan(); i++ {
		if line := s.Text(); line != "opening" && line != "committed" {
			t.Errorf("the program failed: %s", line)
		}
	}
	_ = c.Process.Kill()
	_ = c.Wait() // says that it was killed
}
