//go:build faults && unix

package kill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

func init() { roles["part"] = (*process).runPart }

// callVariable tells a child process its part, its call and its delay.
const callVariable = "MMAPFILTER_TEST_KILL_AT"

// A part is a part of a file's life. The process that plays it is killed meanwhile.
type part struct {
	begins string // a template, or "" for no file
	calls  int    // about how many writing calls it makes, if these are too many to try each; otherwise 0
	do     func(p *process) error
	after  func(p *process) error // checks what is left; nil stands for (*process).recovered
}

const hashKeys, builtKeys = 100, 45_000

var parts = map[string]part{
	"create": {do: func(p *process) error { return closed(p.create()) }, after: func(p *process) error {
		f, err := mmapfilter.Open(p.path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = p.create()
		}
		if err != nil {
			return err
		}
		if n := f.Len(); n != 0 {
			return fmt.Errorf("%d items in a new filter", n)
		}
		_, err = mmapfilter.Verify(context.Background(), p.path)
		return errors.Join(err, f.Insert([]byte("key")), f.Close())
	}},
	"files with hashes": {do: (*process).replaceHashes, after: func(p *process) error {
		// The same calls must succeed after the kill, and no other files may be left.
		err := errors.Join(p.replaceHashes(), closed(p.buildNumbers(p.path, &mmapfilter.Options{KeepHashes: true}, hashKeys)))
		left, _ := filepath.Glob(p.path + "[.]*")
		if want := []string{p.path + ".hashes", p.path + ".other", p.path + ".other.hashes"}; err == nil && !slices.Equal(left, want) {
			return fmt.Errorf("the files are %v", left)
		}
		return err
	}},
	"first operation": {begins: "clean", do: func(p *process) error { return p.passLife(1, syncs) }},
	"recovery":        {begins: "dead", do: func(p *process) error { return p.passLife(0) }},
	"checkpoint":      {begins: "clean", do: func(p *process) error { return p.passLife(40, checkpoints, syncs, checkpoints) }},
	"checkpoint with a larger log": {begins: "clean", calls: 1150, do: func(p *process) error {
		p.set(wordLogBytes, 0)
		return p.passLife(6000, func(w *writer) error {
			info, err := os.Stat(p.path + ".stash")
			if err == nil && info.Size() < 1<<20 {
				err = fmt.Errorf("the log has not grown: %d bytes", info.Size())
			}
			return err
		})
	}},
	"rebuild": {begins: "clean", do: func(p *process) error {
		return p.passLife(20, func(w *writer) error { return w.rebuild(context.Background()) }, syncs)
	}},
	"close": {begins: "clean", do: func(p *process) error { return p.passLife(20, (*writer).close) }},
	"seal": {begins: "clean", do: func(p *process) error {
		seal := func(w *writer) error { return w.f.Seal(context.Background()) }
		return p.passLife(20, seal, seal, (*writer).close)
	}},
	"snapshot from hashes": {begins: "clean", after: (*process).copied, do: func(p *process) error { return p.passLife(20, snapshots, snapshots) }},
	"snapshot of lines":    {begins: "plain", after: (*process).copied, do: func(p *process) error { return p.passLife(20, snapshots, snapshots) }},
	"snapshot with hashes": {begins: "clean", after: (*process).copied, do: func(p *process) error {
		return p.passLife(20, snapshotsWithHashes, snapshotsWithHashes)
	}},
	"expire": {begins: "old", after: (*process).expired, do: func(p *process) error { return closed(p.expire()) }},
	"build": {begins: "clean", after: (*process).built, do: func(p *process) error {
		return closed(p.buildNumbers(p.path, spilling, builtKeys))
	}},
}

// spilling are options with which Build writes spool files.
var spilling = &mmapfilter.Options{Workers: 1, MemoryBudget: 1 << 20}

func syncs(w *writer) error       { return w.f.Sync() }
func checkpoints(w *writer) error { return w.f.Checkpoint(context.Background()) }

func snapshots(w *writer) error {
	_, err := w.f.Snapshot(context.Background(), w.path+".copy")
	return err
}

func snapshotsWithHashes(w *writer) error {
	_, err := w.f.SnapshotWithHashes(context.Background(), w.path+".copy")
	return err
}

