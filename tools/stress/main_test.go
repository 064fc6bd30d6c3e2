package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// TestMain also runs the child processes: they run the program of their parent, which is the
// test here.
func TestMain(m *testing.M) {
	for _, arg := range os.Args[1:] {
		if arg == "-role" {
			main()
		}
	}
	os.Exit(m.Run())
}

// An output collects what several processes write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestRun runs everything for some lives of the writer. It repeats if every writer was killed
// before it did what the test looks for.
func TestRun(t *testing.T) {
	lives := "20"
	if testing.Short() {
		lives = "8"
	}
	for try := 1; ; try++ {
		var out, errs output
		status := run([]string{"-for", "10m", "-lives", lives}, &out, &errs)
		t.Logf("%s%s", &out, &errs)
		if status != exitGood || errs.String() != "" || !regexp.MustCompile(`(?m)^violations +0$`).MatchString(out.String()) {
			t.Fatalf("exit status %d", status)
		}
		var missing []string
		wants := []string{`^operations +[1-9]\d* inserts`, `^lookups +[1-9]\d* by readers, [1-9]`, `^commits +[1-9]`}
		for _, in := range []string{"in C", "in Python"} { // where they are
			if strings.Contains(out.String(), "lookups "+in) {
				wants = append(wants, "^lookups "+in+` +[1-9]\d*, and [1-9]`)
			}
		}
		for _, want := range wants {
			if !regexp.MustCompile(`(?m)` + want).MatchString(out.String()) {
				missing = append(missing, want)
			}
		}
		if missing == nil {
			return
		}
		if try == 5 {
			t.Fatalf("the table has no lines %q", missing)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"-h", exitGood, "-seed"},
		{"-for 1", exitError, "invalid value"},
		{"file", exitError, "no argument"},
		{"-role king", exitError, "unknown role"},
	} {
		var out, errs bytes.Buffer
		if status := run(strings.Fields(c.args), &out, &errs); status != c.status || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: status %d, and %q", c.args, status, &errs)
		}
	}
}
