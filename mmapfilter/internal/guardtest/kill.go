package guardtest

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var kills = flag.Int("kills", 10, "how many programs the kill test kills")

const (
	childVar    = "GUARDTEST_CHILD" // the directory of the store, the mode and the seed of a program that will be killed
	enoughKills = 30                // with fewer kills, it may be chance that most lead to a rebuild
)

// Main runs the tests of a package. In a process that Kill has started, it writes to a store instead,
// until the process is killed.
func Main(m *testing.M, e Engine) {
	if what := strings.Split(os.Getenv(childVar), "\n"); len(what) == 3 {
		fmt.Println(e.child(what[0], what[1], what[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killed returns the options of a guard that will be killed. Its filter becomes durable often, now and
// then, or hardly ever.
func killed(deletes guard.DeleteMode, r *rand.Rand) *guard.Options {
	o := Often(deletes)
	o.CommitInterval = []time.Duration{2 * time.Millisecond, 50 * time.Millisecond, time.Hour}[r.IntN(3)]
	return o
}

// child says "opening", and "done" after each step.
func (e Engine) child(dir, mode, seed string) error {
	deletes, err := strconv.Atoi(mode)
	n, seedErr := strconv.ParseUint(seed, 10, 64)
	if err := errors.Join(err, seedErr); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(n, 0))
	fmt.Println("opening")
	d, err := e.Open(dir, killed(guard.DeleteMode(deletes), r), false)
	if err != nil {
		return err
	}
	c, err := e.newCrew(d, r)
	if err != nil {
		return err
	}
	for _, w := range c.workers {
		w.Loud = true
	}
	switch r.IntN(4) {
	case 0:
		c.again(c.rebuild)
	case 1:
		c.again(d.Guard().Work)
	}
	reading := fork(r)
	c.again(func() error { return c.read(reading) })
	return c.work(math.MaxInt)
}

// Kill covers C9 and G2. Again and again, it kills a program that writes to a store, and opens a copy
// of the store, in which no key may be hidden. The next program continues with the store as the killed
// program left it.
func Kill(t *testing.T, e Engine) {
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		r, base := random(t), t.TempDir()
		dir := filepath.Join(base, "store")
		Must(t, os.Mkdir(dir, 0o700))
		var recovered, rebuilt, replayed, keys int
		// A kill during a rebuild leads to another rebuild. By chance, the first few kills may all be
		// of this sort; then more kills are needed.
		for i := 0; i < max(1, *kills/2) || !e.Revives && rebuilt > recovered && i < enoughKills; i++ {
			runAndKill(t, dir, deletes, r)
			copied := filepath.Join(base, fmt.Sprint("copy", i))
			Must(t, CopyDir(copied, dir))
			o := killed(deletes, r)
			d := e.MustOpen(t, copied, o)
			s := d.GuardStats()
			keys += MustHideNone(t, d)
			if s.Err == "" && Serving(s) {
				recovered++
			} else {
				rebuilt++
			}
			if s.Replayed > 0 {
				replayed++
			}
			Eventually(t, d, "opened", Serving)
			MustHideNone(t, d)
			Set(t, d, 0, 100)
			if i%2 == 0 {
				Rebuild(t, d)
				MustHideNone(t, d)
			}
			Must(t, d.Close())
			Must(t, e.MustServe(t, copied, o).Close())
			Must(t, os.RemoveAll(copied))
		}
		t.Logf("%d filters served at once, %d were rebuilt, %d replayed keys from the store; %d keys", recovered, rebuilt, replayed, keys)
		if !e.Revives && rebuilt > recovered { // a kill during a step that revives keys leads to a rebuild
			t.Error("most kills led to a rebuild of the filter")
		}
	})
}

// runAndKill kills the program after a random number of steps, or while it opens the store.
func runAndKill(t *testing.T, dir string, deletes guard.DeleteMode, r *rand.Rand) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%d\n%d", childVar, dir, deletes, r.Uint64()))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	Must(t, err)
	Must(t, c.Start())
	lines := 2 + r.IntN(600)
	if r.IntN(5) == 0 {
		lines = 1
	}
	s := bufio.NewScanner(out)
	for i := 0; i < lines && s.Scan(); i++ {
		if line := s.Text(); line != "opening" && line != "done" {
			t.Errorf("the program failed: %s", line)
		}
	}
	if lines == 1 {
		time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	}
	_ = c.Process.Kill()
	_ = c.Wait() // says that it was killed
}
