// Package mistakes reads the files of testdata/mistakes. Each is a mistake that a crash-safe
// filter could make, as a diff against the code. The lines before the diff say what is wrong and
// which checks find it:
//
//	A move clears the source before it fills the destination.
//	Found by: TestExplore, TestSchedules, TestKill
//
//	--- a/recovery/writer.go
//	+++ b/recovery/writer.go
//	@@ …
//
// TestMistakes builds the module with each diff applied and expects the checks to find the mistake:
// a check that has never failed may be unable to fail. The files of the module do not change. A
// diff is applied to copies, which the go command reads instead of the files.
package mistakes

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir is the directory of the diffs in the module.
const Dir = "testdata/mistakes"

// A Mistake is one of the diffs.
type Mistake struct {
	Name    string   // the file name without .diff
	FoundBy []string // the checks that must find it
	Files   []string // files it changes, relative to the module, with slashes
	diff    string
}

// List reads the mistakes of a module, sorted by name.
func List(module string) ([]Mistake, error) {
	paths, err := filepath.Glob(filepath.Join(module, Dir, "*.diff"))
	if err != nil {
		return nil, err
	}
	if paths == nil {
		return nil, fmt.Errorf("%s has no diffs", Dir)
	}
	var list []Mistake
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(path), ".diff"), string(text))
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func parse(name, text string) (Mistake, error) {
	m := Mistake{Name: name, diff: text}
	head, _, _ := strings.Cut(text, "\n--- ")
	what, checks, ok := strings.Cut(head, "\nFound by: ")
	if !ok || what == "" {
		return m, fmt.Errorf("%s does not begin with what is wrong and a line \"Found by: …\"", m.path())
	}
	checks, _, _ = strings.Cut(checks, "\n")
	m.FoundBy = strings.Split(checks, ", ")
	for line := range strings.Lines(text) {
		if file, ok := strings.CutPrefix(line, "+++ b/"); ok {
			m.Files = append(m.Files, strings.TrimSpace(file))
		}
	}
	for _, file := range m.Files {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return m, fmt.Errorf("%s changes %s, which is not code of the module", m.path(), file)
		}
	}
	if m.Files == nil {
		return m, fmt.Errorf("%s changes no file", m.path())
	}
	return m, nil
}

func (m *Mistake) path() string { return Dir + "/" + m.Name + ".diff" }

// Apply makes the mistake in copies of the files that it changes. The copies keep their relative
// paths below the existing directory to.
func (m *Mistake) Apply(module, to string) error {
	for _, file := range m.Files {
		if err := m.applyTo(file, module, to); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mistake) applyTo(file, module, to string) error {
	text, err := os.ReadFile(filepath.Join(module, file))
	if err != nil {
		return fmt.Errorf("%s no longer applies to %s: %w", m.path(), file, err)
	}
	out := filepath.Join(to, file)
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(out, text, 0o600); err != nil {
		return err
	}
	git := exec.Command("git", "apply", "--include="+file, "-")
	git.Dir = to
	git.Stdin = strings.NewReader(m.diff)
	// If the directory were in a repository, git would skip files outside of that repository.
	git.Env = append(os.Environ(), "GIT_DIR="+filepath.Join(to, "none"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1")
	if said, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("%s no longer applies to %s: git apply: %w\n%s", m.path(), file, err, said)
	}
	return nil
}

// Overlay makes the mistake in copies, as Apply does, and writes the file for the -overlay flag
// that makes the go command read them.
func (m *Mistake) Overlay(module, to string) (file string, err error) {
	if err := m.Apply(module, to); err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for _, file := range m.Files {
		overlay.Replace[filepath.Join(module, file)] = filepath.Join(to, file)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file = filepath.Join(to, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
