//go:build unix

package mmapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

var killGrowths = flag.Uint64("growths", 20, "rebuilds that TestKillGrowth waits for")

// A growthTest is a filter that one process after another writes to and rebuilds all the time, until
// it is killed, while others read it. What they tell each other is in a file of three numbers.
type growthTest struct {
	dir   string
	board *os.File
}

// The numbers on the board.
const (
	boardSynced = iota // keys from 0 on that are synced
	boardGrowths
	boardEnd
)

func openGrowth(dir string) (*growthTest, error) {
	board, err := os.OpenFile(filepath.Join(dir, "board"), os.O_RDWR|os.O_CREATE, 0o600)
	return &growthTest{dir, board}, err
}

func (g *growthTest) get(word int64) uint64 {
	var b [8]byte
	g.board.ReadAt(b[:], 8*word) // of a new board: 0
	return binary.LittleEndian.Uint64(b[:])
}

func (g *growthTest) set(word int64, value uint64) {
	g.board.WriteAt(binary.LittleEndian.AppendUint64(nil, value), 8*word)
}

func (g *growthTest) path() string { return filepath.Join(g.dir, "filter.mmf") }

const (
	// lastKey bounds the filter, so that a writer has time for some rebuilds before it is killed.
	lastKey = 50_000
	// transientKeys come and go. They are above all others.
	transientKeys = 1 << 40
)

// write inserts the keys that follow, and tells which are synced, until it is killed. Between them
// it inserts keys that it deletes at once.
func (g *growthTest) write() error {
	f, err := Open(g.path(), &OpenOptions{RequireHashes: true})
	for errors.Is(err, ErrLocked) { // a reader recovers the file
		time.Sleep(time.Millisecond)
		f, err = Open(g.path(), &OpenOptions{RequireHashes: true})
	}
	if err != nil {
		return err
	}
	n := min(f.DurableSeq()+(f.DurableOps()+2)/3, lastKey) // each key is three operations
	done := make(chan error)
	go func() {
		for i := uint64(0); ; i++ {
			opts := &RebuildOptions{Capacity: 2*lastKey + 1000*(i%3)} // however long a rebuild takes, there is room
			if i%4 == 0 {
				opts.Layout, opts.FalsePositiveRate = Packed, 0.001
			}
			if err := f.Rebuild(context.Background(), opts); err != nil {
				done <- err
				return
			}
			g.set(boardGrowths, g.get(boardGrowths)+1)
		}
	}()
	key := make([]byte, 8)
	for turn := uint64(0); ; turn++ {
		select {
		case err := <-done:
			return err
		default:
		}
		if turn%100 == 0 {
			if err := f.SyncAt(n); err != nil {
				return err
			}
			if seq, ops := f.DurableSeq(), f.DurableOps(); seq != n || ops != 0 {
				return fmt.Errorf("sequence %d and %d operations after SyncAt(%d)", seq, ops, n)
			}
			g.set(boardSynced, max(n, g.get(boardSynced)))
			time.Sleep(time.Millisecond)
		}
		if n < lastKey {
			binary.LittleEndian.PutUint64(key, n)
			if err := f.Insert(key); err != nil {
				return err
			}
			n++
		}
		binary.LittleEndian.PutUint64(key, transientKeys+turn)
		if err := f.Insert(key); err != nil {
			return err
		}
		if there, err := f.Delete(key); err != nil || !there {
			return fmt.Errorf("delete of %x: %t, %w", key, there, err)
		}
	}
}

