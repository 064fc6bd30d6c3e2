package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// flawed returns a filter for n keys with a flaw: it "loses" every hundredth key, "forgets" the last
// 500, or "refuses" keys once it has half of them.
func flawed(flaw string, n, seed uint64) *Filter {
	has, accepted := map[string]bool{}, uint64(0)
	return &Filter{
		Seed: seed,
		Size: func() int64 { return int64(n) },
		Insert: Until(func(key []byte) bool {
			if flaw == "refuses" && accepted == n/2 {
				return false
			}
			accepted++
			if flaw == "loses" && accepted%100 == 0 || flaw == "forgets" && accepted > n-500 {
				return true
			}
			has[string(key)] = true
			return true
		}),
		Contains: Each(func(key []byte) bool { return has[string(key)] }),
		Delete:   Each(func(key []byte) bool { in := has[string(key)]; delete(has, string(key)); return in }),
	}
}

// addFlawed adds flawed filters to those that commands measure. Creating the filter "absent" fails.
func addFlawed(t *testing.T, flaws ...string) {
	t.Cleanup(func() { extra = nil })
	for _, flaw := range flaws {
		extra = append(extra, spec{flaw, false, func(s *session, n uint64) (*Filter, error) {
			if flaw == "absent" {
				return nil, errors.New("it cannot be created")
			}
			return flawed(flaw, n, s.seed), nil
		}})
	}
}

