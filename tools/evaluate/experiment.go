package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// An experiment reproduces a figure of the paper. It is a command if it is in experiments. The
// name is that of the command, and the stem of the files.
type experiment struct {
	name  string
	title string // of the figure: "Figure 5: lookups by how many keys are there"
	run   func(c *config) (*report.Figure, error)
	views report.Viewer // makes its pictures
}

// viewers returns the viewer of each experiment.
func viewers(list []experiment) map[string]report.Viewer {
	all := map[string]report.Viewer{}
	for _, e := range list {
		all[e.name] = e.views
	}
	return all
}

// A config holds the flags, and what experiments share.
type config struct {
	ctx      context.Context
	scale    scale
	extent   *extent // of the scale
	out      string  // directory of the figures
	seed     uint64
	dir      string    // for filter files; removed at the end
	progress io.Writer // for progress lines

	viewers map[string]report.Viewer // of all experiments

	filling interface{ close() error } // a *filling, every structure, full; nil before the first experiment that needs it
}

// close releases what experiments share.
func (c *config) close() error {
	if c.filling == nil {
		return nil
	}
	err := c.filling.close()
	c.filling = nil
	return err
}

// ran starts a figure with a description of the run.
func (c *config) ran(what string) *report.Figure {
	return &report.Figure{Run: fmt.Sprintf("%s; 64-bit random keys, seed %d, scale %s", what, c.seed, c.scale)}
}

// path returns the path for a filter file, and removes any file there.
func (c *config) path(name string) (string, error) {
	path := filepath.Join(c.dir, name+".mmf")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return path, nil
}

// note prints progress.
func (c *config) note(format string, args ...any) {
	fmt.Fprintf(c.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// command returns the command that reruns an experiment from the root of the module.
func (c *config) command(name string) string {
	return fmt.Sprintf("go -C tools/evaluate run . %s --scale %s --seed %d", name, c.scale, c.seed)
}

// figure runs an experiment, and writes and draws its figure. Name and command are those of the
// experiment; so is the title, unless the figure has its own.
func (c *config) figure(e experiment) error {
	c.note("%s: %s, scale %s, seed %d", e.name, e.title, c.scale, c.seed)
	start := time.Now()
	f, err := e.run(c)
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	f.Name, f.Command = e.name, c.command(e.name)
	if f.Title == "" {
		f.Title = e.title
	}
	f.Seconds = time.Since(start).Seconds()
	if err := report.Write(c.out, f, machine.This()); err != nil {
		return err
	}
	c.note("%s: %s", e.name, f.Ours)
	c.note("%s: written to %s, after %v", e.name, c.out, time.Since(start).Round(time.Second))
	return report.Draw(c.out, c.viewers)
}