// read asks for keys that are synced, of a follower and of a file that it opens again only once
// another one has taken its place.
func (g *growthTest) read() error {
	follower, err := Follow(g.path(), &OpenOptions{FollowInterval: time.Millisecond})
	if err != nil {
		return err
	}
	defer follower.Close()
	f, err := OpenReadOnly(g.path(), nil)
	if err != nil {
		return err
	}
	key, rng := make([]byte, 8), rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	var keys [][]byte
	found := make([]bool, 64)
	for superseded := 0; g.get(boardEnd) == 0; {
		synced := g.get(boardSynced)
		if synced == 0 {
			continue
		}
		keys = keys[:0]
		for range found {
			binary.LittleEndian.PutUint64(key, rng.Uint64N(synced))
			keys = append(keys, bytes.Clone(key))
		}
		for name, r := range map[string]interface {
			Contains(key []byte) bool
			ContainsBatch(keys [][]byte, found []bool)
			Err() error
		}{"follower": follower, "file": f} {
			for range 4 {
				r.ContainsBatch(keys, found)
				for i, key := range keys {
					if !found[i] || !r.Contains(key) {
						return fmt.Errorf("the %s does not find %x of %d synced keys; err %v", name, key, synced, r.Err())
					}
				}
			}
		}
		switch err := f.Err(); {
		case errors.Is(err, ErrSuperseded):
			if superseded++; superseded%50 != 0 {
				continue // it goes on answering
			}
			f.Close()
			if f, err = OpenReadOnly(g.path(), nil); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	if err := f.Close(); !errors.Is(err, ErrSuperseded) {
		return err
	}
	return nil
}

// TestKillGrowthHelper runs in the child processes.
func TestKillGrowthHelper(t *testing.T) {
	dir := os.Getenv("MMAPFILTER_GROWTH_DIR")
	if dir == "" {
		t.Skip("for the processes that TestKillGrowth starts")
	}
	g, err := openGrowth(dir)
	if err == nil {
		err = map[string]func() error{"writer": g.write, "reader": g.read}[os.Getenv("MMAPFILTER_GROWTH_ROLE")]()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Getenv("MMAPFILTER_GROWTH_ROLE"), err)
		os.Exit(3)
	}
	os.Exit(0)
}

func (g *growthTest) start(role string) (*child, error) {
	return startChild("TestKillGrowthHelper", append(os.Environ(), "MMAPFILTER_GROWTH_DIR="+g.dir, "MMAPFILTER_GROWTH_ROLE="+role, "GORACE=halt_on_error=1"))
}

// TestKillGrowth covers K3 and K4 with real processes: a writer that rebuilds its filter all the
// time is killed at random, and four readers ask for all synced keys all the time.
//
//	go test ./mmapfilter -run 'TestKillGrowth$' -growths 200
func TestKillGrowth(t *testing.T) {
	want := *killGrowths
	if testing.Short() {
		want = min(want, 5)
	}
	g, err := openGrowth(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f, err := Create(g.path(), &Options{Capacity: 2 * lastKey, KeepHashes: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var readers [4]*child
	for i := range readers {
		if readers[i], err = g.start("reader"); err != nil {
			t.Fatal(err)
		}
	}
	kills := 0
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for g.get(boardGrowths) < want && !t.Failed() {
		w, err := g.start("writer")
		if err != nil {
			t.Fatal(err)
		}
		// Every other one lives until it has rebuilt the filter, however slow the machine is.
		before := g.get(boardGrowths)
		for until := time.Now().Add(time.Duration(100+rng.IntN(600)) * time.Millisecond); w.running(); {
			if time.Now().After(until) && (kills%2 == 0 || g.get(boardGrowths) > before) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		killed, err := w.kill()
		if err != nil || !killed {
			t.Errorf("the writer: %t, %v", killed, err)
		}
		kills++
		for i, r := range readers {
			if !r.running() {
				_, err := r.wait()
				t.Errorf("reader %d: %v", i, err)
			}
		}
	}
	g.set(boardEnd, 1)
	for i, r := range readers {
		if _, err := r.wait(); err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
	}
	f, err = Open(g.path(), &OpenOptions{RequireHashes: true})
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, f, 0, g.get(boardSynced))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(context.Background(), g.path())
	if err != nil || r.Hashes != r.Items {
		t.Errorf("%+v, %v", r, err)
	}
	left, _ := filepath.Glob(g.path() + ".*")
	if len(left) != 1 {
		t.Errorf("there are %v", left)
	}
	t.Log(strconv.Itoa(kills), "kills,", g.get(boardGrowths), "rebuilds,", g.get(boardSynced), "keys")
}
