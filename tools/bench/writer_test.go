package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWriterPicture: the picture is drawn from the CSV file alone, says which measurement it is of, and
// -draw draws it again.
func TestWriterPicture(t *testing.T) {
	out := filepath.Join(t.TempDir(), "writer.svg")
	m := &writerMeasure{
		peaks: []time.Duration{time.Microsecond, 1234567 * time.Nanosecond, 30 * time.Millisecond},
		marks: []time.Duration{25 * time.Millisecond, 45 * time.Millisecond},
	}
	for every, syncs := range map[int]string{65_536: "a sync every 65,536 operations", 0: "commits by the timer"} {
		if err := m.save(writerData(out), 64<<20, every); err != nil {
			t.Fatal(err)
		}
		if err := drawWriter(out); err != nil {
			t.Fatal(err)
		}
		first := readFile(t, out)
		for _, text := range []string{">How long does an insert or a delete wait? 64 MiB, " + syncs + "<", ">Insert or Delete<", ">a checkpoint ends<"} {
			if !strings.Contains(first, text) {
				t.Errorf("the picture has no %q", text)
			}
		}
		if n := strings.Count(first, "stroke-dasharray"); n != len(m.marks) {
			t.Errorf("%d checkpoints are drawn, not %d", n, len(m.marks))
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		short(t, "writer", "-draw", "-out", out)
		if readFile(t, out) != first {
			t.Error("-draw draws another picture")
		}
	}
	head := strings.Join(writerHeader, ",") + "\n"
	for want, text := range map[string]string{
		"has no rows":  head,
		"wrong number": head + "1,2\n",
		"of 2 cells":   "bytes,sync every\n1,2\n",
		"invalid":      head + "1,2,longest operation,0.1,many\n",
		"about \"x\"":  head + "1,2,x,0.1,1\n",
		"no points":    head + "1,2,a checkpoint ends,0.1,0\n",
	} {
		if err := os.WriteFile(writerData(out), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := drawWriter(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not: %v", want, err)
		}
	}
}
