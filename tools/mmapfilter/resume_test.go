package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

// createHere creates an empty filter f.mmf in the working directory. Its fingerprints are long
// enough to distinguish all keys of a test.
func createHere(t *testing.T, capacity string) {
	t.Helper()
	must(t, "", "create", "-n", capacity, "-p", "1e-8", "--seed", "1", "f.mmf")
}

// A killPoint is what a run leaves behind if it is killed at some instant.
type killPoint struct {
	file, log []byte
	dealt     int // records of the input processed
	changing  int // of these, up to the last that changed the filter
	marked    int // of these, counted by a marker
	begun     bool
	ended     bool // the run has ended successfully
}

// A tracedRun is a run that is copied whenever its files change.
type tracedRun struct {
	*mmapfilter.Filter
	t      *testing.T
	points []killPoint
	now    killPoint
}

// prepare prepares a run on f.mmf, with the lines of the input.
func prepare(t *testing.T, kind runKind, input []string, flags ...string) *mutation {
	t.Helper()
	cmd := &cobra.Command{Use: kind.command()}
	cmd.SetIn(strings.NewReader(lines(input)))
	cmd.SetErr(io.Discard)
	f := new(mutationFlags)
	f.addTo(cmd.Flags())
	noError(t, cmd.ParseFlags(flags))
	m, err := newMutation(cmd, f, kind, []string{"f.mmf"})
	noError(t, err)
	return m
}

// trace runs a command on f.mmf, with the lines of the input, and returns all its kill points:
// before its first change, after each record and after each marker. It commits, as the timer
// would, after every other record and after a refused one.
func trace(t *testing.T, kind runKind, input []string, flags ...string) ([]killPoint, error) {
	t.Helper()
	m := prepare(t, kind, input, flags...)
	r := &tracedRun{Filter: m.filter, t: t}
	m.to = r
	r.point()
	err := m.run(context.Background())
	r.point()
	if errors.Is(err, errNo) { // some keys were not there
		err = nil
	}
	return r.points, err
}

func (r *tracedRun) InsertBatch(keys [][]byte) (n int, err error) {
	return r.each(keys, func(i int) error { return r.Filter.Insert(keys[i]) })
}

func (r *tracedRun) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	return r.each(keys, func(i int) (err error) {
		added[i], err = r.Filter.InsertUnique(keys[i])
		return err
	})
}