// short runs a command with -short, and returns the rows of its tables. The command must leave
// nothing in the directory.
func short(t *testing.T, args ...string) (rows [][]string) {
	t.Helper()
	dir := t.TempDir()
	var out, notes bytes.Buffer
	if code := run(t.Context(), append(args, "-short", "-dir", dir), &out, &notes); code != 0 {
		t.Fatalf("exit status %d: %s", code, notes.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
	if text := out.String(); !strings.Contains(text, "go -C tools/bench run . "+args[0]) || !strings.Contains(text, " cores; ") {
		t.Errorf("the command or the machine is missing in %s", text)
	}
	for line := range strings.Lines(out.String()) {
		if cells, ok := strings.CutPrefix(strings.TrimSpace(line), "| "); ok {
			rows = append(rows, strings.Split(strings.TrimSuffix(cells, " |"), " | "))
		}
	}
	return rows
}

// want finds a row that begins with the given cells, and returns its other cells. No cell may be NaN or
// infinite.
func want(t *testing.T, rows [][]string, begin ...string) []string {
	t.Helper()
	i := slices.IndexFunc(rows, func(r []string) bool { return len(r) >= len(begin) && slices.Equal(r[:len(begin)], begin) })
	if i < 0 {
		t.Fatalf("no row %q in %q", begin, rows)
	}
	for _, cell := range rows[i] {
		if strings.Contains(cell, "NaN") || strings.Contains(cell, "Inf") {
			t.Errorf("a row has a cell that is NaN or infinite: %q", rows[i])
		}
	}
	return rows[i][len(begin):]
}

func TestLookupRows(t *testing.T) {
	rows := short(t, "lookup")
	if perTable := 1 + 3 + len(questions()); len(rows) != 2*perTable { // the head, and the reads
		t.Errorf("%d rows, not two tables of %d", len(rows), perTable)
	}
	want(t, rows, "random reads of lines, a chain of dependent reads")
	for _, q := range questions() {
		if got := want(t, rows, q.call, fmt.Sprint(q.batch), string(q.keys)); len(got) != 2 || got[0] == "0" {
			t.Errorf("%v: %q", q, got)
		}
	}
}

// TestLookupLost checks that a turn fails if lookups of present keys do not find some of them.
func TestLookupLost(t *testing.T) {
	s := &session{ctx: t.Context(), out: new(bytes.Buffer), notes: new(bytes.Buffer), temp: t.TempDir(), seed: 1}
	_, f, err := s.build("f.mmf", byDefault.options(2000), 1000)
	must(t, err)
	defer f.Close()
	for _, q := range questions() {
		if _, err := newAsker(f, 1000, 1).turn(q, 1); err != nil {
			t.Errorf("%v: %v", q, err)
		}
		if q.keys == absent {
			continue
		}
		if _, err := newAsker(f, 2000, 1).turn(q, 1); err == nil {
			t.Errorf("%v: half of the keys are missing, but the turn succeeds", q)
		}
	}
}

func TestPeersRows(t *testing.T) {
	for _, rate := range []float64{defaultRate, 0.0025} {
		first := variant{rate: rate}
		n := first.keys(256 << 10)
		addFlawed(t, "loses", "refuses")
		rows := short(t, "peers", "-rate", fmt.Sprint(rate))
		extra = nil
		names := []string{"loses", "refuses", "**" + first.name() + "**"}
		for _, k := range paperLayouts {
			names = append(names, variant{layout: k, rate: rate}.name())
		}
		for _, spec := range goPeers(rate) {
			names = append(names, spec.name)
		}
		if len(rows) != len(names)+1 {
			t.Errorf("%d rows for %d filters", len(rows), len(names))
		}
		for _, name := range names {
			got := want(t, rows, name)
			keys, lost, bits := n, "0", ""
			switch name {
			case "loses":
				lost, bits = Grouped(int64(n/100)), "8.00"
			case "refuses":
				keys, bits = n/2, "16.00"
			}
			lost += " of " + Grouped(int64(keys))
			if name == "loses" {
				lost = "**" + lost + "**"
			}
			if len(got) != 8 || got[0] != Grouped(int64(keys)) || got[1] != lost || bits != "" && got[2] != bits {
				t.Errorf("%s: %q, want %d keys, %s lost", name, got, keys, lost)
			}
		}
	}
}

// TestVariantKeys checks that a filter for v.keys has about the given number of bytes.
func TestVariantKeys(t *testing.T) {
	for _, v := range []variant{byDefault, {layout: layout.Packed, f: 12}, {layout: layout.SemiSorted, f: 12}, {rate: 0.0001}} {
		opts := v.options(v.keys(64 << 20))
		plan, err := opts.Plan()
		must(t, err)
		if off := float64(plan.FileBytes)/(64<<20) - 1; math.Abs(off) > 0.04 {
			t.Errorf("%s: %d bytes", v.name(), plan.FileBytes)
		}
	}
}

// TestPeersPart checks that, if a filter fails, the measurements before that are printed.
func TestPeersPart(t *testing.T) {
	addFlawed(t, "absent")
	for _, command := range []string{"peers", "space"} {
		var out, notes bytes.Buffer
		args := []string{command, "-short", "-size", "64KiB", "-dir", t.TempDir(), "-only", "seiflotfy,absent"}
		if code := run(t.Context(), args, &out, &notes); code != 2 || !strings.Contains(notes.String(), "it cannot be created") {
			t.Errorf("%s: exit status %d, %s", command, code, notes.String())
		}
		if !strings.Contains(out.String(), "| seiflotfy/cuckoofilter, f=8, b=4 | ") {
			t.Errorf("%s: no row of the other filter in %s", command, out.String())
		}
	}
}

// TestInterrupted checks that an interrupted run does not wait until a filter is full.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &session{ctx: ctx, seed: 1}
	calls := uint64(0)
	f := &Filter{Insert: func(keys []Key) int { calls++; cancel(); return len(keys) }, Contains: func([]Key) int { calls++; return 0 }}
	if c, err := s.add(f, 0, 10*pieceKeys); !errors.Is(err, context.Canceled) || c.Keys != pieceKeys {
		t.Errorf("%d keys were added: %v", c.Keys, err)
	}
	if _, err := s.ask(f, 0, 10*pieceKeys); !errors.Is(err, context.Canceled) || calls != pieceKeys/BlockKeys {
		t.Errorf("%d blocks: %v", calls, err)
	}
	for key, err := range keySequence(s.ctx, s.seed, 0, 5) {
		if key != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("key %x: %v", key, err)
		}
	}
}

// TestPeersCheck checks that -check looks up some of the first and some of the last keys.
func TestPeersCheck(t *testing.T) {
	addFlawed(t, "loses", "forgets")
	rows := short(t, "peers", "-check", "2000", "-only", "loses,forgets")
	for name, lost := range map[string]string{"loses": "**20 of 2,000**", "forgets": "**500 of 2,000**"} {
		if got := want(t, rows, name); got[1] != lost {
			t.Errorf("%s: %q, want %s", name, got, lost)
		}
	}
}

