package mistakes

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module returns the directory of the module.
func module(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func list(t *testing.T) []Mistake {
	list, err := List(module(t))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestApply applies every mistake to the code as it is, and compiles what it changes, so a change
// that breaks a diff shows up at once.
func TestApply(t *testing.T) {
	for _, m := range list(t) {
		dir := t.TempDir()
		overlay, err := m.Overlay(module(t), dir)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, file := range m.Files {
			c := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, ".")
			c.Dir = filepath.Join(module(t), filepath.Dir(file))
			if said, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s does not compile: %v\n%s", m.Name, err, said)
			}
		}
		for _, file := range m.Files {
			before, err := os.ReadFile(filepath.Join(module(t), file))
			if err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(before, after) {
				t.Errorf("%s: %s is the same", m.Name, file)
			}
			if formatted, err := format.Source(after); err != nil || !bytes.Equal(formatted, after) {
				t.Errorf("%s: gofmt would change %s (%v)", m.Name, file, err)
			}
		}
	}
}

// TestNoLongerApplies changes or removes a file that a mistake changes.
func TestNoLongerApplies(t *testing.T) {
	for _, m := range list(t) {
		copied := t.TempDir()
		for _, file := range m.Files {
			text, err := os.ReadFile(filepath.Join(module(t), file))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(copied, filepath.Dir(file)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(copied, file), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Apply(copied, t.TempDir()); err != nil {
			t.Errorf("a copy: %v", err)
		}
		last := m.Files[len(m.Files)-1]
		says := "testdata/mistakes/" + m.Name + ".diff no longer applies to " + last + ": "
		if err := os.WriteFile(filepath.Join(copied, last), []byte("package changed\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(copied, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s is another: %v", last, err)
		}
		if err := os.Remove(filepath.Join(copied, last)); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(copied, t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s is gone: %v", last, err)
		}
	}
}

func TestParse(t *testing.T) {
	const diff = "--- a/x.go\n+++ b/x.go\n@@ -1 +1 @@\n-package x\n+package y\n"
	for _, c := range []struct{ text, says string }{
		{"It is wrong.\nFound by: TestX, TestKill\n\n" + diff, ""},
		{"It is wrong.\nFound by: TestX, TestKill\ndiff --git a/x.go b/x.go\nindex 1234567..89abcde 100644\n" + diff, ""},
		{diff, "Found by"},
		{"It is wrong.\n\n" + diff, "Found by"},
		{"Found by: TestX\n\n" + diff, "Found by"},
		{"It is wrong.\nFound by: TestX\n", "changes no file"},
		{"It is wrong.\nFound by: TestX\n\n" + strings.ReplaceAll(diff, "x.go", "x_test.go"), "not code"},
		{"It is wrong.\nFound by: TestX\n\n" + strings.ReplaceAll(diff, "x.go", "x.s"), "not code"},
	} {
		m, err := parse("slug", c.text)
		switch {
		case c.says == "" && (err != nil || strings.Join(m.FoundBy, "+") != "TestX+TestKill" || len(m.Files) != 1 || m.Files[0] != "x.go"):
			t.Errorf("%q: %+v, %v", c.text, m, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v", c.text, err)
		}
	}
}
