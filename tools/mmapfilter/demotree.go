package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// goSourceDir asks the go command where the source of Go is.
func goSourceDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("no Go source tree is known (go env GOROOT: %w); name another tree with --dir", err)
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

// readTree reads the Go files below dir. It calls progress after each file with their number so
// far.
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