func TestInsertRows(t *testing.T) {
	addFlawed(t, "loses", "refuses")
	rows := short(t, "peers", "-loads", "50,95")
	for _, name := range []string{"mmapfilter, rate 1 %: Insert", "mmapfilter, rate 1 %: InsertBatch of 1,024", "bits-and-blooms/bloom v3",
		"seiflotfy/cuckoofilter, f=8, b=4", "loses", "refuses"} {
		got := want(t, rows, name)
		count := 0
		for _, r := range rows {
			if r[0] == name {
				count++
			}
		}
		if count != 2 || len(got) != 3 {
			t.Errorf("%s: %d rows such as %q", name, count, got)
		}
		switch {
		case name == "loses" && strings.HasPrefix(got[2], "0 of"):
			t.Errorf("%q shows no lost keys", got)
		case name != "loses" && !strings.HasPrefix(got[2], "0 of"):
			t.Errorf("%s: %q has lost keys", name, got)
		case name == "refuses" && got[1] != "full at 47.5 %":
			t.Errorf("%q does not show that the filter is full at half of 95 %%", got)
		}
	}
}

// TestInsertsLost checks that keys that deletes do not find are reported as lost, although only one key
// is looked up afterwards.
func TestInsertsLost(t *testing.T) {
	addFlawed(t, "loses")
	rows := short(t, "peers", "-loads", "50", "-check", "1", "-only", "loses")
	if got := want(t, rows, "loses"); number(t, got[1]) < 2 {
		t.Errorf("%q shows no lost keys", got)
	}
}

func TestBuildRows(t *testing.T) {
	addFlawed(t, "refuses")
	rows := short(t, "build", "-keys", "20000,30K")
	for _, head := range []string{"20,000 keys", "30,000 keys"} {
		want(t, rows, head)
	}
	names := []string{"Build, " + byDefault.name(), "to hash the keys, one processor", "refuses"}
	for _, spec := range goPeers(defaultRate) {
		names = append(names, spec.name)
	}
	for _, name := range names {
		got := want(t, rows, name)
		if len(got) != 5 || strings.HasPrefix(name, "Build") && got[4] == "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := want(t, rows, "refuses"); got[4] != "refused a key after 10,000" {
		t.Errorf("half of 20,000 keys: %q", got)
	}
	if want := 2 * (len(names) + 1); len(rows) != want {
		t.Errorf("%d rows, not %d", len(rows), want)
	}
}

func TestSetRows(t *testing.T) {
	rows := short(t, "build", "-shards", "5")
	for _, name := range []string{"partition: 8 tasks, two at a time", "build: 5 tasks, two at a time", "all", "one Build of the same keys",
		"ContainsBatch of every key, two goroutines: 0 missing", "one key", "batches of 1024"} {
		want(t, rows, name)
	}
}

// TestPictures checks that churn -draw draws the committed pictures from the committed CSV file, without
// measuring.
func TestPictures(t *testing.T) {
	out := filepath.Join(t.TempDir(), "churn")
	text := readFile(t, "churn.csv")
	must(t, os.WriteFile(out+".csv", []byte(text), 0o666))
	short(t, "churn", "-draw", "-out", out)
	if readFile(t, out+".csv") != text {
		t.Error("churn -draw has changed the CSV file")
	}
	for _, file := range []string{"churn-rate.svg", "churn-second.svg"} {
		if readFile(t, file) != readFile(t, filepath.Join(filepath.Dir(out), file)) {
			t.Errorf("%s is not what \"churn -draw\" draws from churn.csv", file)
		}
	}
}

// TestPicture draws two lines, and refuses rows that it cannot draw.
func TestPicture(t *testing.T) {
	row := func(name, kind, turnovers, second string) []string {
		return []string{name, "", kind, "0.01", "", "", turnovers, "", "", second, "", "", "", "", ""}
	}
	p := &churnPictures[1]
	svg, err := p.draw([][]string{row(defaultFilled, "random", "1", "2"), row(defaultFilled, "random", "2", "4"), row("linvon", "random", "1", "0"), row("linvon", "random", "2", "3"), row("seiflotfy", "zipf", "1", "1")})
	must(t, err)
	for text, want := range map[string]bool{p.title: true, ">turnovers<": true, ">mmapfilter<": true, ">linvon/cuckoo-filter<": true, "seiflotfy": false} {
		if strings.Contains(string(svg), text) != want {
			t.Errorf("%q is in the picture: %t", text, !want)
		}
	}
	for want, rows := range map[string][][]string{"no rows": {row("d", "random", "1", "2")}, "of 2 cells": {{"a", "1"}}, "invalid": {row("linvon", "random", "1", "many")}} {
		if _, err := p.draw(rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, not: %v", want, err)
		}
	}
}

