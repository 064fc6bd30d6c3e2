package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// list returns the parts of the files that globs match.
func list(partBytes int64, globs ...string) (parts []part, err error) {
	l := &listFn{Globs: globs, PartBytes: partBytes}
	err = l.ProcessElement(context.Background(), nil, func(p part) { parts = append(parts, p) })
	return parts, err
}

// TestParts cuts files into parts, short files at every byte. Each line must be in one part, and the
// lines must be in order.
func TestParts(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "keys")
	for _, text := range []string{
		"", "\n", "\n\n", "a", "a\n", "\na", "ab\nc\n", "ab\n\ncd\r\n\x00\nef", "ab\nlonger than most\ncd\n",
		strings.Repeat("x", 600<<10) + "\nab\n" + strings.Repeat("y", 300<<10),
	} {
		must(t, os.WriteFile(path, []byte(text), 0o666))
		var want []string
		if text != "" {
			want = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		}
		few := 1 + int64(len(text))/20 // each part of a long line reads to its end
		for step := few; step <= int64(len(text))+1; step += few {
			parts, err := list(step, path)
			must(t, err)
			var got []string
			for _, p := range parts {
				for key, err := range p.keys(ctx) {
					if err != nil {
						t.Fatalf("%.40q in steps of %d: %v", text, step, err)
					}
					got = append(got, string(key))
				}
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
				t.Fatalf("%.40q in steps of %d has %d lines, want %d: %.100q", text, step, len(got), len(want), got)
			}
			if n := (int64(len(text))+step-1)/step + 1; int64(len(parts)) != n || parts[n-1] != (part{}) {
				t.Fatalf("%.40q in steps of %d has %d parts, want %d", text, step, len(parts), n)
			}
		}
	}
}

// TestChanged shortens or extends a file after it was listed. Some part of it must then give an error.
func TestChanged(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "keys")
	for _, text := range []string{"ab\ncd\nef\n", "ab\ncd\nef", "ab\n\n\n"} {
		for step := int64(1); step <= 10; step++ {
			for _, now := range []string{text + "\n", text + "gh", text + "gh\nij\n", text[:len(text)-1], text[:len(text)-2], text[:1], ""} {
				must(t, os.WriteFile(path, []byte(text), 0o666))
				parts, err := list(step, path)
				must(t, err)
				must(t, os.WriteFile(path, []byte(now), 0o666))
				changed := false
				for _, p := range parts {
					for _, err := range p.keys(ctx) {
						changed = changed || errors.Is(err, errChanged)
					}
				}
				if !changed {
					t.Errorf("%q in steps of %d became %q, and no part gives an error", text, step, now)
				}
			}
		}
	}
}

// TestRefuse checks that a job refuses input from which it would build a set of the wrong keys.
func TestRefuse(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, 0o666))
		return path
	}
	plain := write("plain.txt", []byte("a\n"))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o777))
	for want, globs := range map[string][]string{
		"the file is packed":         {write("a.gz", []byte("\x1f\x8b\x08\x00"))},
		"zst: the file is packed":    {write("a.zst", []byte("\x28\xb5\x2f\xfd\x00"))},
		"frame: the file is packed":  {write("frame", []byte("\x5a\x2a\x4d\x18\x00"))},
		"matches no file":            {plain, filepath.Join(dir, "*.csv")},
		"plain.txt matches more":     {plain, filepath.Join(dir, "*.txt")},
		"folder: not a regular file": {filepath.Join(dir, "fold*")},
		"scheme":                     {"nowhere://x/*"},
	} {
		if parts, err := list(100, globs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want an error with %q", globs, parts, err, want)
		}
	}
	for _, text := range [][]byte{nil, []byte("\x1f"), []byte("\x28\xb5\x2f"), []byte("Z*M")} {
		if packed(text) {
			t.Errorf("%q is taken as packed", text)
		}
	}
	_, data := newPlan(t, options(10, "hex"), 2)
	if _, err := newJob("a plan", data, []string{plain}, "x.set"); err == nil || !strings.Contains(err.Error(), `a plan: keys are read as "hex"`) {
		t.Errorf("a plan with a note: %v", err)
	}
	_, data = newPlan(t, options(10, ""), 2)
	if _, err := newJob("a plan", bytes.Replace(data, []byte("10"), []byte("11"), 1), []string{plain}, "x.set"); err == nil || !strings.Contains(err.Error(), "a plan: ") {
		t.Errorf("a plan that was changed: %v", err)
	}
	for _, manifest := range []string{"dir/", "memfs://dir/"} {
		if _, err := newJob("a plan", data, []string{plain}, manifest); err == nil {
			t.Errorf("%s is taken as a manifest", manifest)
		}
	}
}
