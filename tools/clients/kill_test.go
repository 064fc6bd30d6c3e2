package clients

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	kills = flag.Int("kills", 10, "how many times TestKills kills the server")
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of TestKills")
)

// TestKills kills the server while clients write, and starts it again: three clients, or as many of them
// as are installed. Items of commands that were answered must be there, even if filters were growing.
// Clients send different items, and no client sends a command twice.
func TestKills(t *testing.T) {
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	s := serve(t, "")
	s.kill()
	s.rate = "0.00000001" // there are many items, and CF.DEL must delete none in place of another
	s.start()
	var writers []*writer
	var answers atomic.Int64 // to all writers
	var stop atomic.Bool
	for _, k := range kinds {
		if k.name == "rueidis" {
			continue
		}
		if err := lacks(k.needs); err != nil {
			t.Log("NOT TESTED: ", err)
			continue
		}
		c := k.connect(t, s, k.versions[len(k.versions)-1])
		defer c.close()
		writers = append(writers, &writer{t: t, name: k.name, c: c, answers: &answers, stop: &stop, kept: map[string][]string{}})
	}
	for range *kills {
		until := answers.Load() + random.Int64N(3000)
		var working sync.WaitGroup
		stop.Store(false)
		for _, w := range writers {
			w.fresh = map[string][]string{}
			working.Go(w.write)
		}
		for answers.Load() < until && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		s.kill()
		stop.Store(true)
		s.start() // before the writers end: node-redis keeps unsent commands for the next server
		working.Wait()
		for _, w := range writers {
			w.awake()
			w.check(w.fresh)
			for key, items := range w.fresh {
				w.kept[key] = append(w.kept[key], items...)
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, w := range writers {
		w.check(w.kept)
	}
	t.Logf("%d kills, %d answers", *kills, answers.Load())
}

// A writer writes items with a client.
type writer struct {
	t       *testing.T
	name    string
	c       client
	n       int // items so far
	answers *atomic.Int64
	stop    *atomic.Bool
	kept    map[string][]string // items that must be there, by the name of their key
	fresh   map[string][]string // the same, only since the last start of the server
}

// write writes until stop is set or the server is dead.
func (w *writer) write() {
	for alive := true; alive && !w.stop.Load(); {
		var commands [][]string
		for i := range 20 {
			commands = append(commands, w.next(i))
		}
		for i, reply := range w.c.send(commands) {
			if err, failed := reply.(error); failed {
				alive = false
				if text := err.Error(); len(text) > 3 && text[:3] == "ERR" {
					w.t.Errorf("%s: %v: %v", w.name, commands[i], err)
				}
				continue
			}
			w.answers.Add(1)
			w.answered(commands[i])
		}
	}
}

// next returns a new command. Its items are in no earlier command, except that CF.DEL deletes an earlier
// item, which need not be there from then on.
func (w *writer) next(i int) []string {
	item := func() string {
		w.n++
		return fmt.Sprintf("%s %d", w.name, w.n)
	}
	key := fmt.Sprintf("k%d", w.n/5000)
	switch i % 5 {
	case 0:
		return []string{"CF.ADD", key, item()}
	case 1:
		return []string{"CF.ADDNX", key, item()}
	case 2:
		return []string{"BF.MADD", "b" + key, item(), item()}
	case 3:
		if kept := w.fresh[key]; len(kept) > 0 {
			w.fresh[key] = kept[1:]
			return []string{"CF.DEL", key, kept[0]}
		}
	}
	return []string{"CF.INSERT", key, "ITEMS", item(), item()}
}

// answered notes the items of a command that was answered.
func (w *writer) answered(words []string) {
	key, items := words[1], words[2:]
	switch words[0] {
	case "CF.DEL":
		return
	case "CF.INSERT":
		items = items[1:]
	}
	w.fresh[key] = append(w.fresh[key], items...)
}

// awake waits until the client has found the server again.
func (w *writer) awake() {
	w.t.Helper()
	var last any
	for wait := time.Millisecond; wait < time.Minute; wait *= 2 {
		if last = w.c.send([][]string{{"PING"}})[0]; last == "PONG" {
			return
		}
		time.Sleep(wait)
	}
	w.t.Fatal(w.name, last)
}

// check checks that items are there.
func (w *writer) check(items map[string][]string) {
	w.t.Helper()
	for key, all := range items {
		for start := 0; start < len(all); start += 1000 {
			some := all[start:min(start+1000, len(all))]
			words := append([]string{"CF.MEXISTS", key}, some...)
			if key[0] == 'b' {
				words[0] = "BF.MEXISTS"
			}
			found, ok := w.c.send([][]string{words})[0].([]any)
			if !ok || len(found) != len(some) {
				w.t.Fatalf("%s: MEXISTS %s: %v", w.name, key, found)
			}
			for i, f := range found {
				if f != true && f != int64(1) {
					w.t.Errorf("%s: %q is not in %s", w.name, some[i], key)
				}
			}
		}
	}
}
