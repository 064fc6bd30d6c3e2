package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
	"github.com/spf13/pflag"
)

// found returns a small figure.
func found() *report.Figure {
	return &report.Figure{
		Run: "nothing", Paper: "It says so.", Ours: "So do we.",
		Plots: []report.Plot{{Series: []report.Series{{Name: "s", Points: []report.Point{{X: 1, Y: 1}, {X: 2, Y: 2}}}}}},
	}
}

func finds(name string) experiment {
	return experiment{name, "Title of " + name, func(*config) (*report.Figure, error) { return found(), nil }, shows}
}

// shows returns the view of that figure.
func shows(f *report.Figure) ([]report.View, error) {
	return []report.View{{
		Question: "What is there?", Answer: "Nothing.", Caption: "None.",
		Picture: &picture.Bars{Unit: "nothing", Format: "%.0f", Paper: "%.0f", Rows: []picture.Row{{Name: f.Plots[0].Series[0].Name}}},
	}}, nil
}

func runHere(list []experiment, args ...string) (exit int, stdout, stderr string) {
	var out, err bytes.Buffer
	exit = run(context.Background(), args, list, &out, &err)
	return exit, out.String(), err.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The help text is written by hand. It must name every flag and command, and fit a page.
func TestHelp(t *testing.T) {
	list := []experiment{finds("fig2"), finds("fig5")}
	root := newRootCommand(list)
	for _, line := range strings.Split(root.Long, "\n") {
		if len(line) > 80 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(root.Long, "--"+f.Name) {
			t.Errorf("nothing about --%s", f.Name)
		}
	})
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && !strings.Contains(root.Long, "\n  "+cmd.Name()+" ") {
			t.Errorf("nothing about %s", cmd.Name())
		}
	}
	if !strings.Contains(root.Long, "\n  fig5    Title of fig5\n") {
		t.Error("no title of fig5")
	}
	for _, args := range [][]string{nil, {"--help"}, {"fig2", "--help"}, {"help", "fig2"}} {
		if exit, stdout, stderr := runHere(list, args...); exit != 0 || stdout != root.Long+"\n" || stderr != "" {
			t.Errorf("%q: exit %d, %q, %q", args, exit, stdout, stderr)
		}
	}
}

// An experiment gets the flags, and its figure is written.
func TestOneExperiment(t *testing.T) {
	out, parent := filepath.Join(t.TempDir(), "a", "b"), t.TempDir()
	var got config
	list := []experiment{finds("fig2"), {"fig5", "Figure 5", func(c *config) (*report.Figure, error) {
		got = *c
		return found(), os.WriteFile(filepath.Join(c.dir, "f.mmf"), nil, 0o666)
	}, shows}}
	exit, stdout, stderr := runHere(list, "fig5", "--scale", "paper", "--seed", "18446744073709551615", "--out", out, "--dir", parent)
	if exit != 0 || stdout != "" {
		t.Fatalf("exit %d, %q, %q", exit, stdout, stderr)
	}
	if got.scale != scalePaper || got.seed != 1<<64-1 || got.out != out || filepath.Dir(got.dir) != parent {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(stderr, "fig5: Figure 5, scale paper") || !strings.Contains(stderr, "fig5: So do we.\n") {
		t.Errorf("%q", stderr)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", err, left)
	}
	var names []string
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	if got := strings.Join(names, " "); got != "README.md fig5.csv fig5.json fig5.svg" {
		t.Error(got)
	}
	if text := read(t, filepath.Join(out, "fig5.csv")); !strings.Contains(text, "# command: go -C tools/evaluate run . fig5 --scale paper --seed 18446744073709551615\n") || !strings.Contains(text, "# figure: Figure 5\n") {
		t.Error(text)
	}
}

// An experiment that fails, or whose figure is invalid, does not keep the others from running.
func TestAll(t *testing.T) {
	out := t.TempDir()
	list := []experiment{
		finds("fig2"),
		{"fig3", "Figure 3", func(*config) (*report.Figure, error) { return nil, errors.New("no memory") }, shows},
		{"fig4", "Figure 4", func(*config) (*report.Figure, error) { return &report.Figure{}, nil }, shows},
		finds("fig5"),
	}
	exit, _, stderr := runHere(list, "all", "--out", out)
	if exit != exitError || !strings.Contains(stderr, "evaluate: fig3: no memory\nfigure \"fig4\": ") {
		t.Errorf("exit %d, %q", exit, stderr)
	}
	page := read(t, filepath.Join(out, "README.md"))
	for name, want := range map[string]bool{"fig2": true, "fig3": false, "fig4": false, "fig5": true} {
		if strings.Contains(page, `<img src="`+name+`.svg"`) != want {
			t.Errorf("%s is on the page: %v", name, !want)
		}
	}
	picture := read(t, filepath.Join(out, "fig5.svg"))
	if err := errors.Join(os.Remove(filepath.Join(out, "README.md")), os.Remove(filepath.Join(out, "fig5.svg"))); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].run = func(*config) (*report.Figure, error) { panic("draw measures") }
	}
	if exit, _, stderr := runHere(list, "draw", "--out", out); exit != 0 || read(t, filepath.Join(out, "README.md")) != page || read(t, filepath.Join(out, "fig5.svg")) != picture {
		t.Errorf("exit %d, %q: the page or the picture is another one", exit, stderr)
	}
}

