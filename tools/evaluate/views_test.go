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

// TestReadme: figures stand on the page, with their machine and date, and not in README.
func TestReadme(t *testing.T) {
	if found := regexp.MustCompile(`[0-9]+[.,][0-9]+|[0-9]+ (%|million|GiB|MiB)`).FindString(read(t, "README.md")); found != "" {
		t.Errorf("README.md has %q", found)
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
