//go:build faults

package main

import (
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/mistake"
)

// TestMistakes has all processes make each of the mistakes that show without a
// loss of power, and the program find it. Of the others it would see nothing, or
// by a chance that is too rare: a superblock cut in two by a kill, a counter that
// is loaded some nanoseconds late.
//
//	go test -tags faults ./tools/stress -run TestMistakes -v
func TestMistakes(t *testing.T) {
	for _, m := range []mistake.Mistake{
		mistake.RemoveBeforeCopy, mistake.EarlyDelete, mistake.UnchainedLog,
		mistake.MoveWithoutLog, mistake.ResetBeforeSuperblock, mistake.LiveReplay,
	} {
		t.Run(m.String(), func(t *testing.T) {
			defer func() { mistake.Current = mistake.None }()
			var out, errs output
			dir := t.TempDir() + "/files"
			status := run([]string{"-for", "10m", "-lives", "2000", "-dir", dir, "-mistake", m.String()}, &out, &errs)
			first, _, _ := strings.Cut(errs.String(), "\n")
			t.Logf("%.300s", first)
			if status != exitViolation || !strings.HasPrefix(first, "VIOLATION") {
				t.Errorf("exit status %d:\n%s%s", status, &out, &errs)
			}
		})
	}
}