// Several experiments run in the order of their names in the arguments.
func TestSeveral(t *testing.T) {
	out := t.TempDir()
	list := []experiment{finds("fig2"), finds("fig3"), finds("fig4")}
	exit, _, stderr := runHere(list, "fig4", "fig2", "--out", out)
	if exit != 0 || strings.Contains(stderr, "fig3") || strings.Index(stderr, "fig4: ") > strings.Index(stderr, "fig2: ") {
		t.Errorf("exit %d: %s", exit, stderr)
	}
	page := read(t, filepath.Join(out, "README.md"))
	for name, want := range map[string]bool{"fig2": true, "fig3": false, "fig4": true} {
		if strings.Contains(page, `<img src="`+name+`.svg"`) != want {
			t.Errorf("%s is on the page: %v", name, !want)
		}
	}
}

// Bad input is reported before anything runs.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	list := []experiment{{"fig2", "Figure 2", func(*config) (*report.Figure, error) {
		t.Error("it is run")
		return found(), nil
	}, shows}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"fig9"}, `there is no command "fig9"`},
		{[]string{"fig2", "fig9"}, `there is no experiment "fig9"`},
		{[]string{"all", "fig2"}, `no arguments, such as "fig2"`},
		{[]string{"draw", "fig3"}, `no arguments, such as "fig3"`},
		{[]string{"fig2", "--scale", "large"}, `--scale is small or paper, not "large"`},
		{[]string{"draw", "--scale", ""}, `--scale is small or paper, not ""`},
		{[]string{"fig2", "--seed", "-1"}, `"-1" for "--seed"`},
		{[]string{"fig2", "--size", "3"}, "unknown flag: --size"},
		{[]string{"fig2", "--out", file}, "--out: "},
		{[]string{"fig2", "--out", dir, "--dir", file}, "--dir: "},
		{[]string{"draw", "--out", dir}, "no figure has been written"},
	} {
		exit, stdout, stderr := runHere(list, c.args...)
		if exit != exitError || stdout != "" || !strings.HasPrefix(stderr, "evaluate: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %q, %q", c.args, exit, stdout, stderr)
		}
	}
}

// After an interrupt, run does not wait for the running experiment, removes its files, and does
// not begin the next one.
func TestInterrupted(t *testing.T) {
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	never := make(chan struct{})
	defer close(never)
	list := []experiment{
		{"fig2", "Figure 2", func(c *config) (*report.Figure, error) {
			if err := os.WriteFile(filepath.Join(c.dir, "f.mmf"), nil, 0o666); err != nil {
				t.Error(err)
			}
			cancel()
			<-never
			return nil, errors.New("interrupted")
		}, shows},
		{"fig3", "Figure 3", func(*config) (*report.Figure, error) {
			t.Error("the next one is run")
			return found(), nil
		}, shows},
	}
	var stdout, stderr bytes.Buffer
	if exit := run(ctx, []string{"all", "--out", t.TempDir(), "--dir", parent}, list, &stdout, &stderr); exit != exitError || !strings.HasSuffix(stderr.String(), "evaluate: interrupted\n") {
		t.Errorf("exit %d: %s", exit, &stderr)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", err, left)
	}
}
