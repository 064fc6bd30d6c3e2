//go:build unix

package kill

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// newTestProcess makes a filter with the keys 0 to n-1, which are synced according to the page, each
// by one operation.
func newTestProcess(t *testing.T, n int) (*process, *mmapfilter.Filter, *bytes.Buffer) {
	t.Helper()
	out := new(bytes.Buffer)
	p, err := newProcess(t.TempDir(), "test", 0, 1, out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.m.Unmap() })
	p.set(wordLimit, 2000)
	f, err := mmapfilter.Create(p.path, &mmapfilter.Options{Capacity: 2000, FalsePositiveRate: 1e-8, CommitInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	for id := range n {
		p.operate(t, f, op{id: id}, true)
		p.enter(id, synced)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return p, f, out
}

// operate makes an operation of stream 0, as one that returned or is under way.
func (p *process) operate(t *testing.T, f *mmapfilter.Filter, o op, returns bool) {
	t.Helper()
	s := p.stream(0)
	s.issue(o)
	var err error
	if o.delete {
		p.enter(o.id, deleting)
		_, err = f.Delete(appendKey(nil, p.seed, o.id))
	} else {
		p.enter(o.id, inserting)
		err = f.Insert(appendKey(nil, p.seed, o.id))
	}
	if err != nil {
		t.Fatal(err)
	}
	if returns {
		s.done(1)
	}
}

// TestAsk checks how readers judge answers: a key that was synced must be found, and about one that
// is being changed they say nothing.
func TestAsk(t *testing.T) {
	for _, c := range []struct {
		state    state
		violates bool
	}{{absent, false}, {inserting, false}, {synced, true}, {deleting, false}} {
		p, f, out := newTestProcess(t, 100)
		p.set(wordLimit, 200) // of which those from 100 on are not in
		for id := 100; id < 200; id++ {
			p.enter(id, c.state)
		}
		a := p.newAsker(0, countLookups)
		for range 10 {
			if !a.ask(f, 0, false) {
				t.Error("the file counts as another one")
			}
		}
		if p.violated() != c.violates || strings.Contains(out.String(), "not found") != c.violates {
			t.Errorf("%s keys that are not in: %d violations: %.300s", c.state, p.counted(countViolations), out)
		}
		if a.ask(f, 1, false) || !a.ask(f, 1, true) {
			t.Error("another file counts as the same one, or stops a follower")
		}
	}
}

// TestResolve checks what resolve demands of a file whose writer died.
func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name     string
		do       func(t *testing.T, p *process, f *mmapfilter.Filter)
		returned uint64 // operations, afterwards
		says     string
	}{
		{"nothing", func(*testing.T, *process, *mmapfilter.Filter) {}, 100, ""},
		{"an insert under way, done", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.operate(t, f, op{id: 500}, false)
		}, 101, ""},
		{"an insert under way, not done", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.stream(0).issue(op{id: 500})
			p.enter(500, inserting)
		}, 100, ""},
		{"a delete under way, done", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.operate(t, f, op{50, true}, false)
		}, 101, ""},
		{"a delete of one of several copies under way, done", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.operate(t, f, op{1, true}, false)
		}, 101, ""},
		{"a delete issued, its word not changed", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.stream(0).issue(op{50, true})
		}, 100, ""},
		{"half a batch", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.operate(t, f, op{id: 500}, false)
			p.stream(0).issue(op{id: 501})
			p.enter(501, inserting)
		}, 101, ""},
		{"the second half of a batch", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.stream(0).issue(op{id: 501})
			p.enter(501, inserting)
			p.operate(t, f, op{id: 500}, false)
		}, 100, "one before it was not"},
		{"an operation lost", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.stream(0).issue(op{id: 500})
			p.stream(0).done(1)
			p.enter(500, inserting)
		}, 101, "have returned"},
		{"an operation done twice", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			if err := f.Insert(appendKey(nil, p.seed, 50)); err != nil {
				t.Fatal(err)
			}
		}, 100, "have returned"},
		{"another key instead", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.stream(0).issue(op{id: 500})
			p.enter(500, inserting)
			if err := f.Insert(appendKey(nil, p.seed, 501)); err != nil {
				t.Fatal(err)
			}
		}, 100, "were done"},
		{"a key gone", func(t *testing.T, p *process, f *mmapfilter.Filter) {
			p.enter(500, synced)
		}, 100, "100 keys, not 101"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, f, out := newTestProcess(t, 100)
			c.do(t, p, f)
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // it can be done again
				m, err := p.newModel(f)
				if err != nil {
					t.Fatal(err)
				}
				ok := m.resolve(f)
				if ok != (c.says == "") || !strings.Contains(out.String(), c.says) {
					t.Fatalf("%t: %s", ok, out)
				}
				if got := p.returnedOps(); got != c.returned {
					t.Errorf("%d operations have returned, not %d", got, c.returned)
				}
				if !ok {
					return
				}
				m.check(f)
				if p.violated() {
					t.Fatal(out)
				}
			}
		})
	}
}
