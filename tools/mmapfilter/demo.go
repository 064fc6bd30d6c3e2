package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const demoHelp = `Build a filter from every distinct line of the Go source tree on this machine,
open it again, and look up all of these lines and a million lines that are not
in the tree. Print the sizes and times.

Exit status: 0, or 2 after an error, or if a key of the filter is not found.`

// absentKeys is how many absent keys the demo looks up.
const absentKeys = 1_000_000

type demoCommand struct {
	opts mmapfilter.Options
	dir  string
	keep string
}

func newDemoCommand() *cobra.Command {
	d := new(demoCommand)
	cmd := &cobra.Command{Use: "demo", Args: noArgument, Short: "build a filter from the Go source tree and measure it", Long: demoHelp, RunE: d.run}
	addRateFlag(cmd.Flags(), &d.opts, "0.01")
	cmd.Flags().StringVar(&d.dir, "dir", "", "read the *.go files under `DIR` instead")
	cmd.Flags().StringVar(&d.keep, "keep", "", "keep the filter as `FILE`")
	return cmd
}

func (d *demoCommand) run(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	dir := d.dir
	if dir == "" {
		var err error
		if dir, err = goSourceDir(ctx); err != nil {
			return err
		}
	}
	path := d.keep
	if path == "" {
		temp, err := os.MkdirTemp("", "mmapfilter-demo-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		path = filepath.Join(temp, "demo.mmf")
	}
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.close()
	tree, err := readTree(ctx, dir, func(files int) {
		bar.show("reading "+dir, int64(files), 0, func(n int64) string { return formatNumber(n, "file", "files") })
	})
	if err != nil {
		return err
	}
	absent := tree.absent(absentKeys)
	bar.close() // drawing the bar would count as lookup time
	m := measured{keys: len(tree.keys)}
	if m.build, err = d.build(ctx, path, tree.keys); err != nil {
		return err
	}
	filter, err := m.ask(path, tree.keys, absent)
	if err != nil {
		return err
	}
	defer filter.Close()
	if err := m.print(cmd.OutOrStdout(), tree, filter.Stats()); err != nil {
		return err
	}
	if m.missing > 0 {
		return fmt.Errorf("%s of the filter not found", formatNumber(m.missing, "key", "keys"))
	}
	return nil
}

func (d *demoCommand) build(ctx context.Context, path string, keys [][]byte) (time.Duration, error) {
	start := time.Now()
	filter, err := mmapfilter.Build(ctx, path, &d.opts, func(yield func([]byte, error) bool) {
		for _, key := range keys {
			if !yield(key, nil) {
				return
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return time.Since(start), filter.Close()
}

// measured holds the results of the demo. Times of lookups are for all keys together, present
// and absent.
type measured struct {
	keys, missing, maybe  int
	build, open           time.Duration
	oneAtATime, inBatches time.Duration
}

// ask opens a filter and looks up all keys, twice. It leaves the filter open.
func (m *measured) ask(path string, present, absent [][]byte) (*mmapfilter.Filter, error) {
	start := time.Now()
	filter, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		return nil, err
	}
	filter.Contains(present[0])
	m.open = time.Since(start)

	keys := append(append(make([][]byte, 0, len(present)+len(absent)), present...), absent...)
	single, batch := make([]bool, len(keys)), make([]bool, len(keys))
	start = time.Now()
	for i, key := range keys {
		single[i] = filter.Contains(key)
	}
	m.oneAtATime = time.Since(start)
	start = time.Now()
	filter.ContainsBatch(keys, batch)
	m.inBatches = time.Since(start)

	for i := range keys {
		switch {
		case i < len(present) && !(single[i] && batch[i]):
			m.missing++
		case i >= len(present) && (single[i] || batch[i]):
			m.maybe++
		}
	}
	return filter, nil
}

func (m *measured) print(w io.Writer, tree *tree, s mmapfilter.Stats) error {
	perSecond := func(d time.Duration) string {
		return fmt.Sprintf("%.1f million a second", float64(m.keys+absentKeys)/d.Seconds()/1e6)
	}
	t := newTable(w)
	t.row("keys", "%s distinct lines of %s files in %s", formatCount(m.keys), formatCount(tree.files), tree.dir)
	t.row("file", "%s", formatSize(s.FileBytes))
	t.row("bits per key", "%.2f", s.BitsPerKey)
	t.row("rate asked", "%s", formatRate(s.TargetRate))
	t.row("rate measured", "%s (%s of %s absent keys)", formatRate(float64(m.maybe)/absentKeys), formatCount(m.maybe), formatCount(absentKeys))
	t.row("keys missing", "%s", formatCount(m.missing))
	t.row("build", "%.2f s", m.build.Seconds())
	t.row("open, first answer", "%.0f µs", float64(m.open.Nanoseconds())/1e3)
	t.row("lookups, one at a time", "%s", perSecond(m.oneAtATime))
	t.row("lookups, in batches", "%s", perSecond(m.inBatches))
	return t.flush()
}

// goSourceDir asks the go command where the source of Go is.
func goSourceDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the Go source tree (go env GOROOT: %w); name another tree with --dir", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "src"), nil
}

// A tree is the distinct lines of the Go files in a directory.
type tree struct {
	dir   string
	files int
	keys  [][]byte
	set   map[string]struct{} // the same keys
}

// readTree reads the Go files below dir. After each file it calls progress with the number of files
// so far.
func readTree(ctx context.Context, dir string, progress func(files int)) (*tree, error) {
	t := &tree{dir: dir, set: make(map[string]struct{})}
	// On some systems the tree is a symbolic link, which a walk does not follow.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, &fileError{dir, err}
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(path, ".go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t.add(data)
		progress(t.files)
		return nil
	})
	if err == nil && len(t.keys) == 0 {
		err = fmt.Errorf("no lines of Go in %s", dir)
	}
	return t, err
}

// add adds the lines of a file. The keys are slices of data.
func (t *tree) add(data []byte) {
	t.files++
	for line := range bytes.Lines(data) {
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if _, seen := t.set[string(line)]; !seen {
			t.set[string(line)] = struct{}{}
			t.keys = append(t.keys, line)
		}
	}
}

// absent returns n keys that are not in the tree.
func (t *tree) absent(n int) [][]byte {
	keys := make([][]byte, 0, n)
	for i := 0; len(keys) < n; i++ {
		key := strconv.AppendInt([]byte("absent key "), int64(i), 10)
		if _, present := t.set[string(key)]; !present {
			keys = append(keys, key)
		}
	}
	return keys
}