func (r *tracedRun) each(keys [][]byte, do func(i int) error) (n int, err error) {
	for i := range keys {
		before := r.Len()
		err := do(i)
		if r.done(before, err); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

func (r *tracedRun) Delete(key []byte) (deleted bool, err error) {
	before := r.Len()
	deleted, err = r.Filter.Delete(key)
	r.done(before, err)
	return deleted, err
}

// done notes that a record has been dealt with, or refused.
func (r *tracedRun) done(before uint64, err error) {
	if err == nil {
		if r.now.dealt++; r.Len() != before {
			r.now.changing = r.now.dealt
		}
		r.point()
	}
	if err != nil || r.now.dealt%2 == 0 {
		if err := r.Sync(); err != nil {
			r.t.Fatal(err)
		}
		r.point()
	}
}

func (r *tracedRun) SyncAt(seq uint64) error {
	err := r.Filter.SyncAt(seq)
	last, ok := decodeMarker(seq)
	if !ok {
		r.t.Errorf("the sequence %#x is no marker", seq)
	}
	r.now.begun, r.now.ended, r.now.marked = true, last.ended, int(last.records)
	r.now.dealt = r.now.marked // includes records of the run that this one resumes
	r.point()
	return err
}

func (r *tracedRun) point() {
	r.t.Helper()
	p := r.now
	var err error
	if p.file, err = os.ReadFile("f.mmf"); err == nil {
		p.log, err = os.ReadFile("f.mmf.stash")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	r.points = append(r.points, p)
}

// restore sets f.mmf to what was left at a kill point.
func (p *killPoint) restore(t *testing.T) {
	t.Helper()
	os.Remove("f.mmf")
	os.Remove("f.mmf.stash")
	err := os.WriteFile("f.mmf", p.file, 0o666)
	if err == nil && p.log != nil {
		err = os.WriteFile("f.mmf.stash", p.log, 0o666)
	}
	noError(t, err)
}

func lines(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return strings.Join(keys, "\n") + "\n"
}

// contents maps each key to its number of copies in a filter.
type contents map[string]uint64

// with returns what a run with these keys makes of c.
func (c contents) with(kind runKind, keys []string) contents {
	c = maps.Clone(c)
	for _, key := range keys {
		switch {
		case kind == delRun && c[key] > 0:
			c[key]--
		case kind == addRun, kind == addUniqueRun && c[key] == 0:
			c[key]++
		}
	}
	maps.DeleteFunc(c, func(_ string, n uint64) bool { return n == 0 })
	return c
}

// contentsHere returns the contents of f.mmf, for known keys.
func contentsHere(t *testing.T, known []string) contents {
	t.Helper()
	filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
	noError(t, err)
	defer filter.Close()
	c := contents{}
	total := uint64(0)
	for _, key := range known {
		if _, ok := c[key]; ok {
			continue
		}
		if n := filter.Count([]byte(key)); n > 0 {
			c[key] = n
			total += n
		}
	}
	if total != filter.Len() {
		t.Fatalf("%d keys, of which %d are known", filter.Len(), total)
	}
	return c
}

// resumeInputs returns the inputs with which a run is resumed. Each differs from the original
// from record other on. If other is -1 it does not differ, but may be longer. In a shorter
// input, other is the first missing record.
func resumeInputs(input []string) []resumeInput {
	n := len(input)
	replaced := func(i int) []string {
		other := slices.Clone(input)
		other[i] = "replaced"
		return other
	}
	swapped := slices.Clone(input)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	return []resumeInput{
		{"same", input, -1},
		{"grown", append(slices.Clone(input), "new 1", "new 2", "new 1"), -1},
		{"cut to nothing", nil, 0},
		{"cut by one", input[:n-1], n - 1},
		{"first replaced", replaced(0), 0},
		{"second replaced", replaced(1), 1},
		{"middle replaced", replaced(n / 2), n / 2},
		{"last replaced", replaced(n - 1), n - 1},
		{"two swapped", swapped, 1},
		{"others", []string{"other 1", "other 2", "other 1"}, 0},
		{"one before", append([]string{"new 1"}, input...), 0},
	}
}

type resumeInput struct {
	name    string
	records []string
	other   int
}

// resume resumes a run of f.mmf with records, and returns what is in the filter then, by known keys.
func resume(t *testing.T, kind runKind, records, known []string) (exit int, stderr string, got contents) {
	t.Helper()
	args := append(strings.Fields(kind.String()), "--resume", "f.mmf")
	exit, _, stderr = runHere(strings.NewReader(lines(records)), args...)
	return exit, stderr, contentsHere(t, slices.Concat(records, known))
}

// TestResumeAtEveryPoint kills a run at every instant, and resumes it with inputs that may
// replace the original. With the same input, even a longer one, the result is as if there had
// been no kill. With another input, resuming is an error and changes nothing; but if the run had
// ended, an input with another first record is processed as a whole.
func TestResumeAtEveryPoint(t *testing.T) {
	base := []string{"base 1", "base 2", "apple", "apple", "cherry", "fig"}
	input := []string{"pear", "apple", "", "cherry", "pear", "base 2", "lime"}
	for _, c := range []struct {
		kind   runKind
		before []string // added, so that every record of a del exists
	}{
		{addRun, nil}, {addUniqueRun, nil}, {delRun, input}, {delRun, input[:3]}, // of which some are certainly absent
	} {
		t.Run(fmt.Sprint(c.kind, len(c.before)), func(t *testing.T) {
			t.Chdir(t.TempDir())
			createHere(t, "1k")
			there := slices.Concat(base, c.before)
			begin := contents{}.with(addRun, there)
			must(t, lines(there), "add", "f.mmf")
			points, err := trace(t, c.kind, input, "--sync-every", "3", "--log-bytes", "128KiB")
			if err != nil || len(points) < 2*len(input) || !points[len(points)-1].ended {
				t.Fatalf("%d points, %v", len(points), err)
			}
			for i, p := range points {
				if !p.begun { // the filter has only the marker of the previous run
					continue
				}
				state := begin.with(c.kind, input[:p.dealt])
				for j, in := range resumeInputs(input) {
					if testing.Short() && (i+j)%3 > 0 {
						continue
					}
					p.restore(t)
					exit, stderr, got := resume(t, c.kind, in.records, slices.Concat(base, input))
					what := fmt.Sprintf("point %d, %d dealt with, %d marked, ended %v, input %s: exit %d, %s", i, p.dealt, p.marked, p.ended, in.name, exit, stderr)
					want, refused := state, false
					switch held := max(p.marked, p.changing); {
					case in.other < 0 || in.other >= p.dealt, in.other >= held && exit != exitError:
						// The last records, if they changed nothing, may not have been counted.
						want = begin.with(c.kind, in.records)
					case p.ended && in.other == 0 && len(in.records) > 0:
						want = state.with(c.kind, in.records)
					case c.kind == delRun && in.other >= max(p.marked, 1) && len(in.records) >= held:
						continue // del notices only another first record
					case in.name == "two swapped" && p.marked < 3 && p.dealt > 2:
						want = begin.with(c.kind, in.records) // both are in the filter
					default:
						refused = true
					}
					if refused != (exit == exitError) || refused && !strings.Contains(stderr, "omit --resume") {
						t.Error(what)
					}
					if !maps.Equal(got, want) {
						t.Errorf("%s\nholds %v\nwant  %v", what, got, want)
					}
				}
			}
		})
	}
}

// TestResumeWithSameCheck tests a first record with the same check as another. If it is
// certainly not in the filter, the input is still recognised as another one.
func TestResumeWithSameCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	first := func(key string) uint8 {
		var c recordCheck
		c.add([]byte(key))
		return c.marker(addRun, true, 0).first
	}
	other := ""
	for i := 0; other == "" || first(other) != first("pear"); i++ {
		other = fmt.Sprint("other ", i)
	}
	for _, c := range []struct{ keys, want string }{
		{"pear\nplum\n", "2 keys added"},
		{other + "\nplum\nfig\n", "3 keys added (1 of them may have been there)"},
		{other + "\nplum\nfig\nlime\n", "1 key added"},
	} {
		if exit, _, stderr := runHere(strings.NewReader(c.keys), "add", "-v", "--resume", "f.mmf"); exit != 0 || stderr != "mmapfilter: f.mmf: "+c.want+"\n" {
			t.Errorf("exit %d, %swant %s", exit, stderr, c.want)
		}
	}
}

// TestResumeTheResumed kills a resumed run at every instant too, and resumes it.
func TestResumeTheResumed(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	input := []string{"apple", "pear", "apple", "plum", "fig"}
	flags := []string{"--sync-every", "2", "--log-bytes", "128KiB"}
	points, err := trace(t, addRun, input, flags...)
	noError(t, err)
	want := contents{}.with(addRun, input)
	for i, p := range points {
		p.restore(t)
		again, err := trace(t, addRun, input, append(flags, "--resume")...)
		if err != nil {
			t.Fatal(i, err)
		}
		for j, q := range again {
			q.restore(t)
			if exit, stderr, got := resume(t, addRun, input, nil); exit != 0 || !maps.Equal(got, want) {
				t.Fatalf("killed at %d and %d: exit %d, %s, holds %v, want %v", i, j, exit, stderr, got, want)
			}
		}
	}
}

// TestResumeAfterOthers checks that changes by others after a run was killed or ended are
// noticed, and that operations without an effect do not matter.
func TestResumeAfterOthers(t *testing.T) {
	input := []string{"pear", "plum", "lime", "fig", "quince"}
	for _, c := range []struct {
		change  string
		noticed bool
	}{
		{"insert-batch", true}, {"delete", true}, {"number", true}, {"mmapfilter del f.mmf", true}, {"mmapfilter uniq --filter f.mmf", true},
		{"mmapfilter add f.mmf others", true}, {"mmapfilter recover f.mmf", false}, {"mmapfilter check --recover f.mmf", false},
		{"mmapfilter checkpoint --seal f.mmf", false}, {"sync", false}, {"mmapfilter add --resume f.mmf others", false},
	} {
		for _, kind := range []runKind{addRun, addUniqueRun} {
			t.Chdir(t.TempDir())
			createHere(t, "1k")
			noError(t, os.WriteFile("others", []byte("pear\nother\n"), 0o666))
			there := []string{"base"}
			if kind == addRun && c.change == "delete" {
				there = append(there, input...) // so that no record reveals the delete
			}
			must(t, lines(there), "add", "f.mmf")
			points, err := trace(t, kind, input, "--sync-every", "2")
			noError(t, err)
			for i, p := range points {
				if !p.begun || p.dealt == 0 && c.noticed || p.dealt < 2 && strings.HasSuffix(c.change, "--resume f.mmf others") || testing.Short() && i%3 > 0 {
					continue
				}
				p.restore(t)
				doOne(t, c.change)
				known := append([]string{"base", "other"}, input...)
				want := contents{}.with(addRun, there).with(kind, input)
				if c.noticed {
					want = contentsHere(t, known)
				}
				exit, stderr, got := resume(t, kind, input, known)
				if c.noticed != (exit == exitError) || c.noticed && !strings.Contains(stderr, "omit --resume") || !maps.Equal(got, want) {
					t.Errorf("%v, %s at point %d, %d dealt with: exit %d, %s: holds %v, want %v", kind, c.change, i, p.dealt, exit, stderr, got, want)
				}
			}
		}
	}
}

// TestResumeOneThatOnlyBegan checks that a run does not take over the marker of the previous
// run, even if it ends before its first record.
func TestResumeOneThatOnlyBegan(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	input := []string{"pear", "plum"}
	must(t, lines(input), "add", "f.mmf")
	m := prepare(t, addRun, input)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.run(ctx); !errors.Is(err, context.Canceled) || m.done > 0 {
		t.Fatal(err, m.done)
	}
	if exit, stderr, got := resume(t, addRun, input, nil); exit != 0 || !maps.Equal(got, contents{"pear": 2, "plum": 2}) {
		t.Errorf("exit %d, %s, holds %v", exit, stderr, got)
	}
}

// TestResumeAtFullFilter checks that a record that finds the filter full counts as an operation,
// and is the first to be tried again wherever the run is killed, even if the filter already says
// "maybe" for it.
func TestResumeAtFullFilter(t *testing.T) {
	for _, kind := range []runKind{addRun, addUniqueRun} {
		t.Chdir(t.TempDir())
		createHere(t, "10")
		filter, err := mmapfilter.Open("f.mmf", nil)
		var there []string
		for err == nil {
			key := fmt.Sprint("key ", len(there))
			if err = filter.Insert([]byte(key)); err == nil {
				there = append(there, key)
			}
		}
		if !errors.Is(err, mmapfilter.ErrFull) {
			t.Fatal(err)
		}
		input := []string{"last", "one more", "two more"}
		if kind == addRun {
			// A copy of a key needs a stash entry if its lines are full and the stash has no
			// copy of it.
			i := slices.IndexFunc(there, func(key string) bool { return filter.Insert([]byte(key)) != nil })
			if i < 0 {
				t.Fatal("no key is refused")
			}
			input[1] = there[i]
		}
		// The last key is in the stash. Deleting it makes room for one key.
		if deleted, err := filter.Delete([]byte(there[len(there)-1])); !deleted || err != nil {
			t.Fatal(deleted, err)
		}
		noError(t, filter.Close())
		points, err := trace(t, kind, input)
		if err == nil || !strings.Contains(err.Error(), "record 2 of standard input does not fit") {
			t.Fatal(err)
		}
		for i, p := range points {
			if p.dealt == 0 {
				continue // there is room for the first record
			}
			p.restore(t)
			known := slices.Concat(there, input)
			before := contentsHere(t, known)
			for range 3 { // a run that adds nothing changes nothing
				exit, stderr, after := resume(t, kind, input, known)
				// With --unique, a committed refusal without the marker after it shows as a
				// record that is not in the filter.
				other := kind == addUniqueRun && i < len(points)-2 && strings.Contains(stderr, "record 2: certainly not in f.mmf")
				if exit != exitError || !other && !strings.Contains(stderr, "record 2 of standard input does not fit") || !maps.Equal(after, before) {
					t.Errorf("%v at point %d: exit %d, %s", kind, i, exit, stderr)
				}
			}
		}
	}
}
