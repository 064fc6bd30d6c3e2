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

// createHere creates an empty filter f.mmf in the working directory. Its fingerprints are so long that
// they tell all keys of a test apart.
func createHere(t *testing.T, capacity string) {
	t.Helper()
	must(t, "", "create", "-n", capacity, "-p", "1e-8", "--seed", "1", "f.mmf")
}

// A killPoint is what a run leaves behind if it is killed at an instant.
type killPoint struct {
	file, log []byte
	dealt     int  // records of the input that were processed
	changing  int  // processed records up to the last one that changed the filter
	marked    int  // processed records that the last marker counts
	begun     bool // a marker of the run is in the filter
	ended     bool // the run has ended successfully
}

// A tracedRun is the filter of a run. It records a killPoint whenever the files may have changed.
type tracedRun struct {
	*mmapfilter.Filter
	t      *testing.T
	points []killPoint
	now    killPoint
}

// prepare prepares a run on f.mmf whose input has the given lines.
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

// trace runs a command on f.mmf whose input has the given lines, and returns its kill points: before the
// first change, after each record, after each marker and after each commit. It commits, as the timer
// would, after every second record and after a refused record.
func trace(t *testing.T, kind runKind, input []string, flags ...string) ([]killPoint, error) {
	t.Helper()
	m := prepare(t, kind, input, flags...)
	r := &tracedRun{Filter: m.filter, t: t}
	m.to = r
	r.point()
	err := m.run(context.Background())
	r.point()
	if errors.Is(err, errNo) { // some keys were certainly not in the filter
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

// done notes that a record was processed or refused.
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
		r.t.Errorf("the sequence %#x is not a marker", seq)
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

// restore gives f.mmf and its log the contents that they had at a kill point.
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

// with returns the contents after a run with these keys.
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

// contentsHere returns the contents of f.mmf. It must have known keys only.
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

// resumeInputs returns the inputs with which a run is resumed. In each, the first record that differs
// from the original input is number other, counted from 0. If other is -1, none differs, but there may
// be more records. In a shorter input, other is the first missing record.
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

// resume resumes a run on f.mmf with records, and returns the contents after it.
func resume(t *testing.T, kind runKind, records, known []string) (exit int, stderr string, got contents) {
	t.Helper()
	args := append(strings.Fields(kind.String()), "--resume", "f.mmf")
	exit, _, stderr = runHere(strings.NewReader(lines(records)), args...)
	return exit, stderr, contentsHere(t, slices.Concat(records, known))
}

// TestResumeAtEveryPoint kills a run at every kill point, and resumes it with several inputs. If the
// input is the same, or the same and longer, the result must be as if there had been no kill. With any
// other input, resuming must fail and change nothing. But if the run had ended, an input with another
// first record must be processed as a whole.
func TestResumeAtEveryPoint(t *testing.T) {
	base := []string{"base 1", "base 2", "apple", "apple", "cherry", "fig"}
	input := []string{"pear", "apple", "", "cherry", "pear", "base 2", "lime"}
	for _, c := range []struct {
		kind   runKind
		before []string // keys that are added first, so that del finds its records
	}{
		{addRun, nil}, {addUniqueRun, nil}, {delRun, input}, {delRun, input[:3]}, // the last del does not find all records
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
						// If the last records changed nothing, they may not have been counted.
						want = begin.with(c.kind, in.records)
					case p.ended && in.other == 0 && len(in.records) > 0:
						want = state.with(c.kind, in.records)
					case c.kind == delRun && in.other >= max(p.marked, 1) && len(in.records) >= held:
						continue // del notices no differences but in the first record
					case in.name == "two swapped" && p.marked < 3 && p.dealt > 2:
						want = begin.with(c.kind, in.records) // both records are in the filter
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

// TestResumeWithSameCheck resumes with an input whose first record differs, but has the same check. If
// this record is certainly not in the filter, the input must still be recognised as another one.
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

// TestResumeTheResumed kills a run at every kill point, resumes it, and kills that run at every kill
// point, too.
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

// TestResumeAfterOthers checks that a resumed run notices changes of the filter since the run was killed
// or ended, and accepts commands that changed no items.
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

// TestResumeOneThatOnlyBegan checks that a run does not keep the marker of the previous run, even if it
// ends before its first record.
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

// TestResumeAtFullFilter checks that a record that is refused because the filter is full is counted as
// an operation. Wherever the run is killed, the next run must try this record first, even if the filter
// answers "maybe" for it.
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
			// If the lines of a key are full and the stash has no item of its class, inserting the key
			// again needs a free entry of the stash.
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
				continue // the first record has room
			}
			p.restore(t)
			known := slices.Concat(there, input)
			before := contentsHere(t, known)
			for range 3 { // a run that adds no key must not affect the next
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
