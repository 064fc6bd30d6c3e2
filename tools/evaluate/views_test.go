package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// The committed pictures and page are what the program draws from the committed data, with no
// other files beside them.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	for _, name := range namesIn(t, "results") {
		switch filepath.Ext(name) {
		case ".json":
			if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, filepath.Join("results", name))), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := report.Draw(dir, viewers(experiments)); err != nil {
		t.Fatal(err)
	}
	drawn, kept := namesIn(t, dir), namesIn(t, "results")
	if !slices.Equal(drawn, kept) {
		t.Errorf("in results there is %q; what is drawn, with its data, is %q", kept, drawn)
	}
	for _, name := range drawn {
		if read(t, filepath.Join(dir, name)) != read(t, filepath.Join("results", name)) {
			t.Errorf("results/%s is not what \"go -C tools/evaluate run . draw\" draws", name)
		}
	}
}

// README has the table of results/table3.json, and no other measured figure.
func TestReadme(t *testing.T) {
	f, m, err := report.Read("results", "table3")
	if err != nil {
		t.Fatal(err)
	}
	readme := read(t, "README.md")
	want, err := withTable(readme, f, m)
	if err != nil {
		t.Fatal(err)
	}
	if readme != want {
		t.Error("README.md is not what \"go -C tools/evaluate run . readme\" writes")
	}
	before, rest, _ := strings.Cut(readme, readmeBegin)
	_, after, _ := strings.Cut(rest, readmeEnd)
	if found := regexp.MustCompile(`[0-9]+[.,][0-9]+|[0-9]+ (%|million|GiB|MiB)`).FindString(before + after); found != "" {
		t.Errorf("README.md has %q outside its table", found)
	}
	for _, text := range []string{m.Day(), m.Processor, f.Command, "12.60", "127.78"} {
		if !strings.Contains(rest, text) {
			t.Errorf("the table does not say %q", text)
		}
	}
	// New data change the table; a text without a table is an error.
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte("before\n"+readmeBegin+"old\n"+readmeEnd+"after\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writeReadme(path, "results"); err != nil {
		t.Fatal(err)
	}
	text := read(t, path)
	if !strings.HasPrefix(text, "before\n"+readmeBegin+"\n"+m.Day()) || !strings.HasSuffix(text, "|\n\n"+readmeEnd+"after\n") || strings.Contains(text, "old") {
		t.Errorf("%s", text)
	}
	f.Tables[0].Rows[0][columnBits] = "99.99"
	if other, err := withTable(text, f, m); err != nil || !strings.Contains(other, "| 99.99 | 12.60 |") {
		t.Errorf("%v: %s", err, other)
	}
	if _, err := withTable(readmeEnd, f, m); err == nil {
		t.Error("a README without the first line is written")
	}
}

// Measurements are in results, where a program writes them, and in no comment.
func TestNoFiguresInComments(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	measured := regexp.MustCompile(`(?i)//.*(measured on 20|amd epyc|beside other work)`)
	for _, name := range files {
		if found := measured.FindString(read(t, name)); found != "" && !strings.HasSuffix(name, "_test.go") {
			t.Errorf("%s: %s", name, found)
		}
	}
}

// Views without their data are errors, not pictures of something else.
func TestViewsOfNothing(t *testing.T) {
	for _, e := range experiments {
		if _, err := e.views(&report.Figure{}); err == nil {
			t.Errorf("%s has views of nothing", e.name)
		}
	}
}

func TestBetweenPoints(t *testing.T) {
	s := report.Series{Points: []report.Point{{X: 100, Y: 3}, {X: 1, Y: 1}, {X: 10, Y: 2}}}
	for x, want := range map[float64]float64{1: 1, math.Sqrt(10): 1.5, 100: 3} {
		if got := at(s, x); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v at %v, not %v", got, x, want)
		}
	}
	for _, x := range []float64{0.9, 101} {
		if got := at(s, x); !math.IsNaN(got) {
			t.Errorf("%v at %v, beyond the points", got, x)
		}
	}
	p := report.Plot{Series: []report.Series{{Name: "a", Points: []report.Point{{X: 4, Y: 9}, {X: 3, Y: 7}, {X: 2, Y: 2}, {X: 1, Y: 4}}}}}
	if low, high := halves(p, "a"); low != 3 || high != 8 {
		t.Errorf("%v and %v", low, high)
	}
	if got := shortest(report.Series{Points: []report.Point{{X: 4, Y: 94}, {X: 5, Y: 95}, {X: 6, Y: 100}}}); got != 5 {
		t.Errorf("%v", got)
	}
	// Below a rate of 1 % this is smaller than a Bloom filter; above, it is not.
	bits := bloomFormula.bits(0.01)
	line := report.Series{Points: []report.Point{{X: 0.01, Y: bits}, {X: 1, Y: bits}, {X: 10, Y: bits}}}
	if got := crosses(line); got < 0.98 || got > 1 {
		t.Errorf("it crosses at %v", got)
	}
	if got := overhead(report.Series{Points: []report.Point{{X: 50, Y: 9}, {X: 100 / 64.0, Y: 8}}}); len(got) != 1 || math.Abs(got[0].Y-2) > 1e-9 {
		t.Errorf("%v", got)
	}
}