func TestWriterRows(t *testing.T) {
	rows := short(t, "writer")
	for _, name := range callNames {
		if got := want(t, rows, "1MiB", "1,000", name); len(got) != 5 || got[0] == "0 ns" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestRebuildRows(t *testing.T) {
	large := func(rows [][]string) bool {
		return slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "Snapshot of lines" })
	}
	rows := short(t, "rebuild", "-pace", "5000")
	for _, name := range []string{"KeepHashes", "Rebuild from a base", "Rebuild from a tail", "for 1,000 keys, AutoGrow"} {
		want(t, rows, name)
	}
	if !large(rows) || large(short(t, "rebuild", "-large", "0")) {
		t.Error("only with -large 0 should the large file be left out")
	}
}

func TestSpaceRows(t *testing.T) {
	addFlawed(t, "loses")
	rows := short(t, "space", "-size", "64KiB", "-only", "mmapfilter,seiflotfy,fuse 8,3 %,loses")
	for _, name := range []string{"mmapfilter, rate 5 %", "bits-and-blooms/bloom v3, for 3 %", "seiflotfy/cuckoofilter, f=8, b=4", "FastFilter/xorfilter, binary fuse 8, xxh3"} {
		if got := want(t, rows, name); len(got) != 7 || !strings.HasPrefix(got[1], "0 of") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := want(t, rows, "loses"); got[1] == "0 of 38,912" || got[5] != "unknown" {
		t.Errorf("a filter that loses keys and has no false positives: %q", got)
	}
}

func TestDistance(t *testing.T) {
	k := held{high: 1000, bytes: 1500, asks: 1024, positives: 1}
	if got := k.distance(); !slices.Equal(got, []string{"10.00", "2.00", "1.200"}) {
		t.Errorf("12 bits a key for a rate of 1 in 1,024: %q", got)
	}
}

// TestLive checks that inserting into a full filter gives no error, and using a closed filter does.
func TestLive(t *testing.T) {
	s := &session{ctx: t.Context(), seed: 1}
	for i, w := range []writing{{}, {batch: 100}, {syncEvery: 10}} {
		f, err := s.createLive(filepath.Join(t.TempDir(), fmt.Sprint(i)), variant{layout: layout.SemiSorted, f: 12}, 1000, w)
		must(t, err)
		added, err := f.Add(0, 5000)
		if err != nil || added.Keys < 1000 || added.Keys >= 5000 {
			t.Errorf("%+v: %d of 5,000 keys were added to a filter for 1,000: %v", w, added.Keys, err)
		}
		removed, err := f.Remove(0, 500)
		if err != nil || removed.Keys != 500 {
			t.Errorf("%+v: %d of 500 keys were removed: %v", w, removed.Keys, err)
		}
		if found, err := f.Ask(500, added.Keys-500); err != nil || found.Keys != added.Keys-500 {
			t.Errorf("%+v: %d of %d keys are found: %v", w, found.Keys, added.Keys-500, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.Add(5000, 1); !errors.Is(err, mmapfilter.ErrClosed) {
			t.Errorf("%+v: insert after Close: %v", w, err)
		}
		if _, err := f.Remove(500, 1); !errors.Is(err, mmapfilter.ErrClosed) {
			t.Errorf("%+v: delete after Close: %v", w, err)
		}
	}
}

// TestErrors checks the errors of commands that cannot run.
func TestErrors(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{t.Context(), nil, "bench space"},
		{t.Context(), []string{"lookups"}, `no command "lookups"`},
		{t.Context(), []string{"peers", "-size", "1GB"}, "not a size"},
		{t.Context(), []string{"lookup", "-sizes", "1GB"}, "not a size"},
		{t.Context(), []string{"lookup", "-sizes", "8"}, "hold no key"},
		{t.Context(), []string{"peers", "-short", "-loads", "90,80"}, "no rising percents"},
		{t.Context(), []string{"peers", "-loads", "50", "-size", "2"}, "too few keys"},
		{t.Context(), []string{"memory", "-parts", "all"}, `"all" is not one of`},
		{t.Context(), []string{"paper", "-figure", "fig1"}, `"fig1" is not`},
		{t.Context(), []string{"lookup", "now"}, `unexpected argument "now"`},
		{t.Context(), []string{"lookup", "-rounds", "0"}, "-rounds must be"},
		{t.Context(), []string{"lookup", "-blocks", "0"}, "-blocks must be"},
		{t.Context(), []string{"lookup", "-dir", "/nonexistent"}, "/nonexistent"},
		{t.Context(), []string{"peers", "-short", "-asks", "0"}, "-asks must be"},
		{t.Context(), []string{"peers", "-short", "-only", "nobody"}, `with "nobody" in it`},
		{t.Context(), []string{"build", "-short", "-keys", "10X"}, "not a number of keys"},
		{t.Context(), []string{"space", "-short", "-asks", "0"}, "-asks must be"},
		{t.Context(), []string{"churn", "-short", "-rates", "0.01,2"}, `"2" is not a rate`},
		{t.Context(), []string{"churn", "-short", "-rates", "NaN"}, `"NaN" is not a rate`},
		{t.Context(), []string{"churn", "-short", "-rates", ""}, `"" is not a rate`},
		{t.Context(), []string{"churn", "-short", "-kinds", "oldest,newest"}, `"newest" is not one of`},
		{t.Context(), []string{"churn", "-short", "-turnovers", "0"}, "-turnovers must be"},
		{t.Context(), []string{"churn", "-short", "-keys", "1"}, "too few keys"},
		{t.Context(), []string{"churn", "-short", "-keys", fmt.Sprint(Absent)}, "too many"},
		{t.Context(), []string{"churn", "-short", "-asks", "0"}, "too few keys"},
		{t.Context(), []string{"churn", "-short", "-out", "/nonexistent/x"}, "/nonexistent/x"},
		{t.Context(), []string{"churn", "-draw", "-out", "/nonexistent/x"}, "/nonexistent/x"},
		{stopped, []string{"churn", "-short"}, "interrupted"},
		{stopped, []string{"lookup", "-short"}, "interrupted"},
		{stopped, []string{"peers", "-short"}, "interrupted"},
	} {
		dir := t.TempDir()
		args := c.args
		if len(args) > 0 && !slices.Contains(args, "-dir") {
			args = append([]string{args[0], "-dir", dir}, args[1:]...)
		}
		if len(args) > 0 && args[0] == "churn" && !slices.Contains(args, "-out") { // by default it is beside the sources
			args = append(args, "-out", filepath.Join(t.TempDir(), "churn"))
		}
		var out, notes bytes.Buffer
		if code := run(c.ctx, args, &out, &notes); code != 2 || !strings.Contains(notes.String(), c.want) {
			t.Errorf("%q: exit status %d, %q", c.args, code, notes.String())
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q has left %v, %v", c.args, left, err)
		}
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]uint64{"500000": 500_000, "10M": 10_000_000, "2B": 2_000_000_000, "3K": 3_000} {
		if got, err := parseCount(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// TestParts checks that keys are spread evenly over parts, and that a filter in parts finds its keys.
func TestParts(t *testing.T) {
	counts := make([]int, 7)
	for i := range uint64(70_000) {
		counts[part(Mix(i), len(counts))]++
	}
	for i, n := range counts {
		if n < 9_000 || n > 11_000 {
			t.Errorf("part %d has %d of 70,000 keys", i, n)
		}
	}
	s := &session{ctx: t.Context(), seed: 1}
	f, err := makePebble(10)(s, 3*pebbleKeys/2)
	must(t, err)
	if c, err := f.Ask(0, 3*pebbleKeys/2); err != nil || c.Keys != 3*pebbleKeys/2 {
		t.Errorf("%d of the keys of two parts are found: %v", c.Keys, err)
	}
}