// copied checks the file, and its snapshot if there is one; then it makes another snapshot.
func (p *process) copied() error {
	if err := p.recovered(); err != nil {
		return err
	}
	path := p.path + ".copy"
	if _, err := mmapfilter.Verify(context.Background(), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := mmapfilter.OpenReadOnly(p.path, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Snapshot(context.Background(), path); err != nil {
		return err
	}
	r, err := mmapfilter.Verify(context.Background(), path)
	if left, _ := filepath.Glob(path + "?*"); err == nil && (len(left) > 0 || r.Items == 0) {
		return fmt.Errorf("%d keys in the copy, and beside the copy the files %q", r.Items, left)
	}
	return err
}

func closed(f *mmapfilter.Filter, err error) error {
	if err != nil {
		return err
	}
	return f.Close()
}

func (p *process) create() (*mmapfilter.Filter, error) {
	return mmapfilter.Create(p.path, p.fileOptions())
}

// buildNumbers builds a filter of the keys 0 to n-1.
func (p *process) buildNumbers(path string, opts *mmapfilter.Options, n int) (*mmapfilter.Filter, error) {
	return mmapfilter.Build(context.Background(), path, opts, p.numbers(n))
}

func (p *process) numbers(n int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for id := range n {
			if !yield(fmt.Append(nil, id), nil) {
				return
			}
		}
	}
}

// replaceHashes builds a filter that keeps its hashes, replaces it by another one, and replaces that by
// a filter that does not keep hashes.
func (p *process) replaceHashes() error {
	other := p.path + ".other"
	for _, path := range []string{p.path, p.path, other} {
		if err := closed(p.buildNumbers(path, &mmapfilter.Options{KeepHashes: true}, hashKeys)); err != nil {
			return err
		}
	}
	return mmapfilter.Merge(context.Background(), p.path, nil, other)
}

// passLife opens the file, which checks it. Before each of the calls, it makes n operations or more.
func (p *process) passLife(n int, calls ...func(w *writer) error) error {
	w, err := p.openWriter()
	if err != nil {
		return err
	}
	for _, call := range calls {
		for i := range n {
			if _, err := w.workers[i%streams].some(); err != nil {
				return err
			}
		}
		if err := call(w); err != nil {
			return err
		}
	}
	return nil
}

// runPart runs in the process that is killed. The kill comes just before a writing call or, with a
// delay, some microseconds after it began.
func (p *process) runPart() error {
	var name string
	var call, delay int64
	if _, err := fmt.Sscanf(os.Getenv(callVariable), "%d %d %q", &call, &delay, &name); err != nil {
		return err
	}
	var calls atomic.Int64
	fault.Hook = func(string) error {
		switch {
		case calls.Add(1) != call:
		case delay == 0:
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		default:
			go func() {
				for begun := time.Now(); time.Since(begun) < time.Duration(delay)*time.Microsecond; {
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
		}
		return nil
	}
	return parts[name].do(p)
}

// killPart starts a process that runs a part and is killed in it.
func (p *parent) killPart(name string, number, call, delay int) (killed bool) {
	p.t.Setenv(callVariable, fmt.Sprintf("%d %d %q", call, delay, name))
	c := p.start("part", number)
	c.killed = true // the process kills itself
	return p.wait(c)
}

// recovered recovers the file in one of three ways, and compares it with the model.
func (p *process) recovered() error {
	switch p.rng.IntN(3) {
	case 0:
		if err := p.recoverFile(); err != nil {
			return err
		}
	case 1:
		if err := closed(mmapfilter.OpenReadOnly(p.path, nil)); err != nil {
			return err
		}
	}
	w, err := p.openWriter()
	if err != nil {
		return err
	}
	w.check(w.f)
	if err := w.close(); err != nil {
		return err
	}
	_, err = mmapfilter.Verify(context.Background(), p.path)
	return err
}

// built checks that the file is the old one or the new one, and whole.
func (p *process) built() error {
	f, err := mmapfilter.OpenReadOnly(p.path, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Len() != builtKeys {
		return p.recovered()
	}
	for key := range p.numbers(builtKeys) {
		if !f.Contains(key) {
			return fmt.Errorf("key %s of the new file is not found", key)
		}
	}
	_, err = mmapfilter.Verify(context.Background(), p.path)
	return err
}

const (
	oldKeys, newKeys = 300, 100
	expireAfter      = 10 * time.Second // the shortest time that is allowed
)

// beOld creates a filter of keys that will expire, and notes when it did.
func (p *process) beOld() error {
	f, err := mmapfilter.Create(p.path, &mmapfilter.Options{Capacity: 1000, ExpireAfter: time.Hour})
	if err != nil {
		return err
	}
	if err = insertNumbers(f, 0, oldKeys); err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	made, _ := time.Now().MarshalText()
	return errors.Join(err, os.WriteFile(p.path+".made", made, 0o600))
}

// expire waits until the keys of beOld are old, opens the filter with ExpireAfter, inserts new keys, and
// lets the old keys expire.
func (p *process) expire() (f *mmapfilter.Filter, err error) {
	text, err := os.ReadFile(p.path + ".made")
	var made time.Time
	if err == nil {
		err = made.UnmarshalText(text)
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Until(made.Add(expireAfter + 2*time.Second))) // times are exact to a second
	f, err = mmapfilter.Open(p.path, &mmapfilter.OpenOptions{ExpireAfter: expireAfter})
	if err != nil {
		return nil, err
	}
	if err = insertNumbers(f, oldKeys, oldKeys+newKeys); err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Expire(context.Background())
	}
	return f, err
}

// expired checks that each old key is removed once, and no new key is.
func (p *process) expired() error {
	reset, err := os.Stat(p.path + ".made")
	if err != nil {
		return err
	}
	f, err := p.expire()
	if err != nil {
		return err
	}
	defer f.Close()
	if time.Since(reset.ModTime()) > expireAfter/2 {
		return nil // expire has waited long, or the machine is busy, so new keys may have expired, too
	}
	if f.Len() != f.DurableOps()-oldKeys {
		return fmt.Errorf("%d keys, after %d inserts of which %d have expired", f.Len(), f.DurableOps(), oldKeys)
	}
	for i := oldKeys; i < oldKeys+newKeys; i++ {
		if !f.Contains(fmt.Append(nil, i)) {
			return fmt.Errorf("key %d has expired early", i)
		}
	}
	return nil
}

func insertNumbers(f *mmapfilter.Filter, from, to int) error {
	for i := from; i < to; i++ {
		if err := f.Insert(fmt.Append(nil, i)); err != nil {
			return err
		}
	}
	return nil
}

// A template holds files and a page. Each process that plays a part starts from one.
type template struct {
	files map[string][]byte
	page  []uint64
}

func (p *parent) template() template {
	m := template{map[string][]byte{}, slices.Clone(p.words)}
	list, err := filepath.Glob(p.path + "*")
	p.must(err)
	for _, name := range list {
		m.files[name], err = os.ReadFile(name)
		p.must(err)
	}
	return m
}

// reset replaces all files, and the page, by those of a template.
func (p *parent) reset(m template) {
	list, err := filepath.Glob(p.path + "*")
	p.must(err)
	for _, name := range list {
		p.must(os.Remove(name))
	}
	for name, data := range m.files {
		p.must(os.WriteFile(name, data, 0o600))
	}
	copy(p.words, m.page)
}

// TestKillAtCalls kills a process just before every writing call of each part, and then at random times
// after such calls. It also kills recoveries. Tests of package mmapfilter do this for Apply, Install and
// the changes beside a rebuild.
func TestKillAtCalls(t *testing.T) {
	cycles := 100 // or more, if a part has more calls
	if testing.Short() {
		cycles = 10
	}
	p := newParent(t)
	// The file is nearly full, so that items move. It has few keys, so that checking all is quick.
	for word, value := range map[int]uint64{wordCapacity: 1200, wordLimit: 1600, wordTarget: 1180, wordLogBytes: wal.MinBytes, wordRate: math.Float64bits(1e-6), wordKeep: 1} {
		p.set(word, value)
	}
	must := func(err error) {
		t.Helper()
		p.must(err)
	}
	templates := map[string]template{"": {page: slices.Clone(p.words)}}
	p.reset(templates[""])
	must(closed(p.create()))
	must(p.passLife(1300, (*writer).close))
	templates["clean"] = p.template()
	must(p.passLife(150, syncs, func(w *writer) error {
		templates["dead"] = p.template()
		return w.close()
	}))
	p.reset(template{page: slices.Clone(templates[""].page)})
	p.set(wordKeep, 0)
	must(closed(p.create()))
	must(p.passLife(1300, (*writer).close))
	templates["plain"] = p.template()
	p.reset(templates[""])
	must(p.beOld())
	templates["old"] = p.template()
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			calls, kills, nested := part.calls, 0, 0
			for cycle := 0; (cycle < cycles || calls == 0 && !testing.Short()) && !p.violated(); cycle++ {
				p.reset(templates[part.begins])
				call, delay := cycle+1, 0
				if calls > 0 {
					call, delay = 1+p.rng.IntN(calls), p.rng.IntN(400)
				}
				killed := p.killPart(name, min(calls, 1)*cycle, call, delay)
				if !killed && delay == 0 && calls == 0 {
					calls = cycle
				}
				for killed && part.after == nil && p.rng.IntN(2) == 0 && nested < 3*cycle && !p.violated() {
					if p.killPart("recovery", cycle, 1+p.rng.IntN(12), p.rng.IntN(2)*p.rng.IntN(200)) {
						nested++
					}
				}
				if killed {
					kills++
				}
				after := part.after
				if after == nil {
					after = (*process).recovered
				}
				if err := after(p.process); err != nil || p.violated() {
					p.violation("%s, call %d, %d µs, killed: %t: %v", name, call, delay, killed, err)
				}
			}
			t.Logf("%d calls; the part was killed %d times, and recoveries after it %d times", calls, kills, nested)
		})
	}
}
